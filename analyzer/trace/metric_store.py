"""Stores the series and samples of one source: split by process lifetime, sorted, numbered.

Samples are many, so they pass as columns and never all at once; only the series, which are few, pass through Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.trace.identity import Identity
from analyzer.trace.manifest import StoredFile, StoredSource
from analyzer.trace.sample_order import SampleOrder, Samples
from analyzer.trace.schema import SAMPLES, TS
from analyzer.trace.store import publish, write_table

_ROW_GROUP = 256 * 1024
# Which source a series is of stands in its number's upper bits, so that no two traces' parts need renumbering.
_SOURCE_SHIFT = 32


def store_metrics(
    folder: Path,
    source: StoredSource,
    series: pa.Table,
    samples: Iterator[pa.RecordBatch],
    identity: Identity,
    scratch: Path,
    shift: timedelta,
) -> dict[str, list[StoredFile]]:
    """Write `series` and `samples` (fresh from a spool, or stored before, on the source's own clock) and return their files.

    A series becomes one series for each process lifetime it has samples in. `shift` is added to all times.
    """
    places = _places(source.source_id, series, identity)
    order = SampleOrder(len(places.run_id), scratch)
    moved = shift // timedelta(microseconds=1)
    for batch in samples:
        order.add(places.of(batch, moved))
    order.close()
    # numbered in the order of their names, without those that have no samples
    kept = np.flatnonzero(order.first <= order.last)
    numbers = np.full(len(places.run_id), -1, np.int64)
    numbers[kept] = (source.number << _SOURCE_SHIFT) + np.arange(len(kept))
    target = folder / "samples"
    target.mkdir(parents=True, exist_ok=True)
    aside = target / f".{source.source_id}.{os.getpid()}.partial"
    counts = _write(aside, order.pieces(), numbers)
    rows = series.take(pa.array(places.row[kept]))
    told = {
        "instance": pa.array([places.instance[k] for k in kept], pa.string()),
        "run_id": pa.array([places.run_id[k] for k in kept], pa.string()),
        "series_id": pa.array(numbers[kept]),
        "samples": pa.array(counts[kept]),
        "first_ts": pa.array(order.first[kept]).cast(TS),
        "last_ts": pa.array(order.last[kept]).cast(TS),
    }
    for name, column in told.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), column)
    return {
        "series": [write_table(folder, "series", source.source_id, rows)],
        "samples": [StoredFile(publish(aside, folder, "samples", source.source_id), int(counts.sum()))],
    }


@dataclass(frozen=True, slots=True)
class _Places:
    """Where samples belong: a place is one series in one process lifetime, in the order of their names.

    `row`, `instance` and `run_id` are of each place. `which` tells of a series' number, less `low`, its row or -1; `starts`
    of each row the moments (microseconds) at which process lifetimes begin, as an index into `edges`; `first` of each row
    where its places stand in `table`, one for each lifetime.
    """

    row: npt.NDArray[np.int64]
    instance: list[str]
    run_id: list[str]
    low: int
    which: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]
    edges: list[npt.NDArray[np.int64]]
    first: npt.NDArray[np.int64]
    table: npt.NDArray[np.int32]

    def of(self, batch: pa.RecordBatch, moved: int) -> Samples:
        """The samples of a batch at their places, `moved` microseconds later; those of series that are not kept are left."""
        number = batch.column("series_id").to_numpy() - self.low
        known = (number >= 0) & (number < len(self.which))
        row = self.which[np.where(known, number, 0)]
        ts = batch.column("ts").cast(pa.int64()).to_numpy() + moved
        value = batch.column("value").to_numpy(zero_copy_only=False)
        known &= row >= 0
        if not known.all():
            row, ts, value = row[known], ts[known], value[known]
        at = self.first[row]
        for number_, edges in enumerate(self.edges):
            if len(edges):
                here = slice(None) if len(self.edges) == 1 else self.starts[row] == number_
                at[here] += np.searchsorted(edges, ts[here], side="right")
        return Samples(self.table[at], ts, value)


def _places(source_id: str, series: pa.Table, identity: Identity) -> _Places:
    columns = {name: series.column(name).to_pylist() for name in ("series_id", "name", "part", "raw_name", "labels", "stream")}
    keys: list[tuple[Any, ...]] = []
    first: list[int] = []
    starts: list[int] = []
    edges: list[npt.NDArray[np.int64]] = []
    number_of: dict[str, int] = {}
    for name, part, raw_name, labels, stream in zip(*(columns[c] for c in ("name", "part", "raw_name", "labels", "stream")), strict=True):
        instance = identity.instance[source_id, stream or ""]
        runs = identity.runs[instance]
        if instance not in number_of:
            number_of[instance] = len(edges)
            edges.append(_us([r.start for r in runs[1:] if r.start is not None]))
        starts.append(number_of[instance])
        first.append(len(keys))
        # parts of a series that was split before and belongs together now have one place
        keys += [
            (name or "~", part or "", raw_name, tuple(labels or ()), run.run_id, stream or "") for run in runs[: len(edges[starts[-1]]) + 1]
        ]
    rank = {key: number for number, key in enumerate(sorted(set(keys)))}
    table = np.array([rank[key] for key in keys], np.int32)
    row = np.zeros(len(rank), np.int64)
    row[table] = np.repeat(np.arange(len(first)), np.diff([*first, len(keys)]))
    numbers = np.array(columns["series_id"], np.int64)
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    which = np.full(high - low + 1, -1, np.int32)
    which[numbers - low] = np.arange(len(numbers))
    ordered = sorted(rank)
    instances = [identity.instance[source_id, key[5]] for key in ordered]
    return _Places(
        row, instances, [key[4] for key in ordered], low, which,
        np.array(starts, np.int32), edges, np.array(first, np.int64), table,
    )  # fmt: skip


def _us(moments: list[datetime]) -> npt.NDArray[np.int64]:
    return np.asarray(pa.array(moments, TS).cast(pa.int64()).to_numpy(), np.int64)


def _write(path: Path, pieces: Iterator[Samples], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Write samples that come in order to a Parquet file; returns how many each place has."""
    counts = np.zeros(len(numbers), np.int64)
    # neighbours have one series and evenly spaced times
    encoded = pq.ParquetWriter(
        path,
        SAMPLES.arrow,
        compression="zstd",
        compression_level=1,
        use_dictionary=["series_id"],
        column_encoding={"ts": "DELTA_BINARY_PACKED"},
    )
    with encoded as writer:
        for group in _groups(pieces):
            counts += np.bincount(group.place, minlength=len(numbers))
            columns = [pa.array(numbers[group.place]), pa.array(group.ts).cast(TS), pa.array(group.value, from_pandas=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SAMPLES.arrow), row_group_size=_ROW_GROUP)
    return counts


def _groups(pieces: Iterator[Samples]) -> Iterator[Samples]:
    """The same samples in pieces of whole row groups."""
    rest: Samples | None = None
    for piece in pieces:
        whole = piece if rest is None else rest.then(piece)
        full = len(whole) - len(whole) % _ROW_GROUP
        if full:
            yield whole.take(slice(0, full))
        rest = whole.take(slice(full, None))
    if rest is not None and len(rest):
        yield rest
