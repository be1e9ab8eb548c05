"""What a log costs that grew: CPU seconds of `kvpm ingest` for the whole, unchanged, for what it grew by, and for that alone.

    python -m benchmarks.growing_rate [--mb 320] [--more 3] [--turns 3] [--engine sglang] [--seed 1]

Each figure is the least of some turns, of one process. The log is of dense lines, made of those of the sample traces (`inputs/logs.py`).
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.inputs import logs
from benchmarks.inputs.writing import MB, write


def ingest(log: Path, trace: Path) -> float:
    """CPU seconds of reading `log` into `trace`."""
    command = [sys.executable, "-m", "analyzer", "ingest", str(log), "-o", str(trace), "--jobs", "1", "--year", "2024"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def turn(folder: Path, whole: Path, first: int) -> list[float]:
    """CPU seconds of the first `first` bytes of `whole`, of the same again, of the whole, and of the rest alone."""
    log, rest, trace = folder / "server.log", folder / "rest.log", folder / "server.kvtrace"
    with whole.open("rb") as handle:
        with log.open("wb") as begun:
            while begun.tell() < first:
                begun.write(handle.read(min(1 << 20, first - begun.tell())))
        more = handle.read()
    took = [ingest(log, trace), ingest(log, trace)]
    with log.open("ab") as grown:
        grown.write(more)
    rest.write_bytes(more)
    took += [ingest(log, trace), ingest(rest, folder / "rest.kvtrace")]
    for made in (trace, folder / "rest.kvtrace"):
        shutil.rmtree(made)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds of kvpm ingest for a log that grew.")
    parser.add_argument("--mb", type=float, default=320.0, help="size of the grown log in MB (default: 320)")
    parser.add_argument("--more", type=float, default=3.0, help="MB that it grew by (default: 3)")
    parser.add_argument("--turns", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--engine", choices=("sglang", "vllm"), default="sglang", help="whose log (default: sglang)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the log (default: 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as scratch:
        whole = Path(scratch) / "whole.log"
        size = write(whole, logs.dense(options.engine, options.seed), int(options.mb * MB))
        first = size - int(options.more * MB)
        took = [turn(Path(scratch), whole, first) for _ in range(options.turns)]
    names = ("the first time", "again, unchanged", "what it grew by", "that much alone")
    for name, figures in zip(names, zip(*took, strict=True), strict=True):
        print(f"{name:<18} {min(figures):6.2f} CPU s")


if __name__ == "__main__":
    main()
