"""How fast scrapes are read: MB per second and peak memory, beside prometheus_client's parser on the same bytes.

    python benchmarks/metrics_rate.py [--mb 100] [--series 800] [--oracle-mb 10] [--seed 1]

A file is made of one made-up scrape of a vLLM server again and again, with the moment before each and
changing values, and read in a process of its own. The other parser builds objects of every sample and gets
a part of the file. The figures depend on the machine; the ratio does less.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

BOUNDS = (*(f"{n / 100:g}" for n in range(1, 10)), "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "20.0", "+Inf")
HISTOGRAMS = ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds")
PLAIN = (
    ("num_requests_running", "gauge"),
    ("num_requests_waiting", "gauge"),
    ("kv_cache_usage_perc", "gauge"),
    ("prompt_tokens_total", "counter"),
    ("generation_tokens_total", "counter"),
    ("num_preemptions_total", "counter"),
)
START = 1_796_000_000


class Server:
    """A server whose counters go on; `series` is about how many of them it shows."""

    def __init__(self, series: int, dice: random.Random) -> None:
        per_engine = len(HISTOGRAMS) * (len(BOUNDS) + 2) + len(PLAIN)
        self._engines = max(1, round(series / per_engine))
        self._dice = dice
        self._counts = [0.0] * (self._engines * per_engine)

    def scrape(self) -> Iterator[str]:
        """The lines of the next scrape."""
        at = 0
        for name, kind in PLAIN:
            yield f"# HELP vllm:{name} What {name} says.\n# TYPE vllm:{name} {kind}\n"
            for engine in range(self._engines):
                yield f'vllm:{name}{{engine="{engine}",model_name="demo-8b"}} {self._next(at, name)}\n'
                at += 1
        for name in HISTOGRAMS:
            yield f"# HELP vllm:{name} Histogram of {name}.\n# TYPE vllm:{name} histogram\n"
            for engine in range(self._engines):
                labels = f'engine="{engine}",model_name="demo-8b"'
                for bound in BOUNDS:
                    yield f'vllm:{name}_bucket{{{labels},le="{bound}"}} {self._next(at)}\n'
                    at += 1
                yield f"vllm:{name}_count{{{labels}}} {self._next(at)}\nvllm:{name}_sum{{{labels}}} {self._next(at + 1)}\n"
                at += 2

    def _next(self, at: int, name: str = "") -> float:
        if name == "kv_cache_usage_perc":
            return round(self._dice.random(), 4)
        # most series of a real server stand still between two scrapes
        if self._dice.random() < 0.3:
            self._counts[at] += self._dice.randrange(1, 50)
        return self._counts[at]


def write(path: Path, size: int, server: Server) -> int:
    """Write about `size` bytes of scrapes, a second apart; returns the bytes."""
    written = scrapes = 0
    with path.open("w", encoding="utf-8") as handle:
        while written < size:
            written += handle.write(f"# scrape_ts {START + scrapes}.25\n" + "".join(server.scrape()))
            scrapes += 1
    return written


def read_kvpm(path: Path) -> int:
    """Samples read by this project's reader."""
    from analyzer.parsers.metrics.prometheus_text import PrometheusText
    from analyzer.parsers.reader import Given, ReadOptions
    from analyzer.sources.opening import TextInput
    from analyzer.trace.spool import Spool

    with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as scratch:
        blocks = iter(TextInput(path))
        options = ReadOptions(zone=None, year=None, newest=datetime.now(UTC))
        return PrometheusText().read(Given("s", path.name, path, "", blocks, Spool(Path(scratch)), options)).counts.records


def read_client(path: Path) -> int:
    """Samples read by prometheus_client."""
    from prometheus_client.parser import text_fd_to_metric_families

    with path.open(encoding="utf-8") as handle:
        return sum(len(family.samples) for family in text_fd_to_metric_families(handle))


def ingest_kvpm(path: Path) -> int:
    """Samples in the stored trace: the whole way, sorted and written."""
    from analyzer import ingest

    with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as scratch:
        return ingest([str(path)], Path(scratch) / "t.kvtrace").manifest.totals["samples"]


READERS = {"kvpm, read": read_kvpm, "kvpm, to the trace": ingest_kvpm, "prometheus_client": read_client}


def child(reader: str, path: Path) -> None:
    """Print what one reader took, as JSON: run in a process of its own, whose peak memory is its own."""
    started, before = time.perf_counter(), time.process_time()
    samples = READERS[reader](path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"samples": samples, "wall": time.perf_counter() - started, "cpu": time.process_time() - before, "peak": peak}))


def measure(reader: str, path: Path) -> tuple[float, float]:
    """Run `child` and print its line; returns MB per CPU second and peak memory in MiB."""
    command = [sys.executable, __file__, "--child", reader, str(path)]
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env={"PYTHONPATH": root})
    if done.returncode:
        sys.exit(done.stderr)
    said = json.loads(done.stdout)
    size = path.stat().st_size / 1e6
    rate = size / said["cpu"]
    print(f"{reader:<18} {size:>8.1f} {said['samples']:>11,} {said['wall']:>8.2f} {said['cpu']:>8.2f} {rate:>9.1f} {said['peak']:>9.0f}")
    return rate, said["peak"]


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast scrapes are read, beside prometheus_client's parser.")
    parser.add_argument("--mb", type=float, default=100.0, help="size of the file in MB (default: 100)")
    parser.add_argument("--oracle-mb", type=float, default=10.0, help="size of the part the other parser reads (default: 10)")
    parser.add_argument("--series", type=int, default=800, help="series in a scrape (default: 800)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the values (default: 1)")
    parser.add_argument("--child", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return
    with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as scratch:
        large, small = Path(scratch) / "large.prom", Path(scratch) / "small.prom"
        write(large, int(options.mb * 1e6), Server(options.series, random.Random(options.seed)))
        write(small, int(min(options.oracle_mb, options.mb) * 1e6), Server(options.series, random.Random(options.seed)))
        print(f"{'reader':<18} {'MB':>8} {'samples':>11} {'wall s':>8} {'CPU s':>8} {'MB/CPU s':>9} {'peak MiB':>9}")
        rates = [measure(name, small if name == "prometheus_client" else large)[0] for name in READERS]
        print(f"ratio of the rates: {rates[0] / rates[2]:.1f} read, {rates[1] / rates[2]:.1f} to the trace")


if __name__ == "__main__":
    main()
