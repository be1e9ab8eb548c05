"""A parser as tools around the engines have it: lines into polars, `extract_groups` for each kind, typed columns, Parquet out.

python -m benchmarks.peers.polars_groups [--words-first] ENGINE LOG OUT

Those tools ask the expression of every line. With --words-first only lines with the kind's words are asked, which is faster.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from benchmarks.peers.line_kinds import KINDS, TEXTS

# What goes before a stamp that has no year.
YEAR = {"sglang": "", "vllm": "2024-"}


def parse(engine: str, log: Path, out: Path, *, words_first: bool = False) -> int:
    """Write a Parquet file for each kind into `out`; returns the lines that were read."""
    lines = pl.DataFrame({"line": log.read_text(encoding="utf-8").splitlines()})
    moment = (pl.lit(YEAR[engine]) + pl.col("ts")).str.to_datetime("%Y-%m-%d %H:%M:%S").alias("ts")
    found = 0
    for name, kind in KINDS[engine].items():
        asked = lines.filter(pl.col("line").str.contains(kind.words, literal=True)) if words_first else lines
        rows = (
            asked.with_columns(fields=pl.col("line").str.extract_groups(kind.pattern))
            .unnest("fields")
            .filter(pl.col("ts").is_not_null())
            .with_columns(moment, pl.exclude("line", *TEXTS).cast(pl.Float64))
        )
        rows.drop("line").write_parquet(out / f"{name}.parquet")
        found += len(rows)
    return found


if __name__ == "__main__":
    given = [a for a in sys.argv[1:] if a != "--words-first"]
    print(parse(given[0], Path(given[1]), Path(given[2]), words_first="--words-first" in sys.argv))
