"""What a day of 64 ranks takes: its diagnosis, and each view of its trace.

    python -m benchmarks.day_rate [--share 0.1] [--seed 1]

The whole day (`--share 1`) is ten million reports and ninety-five million samples (`inputs/day_of_ranks.py`); a tenth of it
are as many ranks that report a tenth as often. Seconds are of the CPU: divided by the cores, they are about those of an idle clock.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from analyzer.trace.reader import Trace
from benchmarks.inputs.day_of_ranks import Scale, write_day
from benchmarks.process import run
from benchmarks.workshop import kvpm

_SHOWN = 15


def main() -> None:
    """Make the day, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvpm-day-") as name:
        folder = Path(name)
        trace = folder / "day.kvtrace"
        reports, samples = write_day(trace, Scale.share(options.share), options.seed)
        print(f"{reports:,} reports, {samples:,} samples, {sum(f.stat().st_size for f in trace.rglob('*.parquet')) / 1e6:.0f} MB")
        done = run(kvpm("diagnose", trace), folder)
        print(f"kvpm diagnose: {done.cpu_s:.1f} CPU s, {done.wall_s:.1f} s, {done.peak / 1e6:.0f} MB")
        opening, views = views_of(trace)
        print(f"opening, with the views that are kept: {opening:.1f} CPU s; then the slowest views, all of their rows:")
        for view, took in sorted(views.items(), key=lambda entry: -entry[1])[:_SHOWN]:
            print(f"  {view:20} {took:6.2f} CPU s")


def views_of(trace: Path) -> tuple[float, dict[str, float]]:
    """CPU seconds of opening the trace, and of each view that is not kept by then."""
    begun = time.process_time()
    with Trace(trace) as opened:
        opening = time.process_time() - begun
        took: dict[str, float] = {}
        for (view,) in opened.con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall():
            begun = time.process_time()
            opened.con.execute(f"CREATE OR REPLACE TEMP TABLE _read AS SELECT * FROM {view}")
            took[view] = time.process_time() - begun
    return opening, took


if __name__ == "__main__":
    main()
