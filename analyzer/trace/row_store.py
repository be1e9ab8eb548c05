"""Stores the rows of one source's table: each with its instance and run, all by time, however many there are.

Most logs are in order as they stand and pass through batch by batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.trace.batch_file import in_tables
from analyzer.trace.identity import Identity
from analyzer.trace.manifest import StoredFile
from analyzer.trace.schema import TABLES, TS
from analyzer.trace.sorting import sorted_batches
from analyzer.trace.source_rows import later
from analyzer.trace.store import ROW_GROUP, publish

# These are different in each row, and next to the row before: half of a file otherwise, and a fourth of the time to write it.
_RISING = {"ts": "DELTA_BINARY_PACKED", "record": "DELTA_BINARY_PACKED"}
# So are these in most logs: a dictionary would be as long as the column.
_MANY_VALUED = ("prompt_tps", "gen_tps", "kv_used_tokens")
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
    tail: bool = False,
) -> StoredFile | None:
    """Write the rows of one source to `table` and return the file; None when there are none.

    `in_order` says that they come as they are to be stored: by time and then by record. All times are written `shift` later.
    """
    named = (_named(batch, source_id, identity) for batch in later((b for b in batches if b.num_rows), shift))
    return write_rows(folder, table, source_id, named, in_order=in_order, scratch=scratch, tail=tail)


def write_rows(
    folder: Path, table: str, source_id: str, batches: Iterable[pa.RecordBatch], *, in_order: bool, scratch: Path, tail: bool = False
) -> StoredFile | None:
    """Write rows that have their instance and run; as `store_rows`."""
    schema = TABLES[table].arrow
    parts = in_tables(batches if in_order else sorted_batches(batches, schema, scratch), ROW_GROUP)
    first = next(parts, None)
    if first is None:
        return None
    target = folder / table
    target.mkdir(parents=True, exist_ok=True)
    aside = target / f".{source_id}.{os.getpid()}.partial"
    rows = 0
    with pq.ParquetWriter(aside, schema, compression="zstd", use_dictionary=_repeating(schema), column_encoding=_RISING) as writer:
        for part in chain((first,), parts):
            writer.write_table(part, ROW_GROUP)
            rows += part.num_rows
    return StoredFile(publish(aside, folder, table, source_id), rows, tail)


def _repeating(schema: pa.Schema) -> list[str]:
    """Paths of the columns that are written as a dictionary of values: all but those that hardly repeat."""
    paths: list[str] = []
    for column in schema:
        if pa.types.is_map(column.type):
            paths += [f"{column.name}.key_value.{part}" for part in ("key", "value")]
        elif column.name not in _RISING and column.name not in _MANY_VALUED:
            paths.append(column.name)
    return paths


def _named(batch: pa.RecordBatch, source_id: str, identity: Identity) -> pa.RecordBatch:
    """`batch` with instance and run_id filled in."""
    schema = batch.schema
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
