"""Stores the rows of one source's table: each with its instance and run, all by time, however many there are.

Most logs are in order as they stand and pass through batch by batch. Of the others, few rows are sorted by Arrow in
memory, and many by DuckDB, which has a limit and then goes to disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analyzer.trace.identity import Identity
from analyzer.trace.manifest import StoredFile
from analyzer.trace.schema import TABLES, TS
from analyzer.trace.store import ROW_GROUP, publish

# So many rows of the widest table take about 100 MB.
_SORTED_IN_MEMORY = 200_000
_MEMORY = "200MB"
_BATCH_ROWS = 20_000
_SOONEST = np.iinfo(np.int64).min


def store_rows(
    folder: Path,
    table: str,
    source_id: str,
    batches: Iterable[pa.RecordBatch],
    *,
    in_order: bool,
    identity: Identity,
    shift: timedelta,
    scratch: Path,
) -> StoredFile | None:
    """Write the rows of one source to `table` and return the file; None when there are none.

    `in_order` says that they come as they are to be stored: by time and then by record. All times are written `shift` later.
    """
    named = (_named(batch, source_id, identity, shift) for batch in batches if batch.num_rows)
    schema = TABLES[table].arrow
    parts = _by_row_group(named if in_order else _sorted(named, schema, scratch))
    first = next(parts, None)
    if first is None:
        return None
    target = folder / table
    target.mkdir(parents=True, exist_ok=True)
    aside = target / f".{source_id}.{os.getpid()}.partial"
    rows = 0
    with pq.ParquetWriter(aside, schema, compression="zstd") as writer:
        for part in chain((first,), parts):
            writer.write_table(part, ROW_GROUP)
            rows += part.num_rows
    return StoredFile(publish(aside, folder, table, source_id), rows)


def _named(batch: pa.RecordBatch, source_id: str, identity: Identity, shift: timedelta) -> pa.RecordBatch:
    """`batch` with instance and run_id filled in and all times `shift` later."""
    schema = batch.schema
    if shift:
        later = pa.scalar(shift, pa.duration("us"))
        arrays = [pc.add(a, later) if pa.types.is_timestamp(a.type) else a for a in batch.columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    streams = batch.column("stream").fill_null("").dictionary_encode()
    which = streams.indices.to_numpy()
    # rows without a time belong to the first run
    us = batch.column("ts").cast(pa.int64()).fill_null(_SOONEST).to_numpy()
    run = np.zeros(batch.num_rows, np.int64)
    names: list[str] = []
    run_ids: list[str] = []
    for number, stream in enumerate(streams.dictionary.to_pylist()):
        names.append(identity.instance[source_id, stream])
        runs = identity.runs[names[-1]]
        starts = pa.array([r.start for r in runs[1:] if r.start is not None], TS).cast(pa.int64()).to_numpy()
        here = slice(None) if len(streams.dictionary) == 1 else which == number
        run[here] = len(run_ids) + np.searchsorted(starts, us[here], side="right")
        run_ids += [r.run_id for r in runs]
    for name, values, index in (("instance", names, which), ("run_id", run_ids, run)):
        at = schema.get_field_index(name)
        batch = batch.set_column(at, schema.field(at), pa.array(values, pa.string()).take(pa.array(index)))
    return batch


def _by_row_group(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in tables of a whole row group each, but for the last."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        while rows >= ROW_GROUP:
            table = pa.Table.from_batches(held)
            yield table.slice(0, ROW_GROUP)
            held = table.slice(ROW_GROUP).to_batches()
            rows -= ROW_GROUP
    if rows:
        yield pa.Table.from_batches(held)


def _sorted(batches: Iterator[pa.RecordBatch], schema: pa.Schema, scratch: Path) -> Iterator[pa.RecordBatch]:
    """By time and then by record; rows without a time come last."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows > _SORTED_IN_MEMORY:
            yield from _sorted_by_duckdb(_all(held, batches), schema, scratch)
            return
    if held:
        table = pa.Table.from_batches(held)
        yield from table.take(
            pc.sort_indices(table, sort_keys=[("ts", "ascending", "at_end"), ("record", "ascending", "at_end")])
        ).to_batches()


def _all(held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Those that were taken already, which are let go of, and the rest."""
    while held:
        yield held.pop(0)
    yield from rest


def _sorted_by_duckdb(batches: Iterator[pa.RecordBatch], schema: pa.Schema, scratch: Path) -> Iterator[pa.RecordBatch]:
    # seldom needed, and takes as long to load as a short log to read
    import duckdb

    # rows of one record stay as they came
    numbered = schema.append(pa.field("_number", pa.int64()))

    def with_numbers() -> Iterator[pa.RecordBatch]:
        begin = 0
        for batch in batches:
            end = begin + batch.num_rows
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(np.arange(begin, end))], schema=numbered)
            begin = end

    with duckdb.connect(":memory:", config={"memory_limit": _MEMORY, "temp_directory": str(scratch), "threads": 1}) as con:
        con.execute("SET TimeZone = 'UTC'")
        con.register("given", pa.RecordBatchReader.from_batches(numbered, with_numbers()))
        con.execute("SELECT * EXCLUDE (_number) FROM given ORDER BY ts NULLS LAST, record, _number")
        found = con.to_arrow_reader(_BATCH_ROWS)
        assert found is not None
        for batch in found:
            yield batch.cast(schema)
