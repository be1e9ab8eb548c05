"""Reads a log twice, in bulk and line by line, for comparing what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from analyzer.parsers import engine_log
from analyzer.parsers.bulk import book, stream
from analyzer.parsers.bulk.block import BlockRead, everything_left
from analyzer.parsers.bulk.cut import blocks
from analyzer.parsers.engine_log import EngineLogReader
from analyzer.parsers.reader import Given, ReadOptions
from analyzer.trace.schema import TABLES
from analyzer.trace.spool import Spool


@dataclass
class Told:
    """Everything that is made of a log, and how many of its lines were read one by one."""

    rows: dict[str, list[dict[str, Any]]]
    read: dict[str, Any]
    one_by_one: int


def in_bulk(data: bytes, monkeypatch: pytest.MonkeyPatch, *, size: int, worth: int = 3, jobs: int = 1) -> Told:
    """Read in blocks of about `size` bytes; shapes are learned from `worth` lines on, in processes of their own as ever."""
    monkeypatch.setattr(book, "_WORTH_LEARNING", worth)
    left = 0

    def counted(chunks: Iterable[bytes], source_id: str, **_: object) -> Iterator[tuple[bytes, BlockRead]]:
        nonlocal left
        for block, read in stream.read_blocks(chunks, source_id, size, jobs=jobs, alone=1):
            left += sum(map(len, read.left))
            yield block, read

    monkeypatch.setattr(engine_log, "read_blocks", counted)
    told = _read(data)
    told.one_by_one = left
    return told


def line_by_line(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Read as if no shape could be learned."""

    def left(chunks: Iterable[bytes], _source_id: str, **_: object) -> Iterator[tuple[bytes, BlockRead]]:
        for block in blocks(chunks):
            yield block, everything_left(block)

    monkeypatch.setattr(engine_log, "read_blocks", left)
    return _read(data)


def _read(data: bytes) -> Told:
    with TemporaryDirectory() as folder:
        spool = Spool(Path(folder))
        options = ReadOptions(None, None, datetime(2026, 12, 1, tzinfo=UTC))
        chunks = iter([data[at : at + 5000] for at in range(0, len(data), 5000)])
        read = EngineLogReader().read(Given("s", "server.log", None, "", chunks, spool, options))
        spool.close()
        rows = {name: [row for batch in spool.batches(name) for row in batch.to_pylist()] for name in TABLES}
    told = asdict(read)
    # in the order of the log: rows of one line keep theirs
    for table in rows.values():
        table.sort(key=lambda row: row["record"])
    told["streams"] = [s.to_json() for s in read.streams.values()]
    for name in ("unmatched_files", "wrappers"):
        told["counts"][name] = sorted(told["counts"][name].items())
    return Told(rows, told, len(data.split(b"\n")))
