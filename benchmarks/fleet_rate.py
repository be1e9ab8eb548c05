"""What a fleet costs: CPU seconds and bytes of `kvpm batch --dataset`, for a capture and for a megabyte of its log.

    python -m benchmarks.fleet_rate [--mb 20] [--captures 4] [--seed 1]

Captures of two sizes are made from lines of the sample traces, sparse logs as servers have them (`inputs/logs.py`), and read by
one process each time; what a capture costs however small it is, and what a megabyte more does, follow from the two. Both
are what docs/scale.md reckons with.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.inputs import logs
from benchmarks.inputs.writing import write


@dataclass(frozen=True)
class Batch:
    """A batch of captures of one size: MB of log and CPU seconds of all, and bytes of what it wrote."""

    captures: int
    mb: float
    cpu_s: float
    reports: int
    dataset: int
    parts: int
    peak_mib: float


def run(folder: Path, captures: int, mb: float, seed: int) -> Batch:
    """Make the captures, read them with one process, and count."""
    size = 0
    for number in range(captures):
        log = folder / "captures" / f"pod-{number}" / "server.log"
        log.parent.mkdir(parents=True)
        size += write(log, logs.sparse("sglang", seed + number), int(mb * 1e6))
    out = folder / "out"
    command = [sys.executable, "-m", "analyzer", "batch", str(folder / "captures"), "-o", str(out), "--jobs", "1", "--dataset"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr)
    parts = list((out / "dataset").rglob("*.parquet"))
    return Batch(
        captures,
        size / 1e6,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        sum(p.stat().st_size for p in (out / "reports").iterdir()),
        sum(p.stat().st_size for p in parts),
        len(parts),
        after.ru_maxrss / 1024,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds and bytes of kvpm batch, for a capture and for a megabyte.")
    parser.add_argument("--mb", type=float, default=20.0, help="size of each large log in MB (default: 20)")
    parser.add_argument("--captures", type=int, default=4, help="captures of each size (default: 4)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the logs (default: 1)")
    options = parser.parse_args()
    batches = []
    print(f"{'captures':>8} {'MB each':>8} {'CPU s each':>11} {'report kB':>10} {'dataset kB':>11} {'files':>6} {'peak MiB':>9}")
    for mb in (options.mb / 10, options.mb):
        with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as scratch:
            made = run(Path(scratch), options.captures, mb, options.seed)
        n = made.captures
        print(
            f"{n:>8} {made.mb / n:>8.1f} {made.cpu_s / n:>11.2f} {made.reports / n / 1e3:>10.0f} {made.dataset / n / 1e3:>11.0f} "
            f"{made.parts:>6} {made.peak_mib:>9.0f}"
        )
        batches.append(made)
    small, large = batches
    more_mb, more_s = large.mb - small.mb, large.cpu_s - small.cpu_s
    fixed = (small.cpu_s - small.mb * more_s / more_mb) / small.captures
    print(f"a capture, however small: {fixed:.2f} CPU s; a MB more: {more_s / more_mb:.3f} CPU s")


if __name__ == "__main__":
    main()
