"""Rows on their way into a trace: kept in files, so that memory does not grow with the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.trace.batch_file import BatchFile, batches_of, whole
from analyzer.trace.schema import TABLES

_BATCH_ROWS = 20_000


class Spool:
    """One source's rows, table by table. `tail` has those that are read again once the source has grown, when a reader asked for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._files: dict[str, BatchFile] = {}
        self._last: dict[str, tuple[int, int] | None] = {}
        self.counts: dict[str, int] = {}
        self.tail: Spool | None = None

    def begin_tail(self) -> Spool:
        """A spool of its own for the rows from here on."""
        self.tail = Spool(self._folder / "tail")
        return self.tail

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Take one row: columns of the schema; missing ones are NULL."""
        rows = self._rows.setdefault(table, [])
        rows.append(row)
        self.counts[table] = self.counts.get(table, 0) + 1
        if len(rows) >= _BATCH_ROWS:
            self._flush(table)

    def add_batch(self, table: str, batch: pa.RecordBatch) -> None:
        """Take many rows at once, in columns of the schema; missing ones are NULL.

        Rows that were taken one by one since the last batch are put among them, by record.
        """
        self.counts[table] = self.counts.get(table, 0) + batch.num_rows
        rows = self._rows.pop(table, [])
        if rows:
            schema = TABLES[table].arrow
            both = pa.Table.from_batches([pa.RecordBatch.from_pylist(rows, schema=schema), whole(batch, schema)])
            batch = both.take(pc.sort_indices(both, sort_keys=[("record", "ascending")])).combine_chunks().to_batches()[0]
        self._write(table, batch)

    def is_in_order(self, table: str) -> bool:
        """True when the rows of `table` came by time, those of one time by record, and each has a time."""
        return self._last.get(table) is not None

    def close_table(self, table: str) -> None:
        """Write what is left of one table, so that `batches` can read it."""
        self._flush(table)
        file = self._files.pop(table, None)
        if file is not None:
            file.close()

    def change_batches(self, table: str, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Replace each batch of a table by what `change` makes of it; the table is closed for more."""
        self.close_table(table)
        old = self._folder / f"{table}.before.arrows"
        (self._folder / f"{table}.arrows").rename(old)
        self._last.pop(table)
        for batch in batches_of(old, TABLES[table].arrow):
            self._write(table, change(batch))
        self.close_table(table)
        old.unlink()

    def close(self) -> None:
        """Write what is left."""
        for table in {*self._rows, *self._files}:
            self.close_table(table)
        if self.tail is not None:
            self.tail.close()

    def move(self, folder: Path) -> None:
        """Look for the rows in another folder from now on, where their files are by now; the spool is closed."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        if self.tail is not None:
            self.tail.move(folder / "tail")

    def drop(self) -> None:
        """Forget all rows; the spool is closed."""
        for path in self._folder.glob("*.arrows"):
            path.unlink()
        self.counts.clear()
        self._last.clear()
        if self.tail is not None:
            self.tail.drop()

    def batches(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of `table` again, all columns or some, after `close`."""
        path = self._folder / f"{table}.arrows"
        schema = TABLES[table].arrow
        if path.exists():
            yield from batches_of(path, schema if columns is None else pa.schema([schema.field(name) for name in columns]))

    def _flush(self, table: str) -> None:
        rows = self._rows.pop(table, [])
        if rows:
            self._write(table, pa.RecordBatch.from_pylist(rows, schema=TABLES[table].arrow))

    def _write(self, table: str, batch: pa.RecordBatch) -> None:
        self._watch_order(table, batch)
        if table not in self._files:
            self._files[table] = BatchFile(self._folder / f"{table}.arrows")
        self._files[table].write(batch)

    def _watch_order(self, table: str, batch: pa.RecordBatch) -> None:
        last = self._last.get(table, (np.iinfo(np.int64).min, 0))
        names = batch.schema.names
        if last is None or not batch.num_rows:
            return
        self._last[table] = None
        if "record" not in names or "ts" not in names or batch.column("ts").null_count:
            return
        ts = np.concatenate(([last[0]], batch.column("ts").cast(pa.int64()).to_numpy()))
        record = np.concatenate(([last[1]], batch.column("record").to_numpy()))
        if ((ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (record[1:] >= record[:-1]))).all():
            self._last[table] = (int(ts[-1]), int(record[-1]))
