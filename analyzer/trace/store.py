"""Writes a trace folder: Parquet files of one source and table each, named by the manifest.

Nothing is visible before the manifest names it: files are written aside, synced and renamed, the
manifest is replaced last, and only then are files that it no longer names removed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.errors import ExitCode, KvpmError
from analyzer.trace.manifest import MANIFEST, Manifest, StoredFile, StoredSource, replace_file, sources_file
from analyzer.trace.schema import TABLES

ROW_GROUP = 128 * 1024
METRIC_TABLES = ("series", "samples")
ROW_TABLES = tuple(name for name in TABLES if name != "sources")
_RESUME = "resume"


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


def read_rows(folder: Path, stored: Iterable[StoredFile], filters: list[tuple[str, str, Any]]) -> pa.Table:
    """The rows of stored files of one table that pyarrow's `filters` let through."""
    tables: list[pa.Table] = []
    for file in stored:
        try:
            tables.append(pq.read_table(folder / file.path, filters=filters))
        except (OSError, pa.ArrowInvalid) as error:
            raise _damaged(folder, file) from error
    return pa.concat_tables(tables)


def read_batches(folder: Path, stored: Iterable[StoredFile], columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of stored files of one table, few at a time: all columns, or some."""
    for part in stored:
        try:
            with pq.ParquetFile(folder / part.path) as file:
                if columns is None:
                    yield from file.iter_batches()
                    continue
                for batch in file.iter_batches(columns=list(columns)):
                    yield batch.select(list(columns))
        except (OSError, pa.ArrowInvalid) as error:
            raise _damaged(folder, part) from error


def _damaged(folder: Path, stored: StoredFile) -> KvpmError:
    return KvpmError(
        f"the stored trace {folder} is damaged: {stored.path} cannot be read",
        hint="make it anew from the logs: kvpm ingest LOG... --force",
        exit_code=ExitCode.INPUT_CUT,
    )


def write_state(folder: Path, source_id: str, packed: bytes) -> str:
    """Write what a reader needs to go on; returns the file's path below the trace."""
    target = folder / _RESUME
    target.mkdir(parents=True, exist_ok=True)
    name = f"{source_id}-{hashlib.sha256(packed).hexdigest()[:12]}.json.zst"
    replace_file(target / name, packed)
    return f"{_RESUME}/{name}"


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
    """Remove files that the manifest does not name, and what an interrupted write left."""
    named = {f.path for table in ROW_TABLES for f in manifest.files_of(table)} | {manifest.sources_file, MANIFEST}
    named |= {s.resume.state for s in manifest.sources if s.resume is not None}
    for table in (*TABLES, _RESUME):
        for path in (folder / table).glob("*"):
            if f"{table}/{path.name}" not in named:
                path.unlink()
