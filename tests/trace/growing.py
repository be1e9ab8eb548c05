"""Logs that grow, for tests: what is made of one that was read as it grew, and of one that was read whole."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import analyzer.ingestion
from analyzer.ingestion import IngestOptions, ingest
from analyzer.parsers import engine_log
from analyzer.parsers.bulk import book, ending
from analyzer.trace.manifest import read_manifest
from analyzer.trace.store import ROW_TABLES

# When every log was written to last: what a missing year is guessed from.
_WRITTEN = 1_798_800_000


def small_scale(patch: pytest.MonkeyPatch) -> None:
    """Settle the clock, learn and stop after some dozen lines instead of some thousand."""
    patch.setattr(engine_log, "_DIARY", 60)
    patch.setattr(engine_log, "HEAD_LINES", 50)
    patch.setattr(book, "_WORTH_LEARNING", 3)
    patch.setattr(ending, "_BACK", (3000, 700, 0))


def grow(path: Path, more: bytes) -> None:
    """Append to a log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as handle:
        handle.write(more)
    os.utime(path, (_WRITTEN, _WRITTEN))


def read(trace: Path, *given: Path, **options: Any) -> list[int]:
    """Ingest; returns the bytes at which reading each input began (none for one that was unchanged)."""
    begun: list[int] = []
    original = analyzer.ingestion.read_input

    def watched(task: Any, **more: Any) -> Any:
        begun.append(0 if task.resume is None else task.resume.offset)
        return original(task, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyzer.ingestion, "read_input", watched)
        ingest([str(g) for g in given], trace, IngestOptions(**{"zone": UTC, "jobs": 1, **options}))
    return begun


def read_growing(log: Path, trace: Path, data: bytes, cuts: Iterable[int], **options: Any) -> list[int]:
    """Read a log each time it has grown up to one of `cuts`, and at its end; returns the bytes at which reading began."""
    begun: list[int] = []
    for begin, end in pairwise((0, *sorted({*cuts} - {0, len(data)}), len(data))):
        grow(log, data[begin:end])
        begun += read(trace, log, **options)
    return begun


def everything(trace: Path) -> dict[str, Any]:
    """All rows of all tables, and of the sources what does not say how they were read; sources by number, for their ids
    are made of their first bytes when they were read first."""
    manifest = read_manifest(trace)
    ids = {s.source_id: n for n, s in enumerate(manifest.sources)}
    told: dict[str, Any] = {}
    for table in ROW_TABLES:
        rows = [row for f in manifest.files_of(table) for row in pq.read_table(trace / f.path).to_pylist()]
        rows = [row | {"source_id": ids[row["source_id"]]} for row in rows]
        told[table] = sorted(rows, key=lambda row: [str(v) for v in row.values()])
    told["sources"] = [{k: v for k, v in s.row.items() if k not in ("sha256", "source_id")} for s in manifest.sources]
    told["streams"] = [s.streams for s in manifest.sources]
    told["runs"] = {n: [run | {"source": ids.get(run["source"])} for run in runs] for n, runs in manifest.runs.items()}
    told["totals"] = manifest.totals
    return told


def parts(trace: Path) -> dict[str, tuple[int, int]]:
    """Of each file of rows that are not read again: when it was written, and its inode."""
    manifest = read_manifest(trace)
    files = [f for table in ROW_TABLES for f in manifest.files_of(table) if not f.tail]
    return {f.path: ((about := (trace / f.path).stat()).st_mtime_ns, about.st_ino) for f in files}
