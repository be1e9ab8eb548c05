"""How fast logs are read: CPU seconds of `kvpm ingest` on made-up logs, beside `grep -c` on the same file.

    python benchmarks/ingest_rate.py [--mb 20] [--seed 1]

Three logs are made from lines of the sample traces, with numbers perturbed and time going on: scheduler
lines only (SGLang, then vLLM), and one where 3 % are, as in a server that logs every request. Nothing but
the standard library is used here. The figures depend on the machine; the ratio to grep does less.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
SCHEDULER = {"sglang": re.compile(r"(?:Prefill|Decode) batch"), "vllm": re.compile("Avg prompt throughput: ")}
STAMP = {
    "sglang": (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "%Y-%m-%d %H:%M:%S"),
    "vllm": (re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d"), "%m-%d %H:%M:%S"),
}
NUMBER = re.compile(r"(?<=#token: )\d+|(?<=throughput: )\d+|(?<=throughput \(token/s\): )\d+|(?<=#cached-token: )\d+")
SPARSE_SHARE = 0.03
# Lines that are no engine's: what a front end in the same container prints.
OTHER = (
    "request 7f3c2a1e tenant=acme model=demo-8b stream=true prompt_chars=8123 accepted in 0.8 ms",
    "  File \"/srv/app/gateway/handlers.py\", line 214, in chat_completions",
    "healthcheck ok, 14 connections open",
)  # fmt: skip


def sample_lines(engine: str) -> tuple[list[str], list[str]]:
    """(scheduler lines, access lines) of the generated L1 incident."""
    lines = (SAMPLES / f"l1_bound_{engine}" / "server.log").read_text(encoding="utf-8").splitlines()
    return [x for x in lines if SCHEDULER[engine].search(x)], [x for x in lines if " HTTP/" in x]


def endless(lines: list[str], engine: str, dice: random.Random) -> Iterator[str]:
    """`lines` over and over, each pass later than the one before, with some numbers changed."""
    pattern, form = STAMP[engine]
    # a year that has 29 February: vLLM prints none
    stamps = [datetime.strptime(f"2024 {m[0][-14:]}", "%Y %m-%d %H:%M:%S") for m in map(pattern.search, lines) if m]
    span = max(stamps) - min(stamps) + timedelta(seconds=1)
    year = timedelta(0) if engine == "vllm" else datetime(2026, 1, 1) - datetime(2024, 1, 1)
    turn = 0
    while True:
        shift = span * turn

        def later(match: re.Match[str], shift: timedelta = shift) -> str:
            moment = datetime.strptime(f"2024 {match[0][-14:]}", "%Y %m-%d %H:%M:%S")
            return (moment + shift + year).strftime(form)

        for line in lines:
            line = pattern.sub(later, line, count=1)
            yield NUMBER.sub(lambda m: str(int(int(m[0]) * dice.uniform(0.9, 1.1))), line)
        turn += 1


def dense(engine: str, dice: random.Random) -> Iterator[str]:
    """Scheduler lines only."""
    return endless(sample_lines(engine)[0], engine, dice)


def sparse(engine: str, dice: random.Random) -> Iterator[str]:
    """3 % scheduler lines among access lines and lines that are no engine's."""
    wanted, access = sample_lines(engine)
    reports, requests = endless(wanted, engine, dice), endless(access, engine, dice)
    while True:
        draw = dice.random()
        if draw < SPARSE_SHARE:
            yield next(reports)
        elif draw < 0.65:
            yield next(requests)
        else:
            yield dice.choice(OTHER)


def write_log(path: Path, lines: Iterator[str], size: int) -> int:
    """Write about `size` bytes of `lines`; returns the bytes."""
    written = 0
    with path.open("w", encoding="utf-8") as handle:
        while written < size:
            written += handle.write(next(lines) + "\n")
    return path.stat().st_size


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds of kvpm ingest beside grep -c, on made-up logs.")
    parser.add_argument("--mb", type=float, default=20.0, help="size of each log in MB (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the perturbed numbers (default: 1)")
    options = parser.parse_args()
    kinds: tuple[tuple[str, str, Callable[[str, random.Random], Iterator[str]]], ...] = (
        ("dense, SGLang", "sglang", dense),
        ("dense, vLLM", "vllm", dense),
        ("sparse, SGLang", "sglang", sparse),
    )
    with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as scratch:
        empty = Path(scratch) / "little.log"
        write_log(empty, dense("sglang", random.Random(options.seed)), 1000)
        start_up = cpu_seconds([sys.executable, "-m", "analyzer", "ingest", str(empty), "-o", f"{scratch}/little.kvtrace"])
        print(f"start-up, in every figure below: {start_up:.1f} CPU s")
        print(f"{'log':<16} {'MB':>6} {'ingest CPU s':>13} {'MB/s':>7} {'grep CPU s':>11} {'ratio':>7}")
        for number, (name, engine, lines) in enumerate(kinds):
            log = Path(scratch) / f"{number}.log"
            size = write_log(log, lines(engine, random.Random(options.seed)), int(options.mb * 1e6)) / 1e6
            pattern = "batch" if engine == "sglang" else "throughput"
            grep = cpu_seconds(["grep", "-c", pattern, str(log)])
            trace = f"{scratch}/{number}.kvtrace"
            took = cpu_seconds([sys.executable, "-m", "analyzer", "ingest", str(log), "-o", trace, "--year", "2024"])
            ratio = f"{took / grep:.0f}" if grep > 0 else "-"
            print(f"{name:<16} {size:>6.1f} {took:>13.1f} {size / took:>7.2f} {grep:>11.3f} {ratio:>7}")
            log.unlink()


if __name__ == "__main__":
    main()
