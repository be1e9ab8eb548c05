"""The rows of one source on its own clock, wherever they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from analyzer.trace.manifest import StoredSource
from analyzer.trace.schema import SAMPLES, TABLES
from analyzer.trace.spool import Spool
from analyzer.trace.store import read_batches, read_rows


@dataclass(frozen=True, slots=True)
class SourceRows:
    """One source and where its rows are: stored, in a spool when it was read just now, or both when only its new bytes were."""

    source: StoredSource
    trace: Path
    spool: Spool | None

    @property
    def spools(self) -> tuple[Spool, ...]:
        """The spool and its tail, as far as there are."""
        if self.spool is None:
            return ()
        return (self.spool,) if self.spool.tail is None else (self.spool, self.spool.tail)

    def count(self, name: str) -> int:
        """How many rows one table has of it."""
        return self.source.rows_of(name) + sum(s.counts.get(name, 0) for s in self.spools)

    def batches(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of one table, few at a time: all columns, or some."""
        yield from self.stored(name, columns)
        for spool in self.spools:
            yield from spool.batches(name, columns)

    def stored(self, name: str, columns: Sequence[str] | None = None, *, tail: bool | None = None) -> Iterator[pa.RecordBatch]:
        """Those of `batches` that are stored; of them the tail, or all others."""
        files = [f for f in self.source.files.get(name, ()) if tail is None or f.tail == tail]
        return self._on_own_clock(read_batches(self.trace, files, columns))

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of one table."""
        arrow = TABLES[name].arrow
        schema = arrow if columns is None else pa.schema([arrow.field(c) for c in columns])
        return pa.Table.from_batches(self.batches(name, columns), schema)

    def samples(self, numbers: Sequence[int]) -> pa.Table:
        """Samples of some series."""
        wanted = pa.array(numbers, pa.int64())
        parts = [b.filter(pc.is_in(b.column("series_id"), wanted)) for s in self.spools for b in s.batches("samples")]
        if self.source.files.get("samples"):
            rows = read_rows(self.trace, self.source.files["samples"], [("series_id", "in", list(numbers))])
            parts = [*self._on_own_clock(rows.to_batches()), *parts]
        return pa.Table.from_batches(parts, SAMPLES.arrow)

    def _on_own_clock(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return later(batches, timedelta(seconds=-self.source.offset_s))


def later(batches: Iterable[pa.RecordBatch], shift: timedelta) -> Iterator[pa.RecordBatch]:
    """`batches` with all times `shift` later."""
    if not shift:
        yield from batches
        return
    by = pa.scalar(shift, pa.duration("us"))
    for batch in batches:
        arrays = [pc.add(a, by) if pa.types.is_timestamp(a.type) else a for a in batch.columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
