"""Writes a trace folder: one Parquet file per source and table, named by the manifest.

Nothing is visible before the manifest names it: files are written aside, synced and renamed, the
manifest is replaced last, and only then are files that it no longer names removed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analyzer.errors import ExitCode, KvpmError
from analyzer.trace.identity import Identity
from analyzer.trace.manifest import MANIFEST, Manifest, StoredFile, StoredSource, sources_file
from analyzer.trace.schema import TABLES, TS

_ROW_GROUP = 128 * 1024
METRIC_TABLES = ("series", "samples")
ROW_TABLES = tuple(name for name in TABLES if name != "sources")


def assign(table: pa.Table, source_id: str, identity: Identity, shift: timedelta = timedelta(0)) -> pa.Table:
    """`table` (one source's rows) with instance and run_id filled in, sorted by time and record; all times `shift` later."""
    if shift:
        for at, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type):
                table = table.set_column(at, field, pc.add(table.column(at), pa.scalar(shift, pa.duration("us"))))
    streams = table.column("stream").combine_chunks().fill_null("").dictionary_encode()
    which = streams.indices.to_numpy()
    ts = table.column("ts").cast(pa.int64())
    # rows without a time belong to the first run
    us = ts.fill_null(np.iinfo(np.int64).min).to_numpy()
    run = np.zeros(len(table), np.int64)
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
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values, pa.string()).take(pa.array(index)))
    return _in_order(table, us)


def _in_order(table: pa.Table, us: npt.NDArray[np.int64]) -> pa.Table:
    """Sorted by time and record; rows without a time come last. Most logs are in order as they are."""
    record = table.column("record").to_numpy()
    rises = (us[1:] > us[:-1]) | ((us[1:] == us[:-1]) & (record[1:] >= record[:-1]))
    if rises.all() and not table.column("ts").null_count:
        return table
    return table.take(pc.sort_indices(table, sort_keys=[("ts", "ascending", "at_end"), ("record", "ascending", "at_end")]))


def write_table(folder: Path, table_name: str, source_id: str, table: pa.Table) -> StoredFile:
    """Write rows aside, sync, and rename to a name made from their content."""
    target = folder / table_name
    target.mkdir(parents=True, exist_ok=True)
    aside = target / f".{source_id}.{os.getpid()}.partial"
    pq.write_table(table, aside, compression="zstd", row_group_size=_ROW_GROUP)
    return StoredFile(publish(aside, folder, table_name, source_id), table.num_rows)


def publish(aside: Path, folder: Path, table_name: str, source_id: str) -> str:
    """Sync a file written aside and rename it to a name made from its content; returns its path below the trace."""
    with aside.open("rb+") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()[:12]
        os.fsync(handle.fileno())
    path = folder / table_name / f"{source_id}-{digest}.parquet"
    aside.replace(path)
    return f"{table_name}/{path.name}"


def read_rows(
    folder: Path, stored: StoredFile, columns: Sequence[str] | None = None, filters: list[tuple[str, str, Any]] | None = None
) -> pa.Table:
    """The rows of one stored file: all columns, or some; all rows, or those that pyarrow's `filters` let through."""
    try:
        return pq.read_table(folder / stored.path, columns=None if columns is None else list(columns), filters=filters)
    except (OSError, pa.ArrowInvalid) as error:
        raise KvpmError(
            f"the stored trace {folder} is damaged: {stored.path} cannot be read",
            hint="make it anew from the logs: kvpm ingest LOG... --force",
            exit_code=ExitCode.INPUT_CUT,
        ) from error


def write_sources_table(folder: Path, sources: list[StoredSource]) -> None:
    """The `sources` table is small and derived from the manifest: written whole each time."""
    rows = [s.row for s in sources]
    table = pa.Table.from_pylist(rows, schema=TABLES["sources"].arrow)
    target = folder / "sources"
    target.mkdir(parents=True, exist_ok=True)
    aside = target / f".sources.{os.getpid()}.partial"
    pq.write_table(table, aside, compression="zstd")
    with aside.open("rb+") as handle:
        os.fsync(handle.fileno())
    aside.replace(folder / sources_file(sources))


def remove_unnamed(folder: Path, manifest: Manifest) -> None:
    """Remove Parquet files that the manifest does not name, and what an interrupted write left."""
    named = {f.path for s in manifest.sources for f in s.files.values()} | {
        manifest.sources_file,
        MANIFEST,
    }
    for table in TABLES:
        for path in (folder / table).glob("*"):
            if f"{table}/{path.name}" not in named:
                path.unlink()
