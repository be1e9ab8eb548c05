"""The command line of the benchmarks: `python -m benchmarks`, or `make bench` and `make bench-check`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.contest import Results, Row, hold
from benchmarks.guard import FACTOR, unknown, worse
from benchmarks.inputs.writing import MB
from benchmarks.machine import described
from benchmarks.page import page
from benchmarks.suites import SUITES
from benchmarks.table import bars_table, read_runs, runs_table
from benchmarks.workshop import Workshop


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. 1 if a bar is missed or a reader failed or, with --check, if something became worse."""
    options = _options(arguments)
    kept = _kept(options.check) if options.check else []
    begun = time.monotonic()
    results = measured(options)
    if not results.rows:
        _say(f"no input is called {options.only}")
        return 2
    print(runs_table(results.rows), bars_table(results.bars), described(), sep="\n\n")
    _say(f"\ntook {(time.monotonic() - begun) / 60:.1f} min")
    for failure in results.failures:
        print(f"FAILED: {failure}")
    if options.check:
        return _compared(kept, results, options)
    if options.keep and not results.failures:
        options.keep.write_text(page(results, described(), options.turns, options.seed), encoding="utf-8")
        print(f"kept in {options.keep}")
    missed = [f"MISSED: {bar.what}: {bar.measured}, wanted is {bar.wanted}" for bar in results.bars if not bar.met]
    print("\n".join(missed) or "All bars are met.")
    return 1 if missed or results.failures else 0


def measured(options: argparse.Namespace) -> Results:
    """All suites, one after the other, in a folder that is removed at the end."""
    results = Results()
    with TemporaryDirectory(prefix="kvpm-bench-", dir=options.folder) as name:
        folder = Path(name).resolve()
        size = None if options.size is None else int(options.size * MB)
        work = Workshop(folder, _say, size, options.only, options.seed)
        for contests in SUITES:
            for contest in contests(work):
                hold(contest, options.turns, folder, _say, results)
    return results


def _kept(path: Path) -> list[Row]:
    """The table to compare with."""
    try:
        return read_runs(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}; `make bench` keeps a table there")


def _compared(kept: Sequence[Row], results: Results, options: argparse.Namespace) -> int:
    """Print what became worse; 1 if anything did."""
    asked = {row.input for row in results.rows}
    kept = [row for row in kept if options.only == "*" or row.input in asked]
    found = [*worse(kept, results.rows, options.factor)]
    for line in found:
        print(f"WORSE: {line}")
    for name in unknown(kept, results.rows):
        print(f"new: {name} is not in {options.check}; `make bench` keeps it there")
    if not (found or results.failures):
        print(f"Nothing is worse than in {options.check} by more than {options.factor:g} times.")
    return 1 if found or results.failures else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast kvpm is, beside others that read the same inputs.")
    parser.add_argument("--size", type=float, metavar="MB", help="size of each input (default: each its own, 100 to 1000)")
    parser.add_argument("--only", default="*", metavar="NAME", help="only inputs whose name has this in it, or matches it as a pattern")
    parser.add_argument("--turns", type=int, default=3, help="runs of each reader, the lowest is taken (default: 3)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the inputs (default: 1)")
    parser.add_argument("--folder", type=Path, help="where inputs and traces go for the time (default: the system's)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the page of the result")
    parser.add_argument("--check", type=Path, metavar="FILE", help="compare ratios with those in this page instead")
    parser.add_argument("--factor", type=float, default=FACTOR, help=f"how much worse a ratio may be (default: {FACTOR})")
    options = parser.parse_args(arguments)
    if options.keep and options.only != "*":
        parser.error("--keep needs all inputs")
    if options.turns < 1 or (options.size is not None and options.size <= 0):
        parser.error("--turns and --size are above 0")
    return options


def _say(text: str) -> None:
    """Told while it goes on, apart from the result."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
