"""Stores the series and samples of one source: split by process lifetime, sorted, numbered.

Samples are many, so they are sorted and joined by DuckDB, which spills to disk; only the series, which are
few, pass through Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from analyzer.trace.identity import Identity
from analyzer.trace.manifest import StoredFile, StoredSource
from analyzer.trace.schema import SAMPLES, SERIES
from analyzer.trace.store import publish, write_table

_MEMORY = "400MB"
_ROW_GROUP = 256 * 1024
_ALWAYS = datetime(1, 1, 2, tzinfo=UTC)
_NEVER = datetime(9999, 12, 30, tzinfo=UTC)
# Which source a series is of stands in its number's upper bits, so that no two traces' parts need renumbering.
_SOURCE_SHIFT = 32


def store_metrics(
    folder: Path,
    source: StoredSource,
    series: pa.Table,
    samples: Iterator[pa.RecordBatch],
    identity: Identity,
    scratch: Path,
    shift: timedelta,
) -> dict[str, StoredFile]:
    """Write `series` and `samples` (fresh from a spool, or stored before) and return their files.

    A series becomes one series for each process lifetime it has samples in. `shift` is added to all times.
    """
    rows = series.to_pylist()
    parts = _parts(source.source_id, rows, identity)
    con = duckdb.connect(":memory:")
    try:
        con.execute(f"SET memory_limit = '{_MEMORY}'")
        con.execute(f"SET temp_directory = '{str(scratch).replace(chr(39), chr(39) * 2)}'")
        con.execute("SET TimeZone = 'UTC'")
        con.execute("SET threads = 2")
        con.register("given", pa.RecordBatchReader.from_batches(SAMPLES.arrow, samples))
        con.register("part", pa.Table.from_pylist(parts, schema=_PART))
        target = folder / "samples"
        target.mkdir(parents=True, exist_ok=True)
        aside = target / f".{source.source_id}.{os.getpid()}.partial"
        con.execute(
            """
            CREATE TEMP TABLE placed AS
            SELECT p.number, g.ts, g.value
            FROM (SELECT series_id, ts + to_microseconds($shift) AS ts, value FROM given) AS g
            JOIN part AS p ON g.series_id = p.was AND g.ts >= p.from_ts AND g.ts < p.until_ts
            """,
            {"shift": int(shift / timedelta(microseconds=1))},
        )
        found = con.execute("SELECT number, count(*), min(ts), max(ts) FROM placed GROUP BY number").fetchall()
        kept = _numbered(parts, {n: (count, first, last) for n, count, first, last in found}, source.number)
        con.register(
            "numbers",
            pa.table(
                {"number": pa.array(list(kept), pa.int64()), "series_id": pa.array([r["series_id"] for r in kept.values()], pa.int64())}
            ),
        )
        name = str(aside).replace("'", "''")
        # one moment read twice is one sample
        con.execute(
            f"""
            COPY (
                SELECT n.series_id, p.ts, p.value
                FROM placed AS p JOIN numbers AS n USING (number)
                QUALIFY lead(p.ts) OVER (PARTITION BY n.series_id ORDER BY p.ts) IS DISTINCT FROM p.ts
                ORDER BY n.series_id, p.ts
            ) TO '{name}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROW_GROUP})
            """
        )
        count = con.execute(f"SELECT count(*) FROM read_parquet('{name}')").fetchone()
    finally:
        con.close()
    unique = sorted({r["series_id"]: r for r in kept.values()}.items())
    files = {"series": write_table(folder, "series", source.source_id, pa.Table.from_pylist([r for _, r in unique], schema=SERIES.arrow))}
    assert count is not None
    files["samples"] = StoredFile(publish(aside, folder, "samples", source.source_id), count[0])
    return files


_PART = pa.schema(
    [("number", pa.int64()), ("was", pa.int64()), ("from_ts", pa.timestamp("us", tz="UTC")), ("until_ts", pa.timestamp("us", tz="UTC"))]
)


def _parts(source_id: str, rows: list[dict[str, Any]], identity: Identity) -> list[dict[str, Any]]:
    """For each stored or fresh series and each run of its instance: the time its samples belong there."""
    parts: list[dict[str, Any]] = []
    for row in rows:
        instance = identity.instance[source_id, row["stream"] or ""]
        runs = identity.runs[instance]
        starts = [r.start for r in runs[1:] if r.start is not None]
        edges = [_ALWAYS, *starts, _NEVER]
        for n, run in enumerate(runs[: len(edges) - 1]):
            parts.append(
                {
                    "number": len(parts), "was": row["series_id"], "from_ts": edges[n], "until_ts": edges[n + 1],
                    "instance": instance, "run_id": run.run_id, "row": row,
                }
            )  # fmt: skip
    return parts


def _numbered(
    parts: list[dict[str, Any]], found: dict[int, tuple[int, datetime, datetime]], source_number: int
) -> dict[int, dict[str, Any]]:
    """By part: the series that its samples are of, numbered in the order of their names.

    Parts of a series that was split before and belongs together now become one again: they have one number.
    """
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    of: list[tuple[int, tuple[Any, ...]]] = []
    for part in parts:
        if part["number"] not in found:
            continue
        row = part["row"]
        key = (row["name"] or "~", row["part"] or "", row["raw_name"], tuple(row["labels"] or ()), part["run_id"], row["stream"] or "")
        count, first, last = found[part["number"]]
        old = merged.get(key)
        merged[key] = row | {
            "instance": part["instance"],
            "run_id": part["run_id"],
            "samples": count + (old["samples"] if old else 0),
            "first_ts": min(first, old["first_ts"]) if old else first,
            "last_ts": max(last, old["last_ts"]) if old else last,
        }
        of.append((part["number"], key))
    for index, key in enumerate(sorted(merged)):
        merged[key]["series_id"] = (source_number << _SOURCE_SHIFT) + index
    return {number: merged[key] for number, key in of}
