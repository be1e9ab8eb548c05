"""Reads a log given as text all the way to rows, as ingest does, for the tests beside this file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

import pyarrow as pa

from analyzer.parsers.engine_log import EngineLogReader
from analyzer.parsers.reader import Given, ReadOptions, SourceRead
from analyzer.trace.schema import TABLES
from analyzer.trace.spool import Spool

SGLANG_DECODE = (
    "[2026-01-02 03:04:05 TP0] Decode batch, #running-req: 24, #token: 81234, token usage: 0.62, cuda graph: True, "
    "gen throughput (token/s): 1534.21, #queue-req: 17"
)
VLLM_STATS = (
    "(APIServer pid=77) INFO 01-02 03:04:05 [loggers.py:338] Engine 000: Avg prompt throughput: 812.4 tokens/s, "
    "Avg generation throughput: 153.0 tokens/s, Running: 24 reqs, Waiting: 17 reqs, GPU KV cache usage: 96.8%, "
    "Prefix cache hit rate: 41.3%"
)


@dataclass
class Reading:
    """What one log gave: rows by table, and the account of its lines."""

    log: SourceRead
    rows: dict[str, list[dict[str, Any]]]

    def only(self, table: str) -> dict[str, Any]:
        """The single row of `table`."""
        (row,) = self.rows[table]
        return row

    @property
    def facts(self) -> dict[str, Any]:
        """Facts by key: numbers as numbers, others as text."""
        return {r["key"]: r["number"] if r["type"] in ("int", "float") else r["value"] for r in self.rows["facts"]}

    def without(self, *columns: str) -> dict[str, list[dict[str, Any]]]:
        """All rows without the columns named (a line number changes when lines are wrapped)."""
        return {t: [{k: v for k, v in row.items() if k not in columns} for row in rows] for t, rows in self.rows.items()}


class _Rows:
    """Takes rows as the spool does, and lets Arrow judge them, without files."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def add(self, table: str, row: dict[str, Any]) -> None:
        self._rows.setdefault(table, []).append(row)

    def add_batch(self, table: str, batch: pa.RecordBatch) -> None:
        self._rows.setdefault(table, []).extend(batch.to_pylist())

    def stored(self, table: str) -> list[dict[str, Any]]:
        # rows read in bulk come after those of their block that were read one by one
        rows = sorted(self._rows.get(table, []), key=lambda row: row["record"])
        return pa.RecordBatch.from_pylist(rows, schema=TABLES[table].arrow).to_pylist() if rows else []


def read(
    text: str, *, zone: tzinfo | None = None, year: int | None = 2026, newest: datetime = datetime(2026, 12, 1, tzinfo=UTC)
) -> Reading:
    """Read `text`. The account of lines must add up, whatever the text is."""
    spool = _Rows()
    given = Given("s", "server.log", None, text[:65536], _chunks(text), cast(Spool, spool), ReadOptions(zone, year, newest))
    log = EngineLogReader().read(given)
    rows = {name: [_told(row) for row in spool.stored(name)] for name in TABLES if name != "sources"}
    c = log.counts
    assert c.lines == c.matched + c.ignored + c.unmatched + c.other, "the account of lines does not add up"
    assert c.lines == text.count("\n") + (not text.endswith("\n") and bool(text.rpartition("\n")[2]))
    return Reading(log, rows)


def _chunks(text: str) -> Iterator[bytes]:
    # odd block sizes, so that lines are cut by blocks
    # lone surrogates are no text that bytes can give, but what stands for a bad byte is
    data = re.sub("[\ud800-\udc7f\udd00-\udfff]", "?", text).encode("utf-8", "surrogateescape")
    for at in range(0, len(data), 997):
        yield data[at : at + 997]


def _told(row: dict[str, Any]) -> dict[str, Any]:
    return {k: dict(v) if k == "extra" and v else v for k, v in row.items() if v is not None}
