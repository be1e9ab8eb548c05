"""The rows of one source on its own clock, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from analyzer.trace.manifest import StoredSource
from analyzer.trace.schema import SAMPLES, TABLES
from analyzer.trace.spool import Spool
from analyzer.trace.store import read_batches, read_rows


@dataclass(frozen=True, slots=True)
class SourceRows:
    """One source and where its rows are: in a spool when it was read just now, else stored."""

    source: StoredSource
    trace: Path
    spool: Spool | None

    def count(self, name: str) -> int:
        """How many rows one table has of it."""
        if self.spool is not None:
            return self.spool.counts.get(name, 0)
        return self.source.files[name].rows if name in self.source.files else 0

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of one table, few at a time."""
        if self.spool is not None:
            yield from self.spool.batches(name, columns)
        elif name in self.source.files:
            yield from read_batches(self.trace, self.source.files[name], columns)

    def table(self, name: str, columns: Sequence[str]) -> pa.Table:
        """The rows of one table."""
        arrow = TABLES[name].arrow
        return pa.Table.from_batches(self.batches(name, columns), pa.schema([arrow.field(c) for c in columns]))

    def samples(self, numbers: Sequence[int]) -> pa.Table:
        """Samples of some series."""
        if self.spool is None:
            return read_rows(self.trace, self.source.files["samples"], None, [("series_id", "in", list(numbers))])
        wanted = pa.array(numbers, pa.int64())
        parts = [b.filter(pc.is_in(b.column("series_id"), wanted)) for b in self.spool.batches("samples")]
        return pa.Table.from_batches(parts, SAMPLES.arrow)

    @property
    def stored_shift_s(self) -> float:
        """What was added to stored times already."""
        return 0.0 if self.spool is not None else self.source.offset_s
