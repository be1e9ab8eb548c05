"""Rows kept aside in an Arrow IPC file.

Of the many columns of a table most are NULL in any one batch. So each batch stands in its file as a stream of its own,
with just the columns that hold something; the others are put back when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

_NOTHING: dict[pa.DataType, pa.Array] = {}


class BatchFile:
    """Takes batches, of any columns of one table."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path), "wb")

    def write(self, batch: pa.RecordBatch) -> None:
        """Add some rows."""
        batch = holding(batch)
        with pa.ipc.new_stream(self._file, batch.schema) as writer:
            writer.write_batch(batch)

    def close(self) -> None:
        """No more is added."""
        self._file.close()


def batches_of(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of a file in the order in which they were written, in the columns of `schema`."""
    # not mapped: pages of a large file would count as memory of the process
    with pa.OSFile(str(path)) as file:
        size = file.size()
        while file.tell() < size:
            with pa.ipc.open_stream(file) as reader:
                for batch in reader:
                    yield whole(batch, schema)


def holding(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` without the columns that hold nothing."""
    return batch.select([i for i, column in enumerate(batch.columns) if column.null_count < len(column)])


def whole(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` in the columns of `schema`, NULL where it has none; texts may be kept as a dictionary in it."""
    present = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = [_plain(present[f.name]) if f.name in present else _nothing(f.type, batch.num_rows) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _nothing(kind: pa.DataType, rows: int) -> pa.Array:
    """Most columns of a table hold nothing in most batches: they share it."""
    held = _NOTHING.get(kind)
    if held is None or len(held) < rows:
        held = _NOTHING[kind] = pa.nulls(rows, kind)
    return held[:rows]


def in_tables(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of `rows` each, but for the last."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            held = table.slice(rows).to_batches()
            count -= rows
    if count:
        yield pa.Table.from_batches(held)
