"""Sorts the rows of a source by time and then by record, in memory that does not grow with their number.

Rows are taken a run at a time, sorted by Arrow and kept aside; then the runs are merged. Logs are nearly in order, so that
mostly one run or two have rows of the same time and the merge is little more than reading them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.trace.batch_file import BatchFile, batches_of, holding, in_tables, whole

# So many rows take about 50 MB, with the columns that hold nothing.
RUN = 100_000
_PART = 5_000
# Rows without a time come last.
_NEVER = np.iinfo(np.int64).max


def sorted_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, scratch: Path) -> Iterator[pa.RecordBatch]:
    """The rows of `batches`, which are of `schema`, by time and then by record.

    Rows without a time come last, those of one record stay as they came. `scratch` is a folder for rows kept aside.
    """
    runs: list[_Run] = []
    for number, table in enumerate(in_tables(batches, RUN)):
        # the columns that hold nothing would be most of what is moved
        batch = _in_order(holding(table.combine_chunks().to_batches()[0]))
        if not runs and batch.num_rows < RUN:
            yield whole(batch, schema)
            return
        runs.append(_Run(batch, scratch / f"sorted-{number}.arrows", schema))
    yield from _merged(runs)


def _in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    keys = [(name, "ascending", "at_end") for name in ("ts", "record") if name in batch.schema.names]
    # Arrow's sort is stable
    return batch.take(pc.sort_indices(batch, sort_keys=keys))


class _Run:
    """Sorted rows in a file, of which the first that were not given yet are held."""

    def __init__(self, rows: pa.RecordBatch, path: Path, schema: pa.Schema) -> None:
        file = BatchFile(path)
        for begin in range(0, rows.num_rows, _PART):
            file.write(rows.slice(begin, _PART))
        file.close()
        self._path, self._schema = path, schema
        self._rest: Iterator[pa.RecordBatch] | None = None
        self._held = schema.empty_table()
        self.first = int(_times(whole(rows.slice(0, 1), schema))[0])
        self.is_read = False

    @property
    def is_spent(self) -> bool:
        """True when all rows were given."""
        return self.is_read and not self._held.num_rows

    @property
    def last(self) -> int:
        """The time of the last row that is held, microseconds; all rows after it are at that time or later."""
        return int(_times(self._held)[-1])

    def hold_more(self) -> None:
        """Hold the next rows, too."""
        if self._rest is None:
            self._rest = batches_of(self._path, self._schema)
        more = next(self._rest, None)
        if more is None:
            self.is_read = True
            self._path.unlink(missing_ok=True)
        else:
            self._held = pa.concat_tables([self._held, pa.Table.from_batches([more])])

    def take(self, until: int) -> pa.Table:
        """The rows before `until`, which are held no longer."""
        count = int(np.searchsorted(_times(self._held), until, side="left"))
        taken, self._held = self._held.slice(0, count), self._held.slice(count)
        return taken

    def take_all(self) -> pa.Table:
        """All rows that are held."""
        taken, self._held = self._held, self._held.slice(0, 0)
        return taken


def _times(rows: pa.Table | pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    times: np.ndarray[tuple[int], np.dtype[np.int64]] = rows.column("ts").cast(pa.int64()).fill_null(_NEVER).to_numpy()
    return times


def _merged(runs: list[_Run]) -> Iterator[pa.RecordBatch]:
    """All rows of the runs, which stand in the order in which their rows came."""
    opened: list[_Run] = []
    waiting = sorted(runs, key=lambda r: r.first)
    while True:
        # whatever is not held yet has the time `until` or a later one
        until = min([r.last for r in opened if not r.is_read], default=_NEVER)
        while waiting and waiting[0].first <= until:
            run = waiting.pop(0)
            run.hold_more()
            opened = [r for r in runs if r in opened or r is run]
            until = min(until, run.last)
        ends = not waiting and all(r.is_read for r in opened)
        parts = [r.take_all() if ends else r.take(until) for r in opened]
        if any(p.num_rows for p in parts):
            yield _in_order(pa.concat_tables(parts).combine_chunks().to_batches()[0])
        if ends:
            return
        for run in opened:
            if not run.is_read and run.last <= until:
                run.hold_more()
        opened = [r for r in opened if not r.is_spent]
