"""Writes a trace folder: one Parquet file per source and table, named by the manifest.

Nothing is visible before the manifest names it: files are written aside, synced and renamed, the
manifest is replaced last, and only then are files that it no longer names removed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.errors import ExitCode, KvpmError
from analyzer.trace.manifest import MANIFEST, Manifest, StoredFile, StoredSource, sources_file
from analyzer.trace.schema import TABLES

ROW_GROUP = 128 * 1024
METRIC_TABLES = ("series", "samples")
ROW_TABLES = tuple(name for name in TABLES if name != "sources")


def write_table(folder: Path, table_name: str, source_id: str, table: pa.Table) -> StoredFile:
    """Write rows aside, sync, and rename to a name made from their content."""
    target = folder / table_name
    target.mkdir(parents=True, exist_ok=True)
    aside = target / f".{source_id}.{os.getpid()}.partial"
    pq.write_table(table, aside, compression="zstd", row_group_size=ROW_GROUP)
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
        raise _damaged(folder, stored) from error


def read_batches(folder: Path, stored: StoredFile, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of one stored file, few at a time: all columns, or some."""
    try:
        with pq.ParquetFile(folder / stored.path) as file:
            if columns is None:
                yield from file.iter_batches()
                return
            for batch in file.iter_batches(columns=list(columns)):
                yield batch.select(list(columns))
    except (OSError, pa.ArrowInvalid) as error:
        raise _damaged(folder, stored) from error


def _damaged(folder: Path, stored: StoredFile) -> KvpmError:
    return KvpmError(
        f"the stored trace {folder} is damaged: {stored.path} cannot be read",
        hint="make it anew from the logs: kvpm ingest LOG... --force",
        exit_code=ExitCode.INPUT_CUT,
    )


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
