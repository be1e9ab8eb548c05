"""Rows on their way into a trace: kept in Arrow IPC files, so that memory does not grow with the input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from analyzer.trace.schema import TABLES

_BATCH_ROWS = 20_000


class Spool:
    """One source's rows, table by table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._writers: dict[str, pa.RecordBatchStreamWriter] = {}
        self.counts: dict[str, int] = {}

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Take one row: columns of the schema; missing ones are NULL."""
        rows = self._rows.setdefault(table, [])
        rows.append(row)
        self.counts[table] = self.counts.get(table, 0) + 1
        if len(rows) >= _BATCH_ROWS:
            self._flush(table)

    def close(self) -> None:
        """Write what is left."""
        for table in list(self._rows):
            self._flush(table)
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def batches(self, table: str) -> Iterator[pa.RecordBatch]:
        """The rows of `table` again, after `close`."""
        path = self._folder / f"{table}.arrows"
        if path.exists():
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                yield from reader

    def _flush(self, table: str) -> None:
        rows = self._rows.pop(table, [])
        if not rows:
            return
        schema = TABLES[table].arrow
        if table not in self._writers:
            sink = str(self._folder / f"{table}.arrows")
            self._writers[table] = pa.ipc.new_stream(sink, schema)
        self._writers[table].write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
