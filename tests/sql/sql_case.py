"""Tiny input rows, a query, the expected rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
from needed import Database

from analyzer.diagnosis.thresholds import thresholds
from analyzer.trace.schema import TABLES

T0 = datetime(2026, 3, 10, 12, 0, 0, tzinfo=UTC)
Row = Mapping[str, Any]

_ORIGIN = {"source_id": "s", "instance": "i", "run_id": "r1", "engine": "sglang", "stream": ""}


def at(seconds: float) -> datetime:
    """A moment after the beginning."""
    return T0 + timedelta(seconds=seconds)


def report(t: float, **columns: Any) -> dict[str, Any]:
    """One row of `scheduler`; a decode line of SGLang unless told otherwise."""
    return {**_ORIGIN, "ts": at(t), "kind": "decode", **columns}


def stats(t: float, **columns: Any) -> dict[str, Any]:
    """One stats line of vLLM."""
    return report(t, **{"engine": "vllm", "kind": "stats", **columns})


def event(t: float, kind: str, **columns: Any) -> dict[str, Any]:
    """One row of `events`."""
    return {**_ORIGIN, "ts": at(t), "kind": kind, "text": kind, **columns}


def fact(key: str, value: Any, **columns: Any) -> dict[str, Any]:
    """One row of `facts`."""
    number = float(value) if isinstance(value, (int, float)) else None
    return {**_ORIGIN, "ts": at(-60), "key": key, "value": str(value).lower(), "number": number, **columns}


def request(t: float, **columns: Any) -> dict[str, Any]:
    """One row of `requests`."""
    return {**_ORIGIN, "arrival_ts": at(t), "observer": "client", "clock": "wall", "status": "finished", **columns}


def operation(t: float, op: str, **columns: Any) -> dict[str, Any]:
    """One row of `cache_ops`."""
    return {**_ORIGIN, "ts": at(t), "tier": "host", "op": op, "ok": True, **columns}


Points = Iterable[tuple[float, float | None]]
Series = dict[str, Any]


def series(name: str, points: Points, *, labels: Mapping[str, str] | None = None, **columns: Any) -> Series:
    """One series and its samples: (seconds after the beginning, value). Rank labels give the rank, as a parser would."""
    labels = {k: str(v) for k, v in (labels or {}).items()}
    ranks = {rank: int(labels[label]) for label, rank in (("dp_rank", "dp"), ("engine", "dp"), ("worker_id", "tp")) if label in labels}
    told = [(at(t), value) for t, value in points]
    return {
        **_ORIGIN, **ranks, "name": name, "raw_name": name, "labels": sorted(labels.items()), "counted": True, "samples": len(told),
        "first_ts": min(t for t, _ in told), "last_ts": max(t for t, _ in told), **columns, "_samples": told,
    }  # fmt: skip


def histogram(name: str, points: Iterable[tuple[float, Mapping[float, float]]], **columns: Any) -> list[Series]:
    """One series for each bound, and the count: (seconds after the beginning, cumulative counts by upper bound)."""
    labels = columns.pop("labels", {})
    told = list(points)
    bounds = sorted({le for _, counts in told for le in counts})
    buckets = [
        series(
            name,
            [(t, counts[le]) for t, counts in told if le in counts],
            part="bucket",
            le=le,
            labels={**labels, "le": f"{le:g}"},
            **columns,
        )
        for le in bounds
    ]
    return [*buckets, series(name, [(t, max(counts.values())) for t, counts in told], part="count", labels=labels, **columns)]


def cumulative(values: Sequence[float], bounds: Sequence[float]) -> dict[float, float]:
    """What a histogram with these finite bounds says of the values."""
    return {le: sum(v <= le for v in values) for le in (*bounds, math.inf)}


def metrics(*given: Series | list[Series]) -> dict[str, list[dict[str, Any]]]:
    """The tables `series` and `samples`, to be given to `database`."""
    flat = [one for some in given for one in (some if isinstance(some, list) else [some])]
    rows = [{k: v for k, v in one.items() if k != "_samples"} | {"series_id": n} for n, one in enumerate(flat, 1)]
    samples = [{"series_id": n, "ts": ts, "value": value} for n, one in enumerate(flat, 1) for ts, value in one["_samples"]]
    return {"series": rows, "samples": samples}


def database(*, since: datetime | None = None, until: datetime | None = None, **tables: Sequence[Row]) -> Database:
    """The views over the given rows. Rows get line numbers in their order."""
    con = duckdb.connect(":memory:")
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET threads = 1")
    for name, moment in (("since", since), ("until", until)):
        con.execute(f"SET VARIABLE {name} = " + ("NULL" if moment is None else f"TIMESTAMPTZ '{moment.isoformat()}'"))
    for name, value in thresholds().items():
        con.execute(f"SET VARIABLE {name} = {value!r}::DOUBLE")
    tables = {"sources": [{"source_id": "s", "path": "server.log"}], **tables}
    for name, table in TABLES.items():
        rows = [{"record": n, **row} if name not in ("sources", "samples") else dict(row) for n, row in enumerate(tables.get(name, ()), 1)]
        unknown = {column for row in rows for column in row} - {c.name for c in table.columns}
        assert not unknown, unknown
        con.register("_rows", pa.Table.from_pylist(rows, schema=table.arrow))
        con.execute(f"CREATE TABLE {name} AS FROM _rows")
        con.unregister("_rows")
    return Database(con)


def rows_of(con: Database, sql: str) -> list[tuple[Any, ...]]:
    """The result, with times as seconds after the beginning and numbers rounded."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return (value - T0).total_seconds()
        return round(value, 4) if isinstance(value, float) else value

    return [tuple(plain(v) for v in row) for row in con.execute(sql).fetchall()]


def row_of(con: Database, view: str, instance: str = "i") -> dict[str, Any]:
    """The one row of an instance in a view, by column."""
    names = [d[0] for d in con.execute(f"DESCRIBE {view}").fetchall()]
    found = rows_of(con, f"SELECT * FROM {view} WHERE instance = '{instance}'")
    assert len(found) == 1, found
    return dict(zip(names, found[0], strict=True))
