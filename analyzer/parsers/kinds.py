"""Which reader takes a source: told by how its text begins, never by its name alone."""

from __future__ import annotations

from pathlib import Path

from analyzer.parsers.engine_log import EngineLogReader
from analyzer.parsers.metrics import READERS as METRIC_READERS
from analyzer.parsers.reader import Given, Reader, SourceRead
from analyzer.parsers.request_records import READERS as REQUEST_READERS
from analyzer.parsers.request_records import generic_reader, is_mapped

PARQUET = "PAR1"

_READERS: tuple[Reader, ...] = (*METRIC_READERS, *REQUEST_READERS, EngineLogReader())


def is_parquet(path: Path | None) -> bool:
    """True for a file that only a reader of binary files can take."""
    if path is None or not path.is_file():
        return False
    with path.open("rb") as handle:
        return handle.read(len(PARQUET)) == PARQUET.encode()


def read_source(given: Given) -> SourceRead:
    """Read a source with the first reader that claims it; a column mapping is for tables that no named format claims."""
    if given.resume is not None:
        # a file may have got another name since
        return next(r for r in _READERS if r.name == given.resume.reader).read(given)
    reader = next(r for r in _READERS if r.claims(given.head, given.name))
    if given.options.columns and (isinstance(reader, EngineLogReader) or is_mapped(reader, given)):
        reader = generic_reader()
    return reader.read(given)
