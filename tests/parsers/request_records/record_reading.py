"""Reads a file of request records given as text all the way to rows, for the tests beside this file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

import pyarrow as pa

from analyzer.parsers.reader import Given, Reader, ReadOptions, SourceRead
from analyzer.parsers.request_records import READERS
from analyzer.trace.batch_file import whole
from analyzer.trace.schema import TABLES
from analyzer.trace.spool import Spool

T0 = 1767323045.0
"""2026-01-02 03:04:05 UTC in epoch seconds."""
T = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Reading:
    """What one file gave: rows by table without their empty columns, and the account of its lines."""

    read: SourceRead
    rows: dict[str, list[dict[str, Any]]]

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The request rows."""
        return self.rows["requests"]

    def only(self) -> dict[str, Any]:
        """The single request."""
        (row,) = self.requests
        return row


class _Rows:
    """Takes rows as the spool does, and lets Arrow judge them, without files."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def add(self, table: str, row: dict[str, Any]) -> None:
        assert set(row) <= {c.name for c in TABLES[table].columns}
        self._rows.setdefault(table, []).append(row)

    def add_batch(self, table: str, batch: pa.RecordBatch) -> None:
        assert set(batch.schema.names) <= {c.name for c in TABLES[table].columns}
        self._rows.setdefault(table, []).extend(whole(batch, TABLES[table].arrow).to_pylist())

    def stored(self, table: str) -> list[dict[str, Any]]:
        rows = self._rows.get(table)
        stored = pa.RecordBatch.from_pylist(rows, schema=TABLES[table].arrow).to_pylist() if rows else []
        return [{k: dict(v) if k == "extra" else v for k, v in row.items() if v is not None} for row in stored]


def claimant(text: str, name: str = "a.json") -> str | None:
    """Which reader takes a file that begins so: the first that claims it."""
    return next((reader.name for reader in READERS if reader.claims(text[: 1 << 16], name)), None)


def read(
    text: str,
    name: str,
    *,
    reader: Reader | None = None,
    zone: tzinfo | None = None,
    columns: dict[str, str] | None = None,
    keep_text: bool = False,
) -> Reading:
    """Read `text` with the reader of that name. The account of lines must add up, whatever the text is."""
    chosen = reader or next(r for r in READERS if r.name == name)
    options = ReadOptions(zone=zone, year=None, newest=datetime(2026, 12, 1, tzinfo=UTC), columns=columns or {}, keep_text=keep_text)
    spool = _Rows()
    given = Given("s", "a.json", None, text[: 1 << 16], _chunks(text), cast(Spool, spool), options)
    got = chosen.read(given)
    rows = {table: spool.stored(table) for table in TABLES if table != "sources"}
    counts = got.counts
    assert counts.lines == counts.matched + counts.ignored + counts.unmatched + counts.other, "the account of lines does not add up"
    assert counts.lines == text.count("\n") + (not text.endswith("\n") and bool(text))
    assert counts.records == len(rows["requests"])
    assert got.usable == bool(rows["requests"])
    assert {row["stream"] for row in rows["requests"]} <= set(got.streams)
    return Reading(got, rows)


def jsonl(*documents: Any) -> str:
    """One line for each document."""
    return "".join(json.dumps(d) + "\n" for d in documents)


def _chunks(text: str) -> Iterator[bytes]:
    # odd block sizes, so that lines are cut by blocks
    # lone surrogates are no text that bytes can give, but what stands for a bad byte is
    data = re.sub("[\ud800-\udc7f\udd00-\udfff]", "?", text).encode("utf-8", "surrogateescape")
    for at in range(0, len(data), 997):
        yield data[at : at + 997]
