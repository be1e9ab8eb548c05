"""Makes few files of many: a log that is read again each time it grew adds a file each time."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from analyzer.trace.manifest import Manifest, StoredFile, read_manifest
from analyzer.trace.row_store import write_rows
from analyzer.trace.store import METRIC_TABLES, ROW_TABLES, read_batches, remove_unnamed

# So many files of about one size are made one, which is then of the next size: a row is written again as often as there are sizes.
_TOGETHER = 4
_SMALLEST = 1024


def compact(trace: Path) -> Manifest:
    """Make one file of all those that a source has of a table, but for the rows that are read again once it has grown.

    Returns the manifest; raises KvpmError for what is no trace, or a damaged one.
    """
    manifest = read_manifest(trace)
    with tempfile.TemporaryDirectory(prefix="kvpm-") as scratch:
        for source in manifest.sources:
            for name, files in source.files.items():
                whole = [f for f in files if not f.tail]
                if len(whole) > 1:
                    merged = _merged(trace, name, source.source_id, whole, Path(scratch))
                    source.files[name] = [*merged, *(f for f in files if f.tail)]
    manifest.write(trace)
    remove_unnamed(trace, manifest)
    return manifest


def compact_new(trace: Path, table: str, source_id: str, files: Sequence[StoredFile], scratch: Path) -> list[StoredFile]:
    """`files`, of which the last is new, with those of one size made one; no more than a few of each size are left."""
    kept = list(files)
    while True:
        size = _size(kept[-1])
        same = 0
        while same < len(kept) and _size(kept[-1 - same]) <= size:
            same += 1
        if same < _TOGETHER:
            return kept
        kept[-same:] = _merged(trace, table, source_id, kept[-same:], scratch)


def _size(file: StoredFile) -> int:
    size, rows = 0, file.rows // _SMALLEST
    while rows:
        size, rows = size + 1, rows // _TOGETHER
    return size


def _merged(trace: Path, table: str, source_id: str, files: Sequence[StoredFile], scratch: Path) -> list[StoredFile]:
    assert table in ROW_TABLES
    assert table not in METRIC_TABLES
    merged = write_rows(trace, table, source_id, read_batches(trace, files), in_order=False, scratch=scratch)
    return [] if merged is None else [merged]
