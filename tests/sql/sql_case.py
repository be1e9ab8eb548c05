"""Tiny input rows, a query, the expected rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

from analyzer.diagnosis.thresholds import thresholds
from analyzer.trace.reader import create_views
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


def database(*, since: datetime | None = None, until: datetime | None = None, **tables: Sequence[Row]) -> duckdb.DuckDBPyConnection:
    """All views over the given rows. Rows get line numbers in their order."""
    con = duckdb.connect(":memory:")
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET threads = 1")
    for name, moment in (("since", since), ("until", until)):
        con.execute(f"SET VARIABLE {name} = " + ("NULL" if moment is None else f"TIMESTAMPTZ '{moment.isoformat()}'"))
    for name, value in thresholds().items():
        con.execute(f"SET VARIABLE {name} = {value!r}::DOUBLE")
    tables = {"sources": [{"source_id": "s", "path": "server.log"}], **tables}
    for name, table in TABLES.items():
        rows = [{"record": n, **row} if name != "sources" else dict(row) for n, row in enumerate(tables.get(name, ()), 1)]
        unknown = {column for row in rows for column in row} - {c.name for c in table.columns}
        assert not unknown, unknown
        con.register("_rows", pa.Table.from_pylist(rows, schema=table.arrow))
        con.execute(f"CREATE TABLE {name} AS FROM _rows")
        con.unregister("_rows")
    create_views(con)
    return con


def rows_of(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """The result, with times as seconds after the beginning and numbers rounded."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return (value - T0).total_seconds()
        return round(value, 4) if isinstance(value, float) else value

    return [tuple(plain(v) for v in row) for row in con.execute(sql).fetchall()]


def row_of(con: duckdb.DuckDBPyConnection, view: str, instance: str = "i") -> dict[str, Any]:
    """The one row of an instance in a view, by column."""
    names = [d[0] for d in con.execute(f"DESCRIBE {view}").fetchall()]
    found = rows_of(con, f"SELECT * FROM {view} WHERE instance = '{instance}'")
    assert len(found) == 1, found
    return dict(zip(names, found[0], strict=True))
