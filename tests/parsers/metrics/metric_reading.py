"""Reads a metric dump given as text all the way to rows, for the tests beside this file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import pyarrow as pa

from analyzer.formats.metrics import lookup
from analyzer.parsers.metrics import READERS
from analyzer.parsers.reader import Given, Reader, ReadOptions, SourceRead
from analyzer.trace.spool import Spool

Labels = tuple[tuple[str, str], ...]
NEWEST = datetime(2026, 11, 30, 12, tzinfo=UTC)
EPOCH = 1_796_022_476
"""2026-11-30 07:07:56 UTC."""


@dataclass
class Dump:
    """What one dump gave: `samples` are (microseconds, exported value) by name and labels, in the order stored."""

    read: SourceRead
    samples: dict[tuple[str, Labels], list[tuple[int, float | None]]] = field(default_factory=dict)
    records: dict[tuple[str, Labels], int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def values(self, name: str, **labels: str) -> list[float | None]:
        """The values of one series."""
        return [value for _, value in self.of(name, **labels)]

    def times(self, name: str, **labels: str) -> list[float]:
        """Epoch seconds of the samples of one series."""
        return [ts / 1e6 for ts, _ in self.of(name, **labels)]

    def of(self, name: str, **labels: str) -> list[tuple[int, float | None]]:
        """The samples of one series; empty when it was not stored."""
        return self.samples.get((name, tuple(sorted(labels.items()))), [])


def claimed_by(text: str, name: str = "x.txt") -> list[str]:
    """Names of the readers that say this is theirs."""
    return [r.name for r in READERS if r.claims(text[:65536], name)]


def reader(name: str) -> Reader:
    """The reader of this name."""
    return next(r for r in READERS if r.name == name)


def read_dump(
    text: str,
    by: str | None = None,
    *,
    block: int = 1 << 20,
    at: datetime | None = None,
    zone: tzinfo | None = None,
    path: Path | None = None,
) -> Dump:
    """Read `text` in blocks of `block` characters, with the reader that claims it or with the one named."""
    chosen = reader(by) if by else next(r for r in READERS if r.claims(text[:65536], "x.txt"))
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder))
        options = ReadOptions(zone=zone, year=None, newest=NEWEST, at=at)
        dump = Dump(chosen.read(Given("s1", "x.txt", path, text[:65536], _chunks(text, block), spool, options)))
        spool.close()
        keys = {}
        for row in _rows(spool, "series"):
            key = keys[row["series_id"]] = (row["raw_name"], tuple(sorted(row["labels"])))
            dump.records[key] = row["record"]
            dump.types[row["raw_name"]] = row["type"]
            dump.samples[key] = []
        for row in _rows(spool, "samples"):
            key = keys[row["series_id"]]
            known = lookup(key[0], dict(key[1]))
            scale = known.metric.scale if known and known.part in (None, "sum") else 1.0
            value = row["value"]
            dump.samples[key].append((row["ts"], None if value is None else value / scale))
    counts = dump.read.counts
    assert counts.lines == counts.matched + counts.ignored + counts.unmatched + counts.other
    assert counts.records == sum(map(len, dump.samples.values()))
    return dump


def _rows(spool: Spool, table: str) -> Iterator[dict[str, Any]]:
    for batch in spool.batches(table):
        if table == "samples":
            batch = batch.set_column(1, "ts", batch.column(1).cast(pa.int64()))
        yield from batch.to_pylist()


def _chunks(text: str, size: int) -> Iterator[bytes]:
    # lone surrogates are no text that bytes can give, but what stands for a bad byte is
    data = re.sub("[\ud800-\udc7f\udd00-\udfff]", "?", text).encode("utf-8", "surrogateescape")
    for at in range(0, len(data), size):
        yield data[at : at + size]
