"""Rows on their way into a trace: kept in Arrow IPC files, so that memory does not grow with the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

    def add_batch(self, table: str, batch: pa.RecordBatch) -> None:
        """Take many rows at once, in the schema's columns."""
        self.counts[table] = self.counts.get(table, 0) + batch.num_rows
        self._writer(table).write_batch(batch)

    def close_table(self, table: str) -> None:
        """Write what is left of one table, so that `batches` can read it."""
        self._flush(table)
        writer = self._writers.pop(table, None)
        if writer is not None:
            writer.close()

    def change_batches(self, table: str, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Replace each batch of a table by what `change` makes of it; the table is closed for more."""
        self.close_table(table)
        old = self._folder / f"{table}.before.arrows"
        (self._folder / f"{table}.arrows").rename(old)
        for batch in _read(old):
            self._writer(table).write_batch(change(batch))
        self.close_table(table)
        old.unlink()

    def close(self) -> None:
        """Write what is left."""
        for table in list(self._rows):
            self._flush(table)
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def drop(self) -> None:
        """Forget all rows; the spool is closed."""
        for path in self._folder.glob("*.arrows"):
            path.unlink()
        self.counts.clear()

    def batches(self, table: str) -> Iterator[pa.RecordBatch]:
        """The rows of `table` again, after `close`."""
        path = self._folder / f"{table}.arrows"
        if path.exists():
            yield from _read(path)

    def _flush(self, table: str) -> None:
        rows = self._rows.pop(table, [])
        if not rows:
            return
        self._writer(table).write_batch(pa.RecordBatch.from_pylist(rows, schema=TABLES[table].arrow))

    def _writer(self, table: str) -> pa.RecordBatchStreamWriter:
        if table not in self._writers:
            self._writers[table] = pa.ipc.new_stream(str(self._folder / f"{table}.arrows"), TABLES[table].arrow)
        return self._writers[table]


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    # not mapped: pages of a large spool would count as memory of the process
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        yield from reader
