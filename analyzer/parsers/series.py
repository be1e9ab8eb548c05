"""Series and samples of one metric dump, on their way into the spool.

Every reader of metrics feeds this. It knows which names belong to a model server (the rest is counted and
left), brings values to the catalogue's units, tells which series repeat others, and takes from the values
what is known of the process: when it started, its capacities, its configuration.
"""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyzer.formats.metrics import Known
from analyzer.formats.versions import VersionRange
from analyzer.parsers.one_series import MODEL_LABELS, ROLES, Series, bound_of, named, type_of
from analyzer.parsers.pool_config import pool_facts
from analyzer.parsers.repeated_series import leave_repeated
from analyzer.parsers.target_split import split_targets
from analyzer.sources.timestamps import EPOCH, from_us
from analyzer.trace.sample_order import SampleOrder, Samples
from analyzer.trace.schema import SAMPLES, TS
from analyzer.trace.spool import Spool
from analyzer.trace.streams import Mark, Stream

NOT_STORED = -1
"""What `SeriesWriter.series` gives for a series that is not kept."""

_FLUSH_SAMPLES = 500_000
# A value of a share beyond this is a percentage, and one beyond what percentages can be is damage.
_MOST_SHARE = 1.5
_MOST_PERCENT = 105.0
_MOST_COUNT = 1e15

_COUNTED_UNITS = frozenset(("requests", "tokens", "blocks", ""))
# LMCache has version numbers of its own, beside those of the engine it serves.
_VERSIONED = frozenset(("sglang", "vllm"))
# Any of these falling back tells of a new process where the exporter has no start time of its own.
_TELLS_RESTART = frozenset(
    ("prompt_tokens_total", "generation_tokens_total", "finished_requests_total", "requests_total", "ttft_s", "e2e_s")
)
# The process collector rounds to a clock tick, a federated value to less: starts closer than this are one.
_SAME_START_S = 2.0


class SeriesWriter:
    """Collects the series and samples of one source.

    Use `series` once for each series (its answer is to be kept by the caller), `extend` for the samples, in any
    order, and `finish` at the end.
    """

    def __init__(self, source_id: str, spool: Spool) -> None:
        self._source_id = source_id
        self._spool = spool
        self._all: list[Series] = []
        self._numbers: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        # numbers of series, microseconds and values of what is not written yet
        self._waiting: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
        self._size = 0
        self._scales = array("d")
        self._scaled = False
        self._most = array("d")
        self.damaged = 0
        self._watched: dict[int, list[tuple[int, float]]] = {}  # (microseconds, value) where it changed
        self._percent: set[int] = set()
        self._shares: set[int] = set()
        self.stored = 0
        self.foreign: dict[str, int] = {}
        self.first: int | None = None
        self.last: int | None = None

    def series(self, raw_name: str, labels: Mapping[str, str], record: int, declared: str = "") -> int:
        """The number of a series for `extend`, or NOT_STORED for what is of no model server, or of no use.

        `labels` are without `__name__`; `declared` is the type a TYPE line gives.
        """
        key = (raw_name, _identity(labels))
        number = self._numbers.get(key)
        if number is not None:
            return number
        told = named(raw_name, tuple(sorted(labels.items())))
        known = told.known
        if told.engine is None:
            self.foreign[raw_name] = self.foreign.get(raw_name, 0) + 1
            number = NOT_STORED
        elif (known and known.part == "created") or (known is None and raw_name.endswith("_created")):
            number = NOT_STORED
        else:
            number = len(self._all)
            scale = told.scale
            self._all.append(Series(raw_name, told.labels, record, known, told.engine, declared, told.stream, scale, told.le, told.ranks))
            self._scales.append(scale)
            self._scaled = self._scaled or scale != 1.0
            self._most.append(_most(known))
            if known and known.part is None:
                if known.metric.fact or known.metric.name == "process_start_s":
                    self._watched[number] = []
                if known.metric.unit == "share":
                    self._shares.add(number)
            self._numbers[key] = number
        return number

    def extend(
        self,
        series: int | Sequence[int],
        ts: int | Sequence[int] | npt.NDArray[np.int64],
        values: Sequence[float] | npt.NDArray[np.float64],
    ) -> None:
        """Many samples: of one series or of one each, of one moment or of one each (microseconds since the epoch, UTC).

        Arrays are kept until they are written, and must not change.
        """
        size = len(values)
        if not size:
            return
        index = np.full(size, series, np.int32) if isinstance(series, int) else np.asarray(series, np.int32)
        moments = np.full(size, ts, np.int64) if isinstance(ts, int) else np.asarray(ts, np.int64)
        self._waiting.append((index, moments, np.asarray(values, np.float64)))
        self._size += size
        if self._size >= _FLUSH_SAMPLES:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        index, ts, values = (np.concatenate(column) for column in zip(*self._waiting, strict=True))
        self._waiting, self._size = [], 0
        if self._scaled:
            values *= np.frombuffer(self._scales, dtype=np.float64).take(index)
        # no server has more of anything that is counted here; what else is not finite is damage too
        beyond = np.abs(values) > np.frombuffer(self._most, dtype=np.float64).take(index)
        if beyond.any():
            self.damaged += int(beyond.sum())
            values[beyond] = np.nan
        self.stored += len(index)
        low, high = int(ts.min()), int(ts.max())
        self.first = low if self.first is None else min(self.first, low)
        self.last = high if self.last is None else max(self.last, high)
        if self._watched:
            of_use = np.zeros(len(self._all), dtype=np.bool_)
            of_use[list(self._watched)] = True
            watched = of_use.take(index)
            for number, when, value in zip(index[watched].tolist(), ts[watched].tolist(), values[watched].tolist(), strict=True):
                changes = self._watched[number]
                if not math.isnan(value) and (not changes or changes[-1][1] != value):
                    changes.append((when, value))
        beyond = values > _MOST_SHARE
        if self._shares and beyond.any():
            self._percent |= self._shares & set(index[beyond].tolist())
        self._spool.add_batch(
            "samples",
            pa.RecordBatch.from_arrays(
                [pa.array(index.astype(np.int64)), pa.array(ts).cast(TS), pa.array(values, from_pandas=True)],
                schema=SAMPLES.arrow,
            ),
        )

    def finish(self) -> MetricsRead:
        """Write the series and what was learned of the processes behind them; the spool is closed for samples."""
        self._flush()
        read = MetricsRead()
        leave_repeated(self._all)
        if self.damaged:
            read.notes.append(f"{self.damaged} values are beyond any server's and were left out")
        if self._percent:
            read.notes.append(f"{len(self._percent)} series of shares are in percent: divided by 100")
            self._spool.change_batches("samples", self._divided)
        starts = {n: [v for _, v in changes] for n, changes in self._watched.items() if self._all[n].name == "process_start_s"}
        split_targets(self._all, starts)
        started = self._started()
        read.mixed = sorted(origin for origin, changes in started.items() if _alternate(changes))
        serving = {s.stream for s in self._all if s.engine != "process"}
        for number, series in enumerate(self._all):
            # every exporter tells of its process: those of other programs are none of ours
            if (serving and series.stream not in serving) or series.stream in read.mixed:
                continue
            self._spool.add("series", self._row(number, series))
            stream = read.streams.setdefault(series.stream, Stream(series.stream, kind="metrics"))
            if series.engine != "process":
                read.engines.add(series.engine)
                stream.engines.add(series.engine)
        for stream in read.streams.values():
            address = _address(stream.origin) or next(
                (a for s in self._all if s.stream == stream.origin and (a := _address(s.labels.get("instance", "")))), None
            )
            if address:
                stream.addresses.append(address)
        known = [s.known.metric for s in self._all if s.known and s.engine in _VERSIONED]
        for since, until in dict.fromkeys((metric.since, metric.until) for metric in known):
            read.versions.narrow(since, until)
        for origin in read.mixed:
            read.notes.append(f"scrapes of {origin or 'several servers'} are of several processes at the same time: left out")
        self._facts(read.mixed)
        self._marks(read, started)
        unknown = sorted({s.raw_name for s in self._all if s.known is None})
        if unknown:
            shown = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
            read.notes.append(f"{len(unknown)} metric names are not known to this release, kept by their raw name: {shown}")
        return read

    def _divided(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Percentages as shares."""
        percent = np.isin(batch.column("series_id").to_numpy(), np.fromiter(self._percent, dtype=np.int64))
        values = batch.column("value").to_numpy(zero_copy_only=False)
        return batch.set_column(2, SAMPLES.arrow.field("value"), pa.array(np.where(percent, values / 100.0, values), from_pandas=True))

    def _row(self, number: int, series: Series) -> dict[str, Any]:
        metric = series.known.metric if series.known else None
        return {
            "source_id": self._source_id,
            "record": series.record,
            "engine": series.engine,
            "stream": series.stream,
            "series_id": number,
            "name": series.name,
            "part": series.part,
            "raw_name": series.raw_name,
            "type": type_of(series),
            "unit": None if metric is None else "" if series.part in ("bucket", "count") else metric.unit,
            "scale": series.scale / (100.0 if number in self._percent else 1.0),
            "le": series.le,
            **series.ranks,
            "role": next((v for k in ("engine_type", "role") if (v := series.labels.get(k)) in ROLES), None),
            "model": next((series.labels[k] for k in MODEL_LABELS if k in series.labels), None),
            "priority": series.labels.get("priority"),
            "labels": list(series.labels.items()),
            "counted": series.counted,
            "why_not": series.why_not,
        }

    def _started(self) -> dict[str, list[tuple[int, float]]]:
        """Start times as each stream's processes told them: (microseconds, epoch seconds), in the order of time."""
        told: dict[str, list[tuple[int, float]]] = {}
        for number, changes in self._watched.items():
            if self._all[number].name == "process_start_s":
                told.setdefault(self._all[number].stream, []).extend(changes)
        return {origin: sorted(changes) for origin, changes in told.items()}

    def _facts(self, mixed: Sequence[str]) -> None:
        """Gauges and info labels that are facts of a run: capacities, the configuration of the pool."""
        for number, changes in self._watched.items():
            series = self._all[number]
            metric = series.known.metric if series.known else None
            if metric and metric.fact and series.counted and series.stream not in mixed:
                for ts, value in changes:
                    self._fact(series, ts, metric.fact, value, metric.unit)
        for series in self._all:
            if series.name == "kv_cache_config" and self.first is not None and series.stream not in mixed:
                for key, told, unit in pool_facts(series.labels, series.engine):
                    self._fact(series, self.first, key, told, unit)

    def _fact(self, series: Series, ts: int, key: str, value: float | str, unit: str) -> None:
        number = value if isinstance(value, float) else None
        self._spool.add(
            "facts",
            {
                "source_id": self._source_id,
                "record": series.record,
                "engine": series.engine,
                "stream": series.stream,
                "ts": from_us(ts),
                "dp": series.ranks.get("dp"),
                "key": key,
                "value": f"{value:g}"
                if isinstance(value, float) and not value.is_integer()
                else str(int(value))
                if number is not None
                else value,
                "number": number,
                "type": "str" if number is None else "int" if number.is_integer() else "float",
                "unit": unit,
                "read_from": series.raw_name,
            },
        )

    def _marks(self, read: MetricsRead, started: Mapping[str, list[tuple[int, float]]]) -> None:
        """The processes behind each stream: by the start time they export, else by counters that fell back."""
        self._spool.close_table("samples")
        spans = self._spans()
        resets = self._resets({origin for origin in read.streams if origin not in started})
        for origin, stream in read.streams.items():
            first, last = spans.get(origin, (None, None))
            if first is None or last is None:
                continue
            stream.marks.append(Mark(from_us(first), 0, "serving", "metrics.scrape"))
            stream.marks.append(Mark(from_us(last), 0, "serving", "metrics.scrape"))
            stream.marks += [Mark(ts, 0, "start", "metrics.process_start") for ts in _starts(started.get(origin, []))]
            if found := resets.get(origin):
                read.notes.append(f"counters fell back {len(found)} times: taken for restarts")
                stream.marks += [Mark(from_us(b), 0, "start", "metrics.counter_reset", not_before=from_us(a)) for a, b in found]

    def _spans(self) -> dict[str, tuple[int, int]]:
        """First and last sample (microseconds) of each stream."""
        streams = sorted({s.stream for s in self._all})
        if len(streams) == 1 and self.first is not None and self.last is not None:
            # known without another look at all samples
            return {streams[0]: (self.first, self.last)}
        place = {name: i for i, name in enumerate(streams)}
        of = np.array([place[s.stream] for s in self._all], dtype=np.int32)
        low = np.full(len(streams), np.iinfo(np.int64).max)
        high = np.full(len(streams), np.iinfo(np.int64).min)
        for batch in self._spool.batches("samples"):
            which = of[batch.column("series_id").to_numpy()]
            ts = batch.column("ts").cast(pa.int64()).to_numpy()
            np.minimum.at(low, which, ts)
            np.maximum.at(high, which, ts)
        return {name: (int(low[i]), int(high[i])) for name, i in place.items() if low[i] <= high[i]}

    def _resets(self, origins: Container[str]) -> dict[str, list[tuple[int, int]]]:
        """Where counters of these streams fell back: (last sample before, first one after), microseconds, in the order of time."""
        chosen = [
            n
            for n, s in enumerate(self._all)
            if s.stream in origins and s.name in _TELLS_RESTART and (s.part == "count" or (s.part is None and s.name.endswith("_total")))
        ]
        if not chosen:
            return {}
        place = np.full(len(self._all), -1, np.int32)
        place[chosen] = np.arange(len(chosen))
        fell: dict[str, set[tuple[int, int]]] = {}
        with tempfile.TemporaryDirectory(prefix="kvpm-") as scratch:
            order = SampleOrder(len(chosen), Path(scratch))
            for batch in self._spool.batches("samples"):
                at = place.take(batch.column("series_id").to_numpy())
                ts, value = batch.column("ts").cast(pa.int64()).to_numpy(), batch.column("value").to_numpy(zero_copy_only=False)
                order.add(Samples(at, ts, value).take(at >= 0))
            order.close()
            last: Samples | None = None
            for piece in order.pieces():
                found = piece if last is None else last.then(piece)
                back = np.flatnonzero((found.place[1:] == found.place[:-1]) & (found.value[1:] < found.value[:-1]))
                for where, before, after in zip(found.place[back], found.ts[back].tolist(), found.ts[back + 1].tolist(), strict=True):
                    fell.setdefault(self._all[chosen[where]].stream, set()).add((before, after))
                last = found.take(slice(-1, None))
        return {origin: _apart(sorted(pairs)) for origin, pairs in fell.items()}


def _apart(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of (before, after) that do not overlap: one restart is seen through several series."""
    found: list[tuple[int, int]] = []
    for before, after in pairs:
        if not found or before >= found[-1][1]:
            found.append((before, after))
    return found


@dataclass(slots=True)
class MetricsRead:
    """What the series of one source told: streams with their marks, engines, versions that export such names, notes.

    `mixed` names the streams whose scrapes are of several processes at the same time: nothing can be read from those.
    """

    streams: dict[str, Stream] = field(default_factory=dict)
    versions: VersionRange = field(default_factory=VersionRange)
    engines: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)


def _identity(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Labels as they tell series apart: a bound is one bound as 1, 1.0 and 1e+0 (Prometheus changed its spelling in 3.0)."""
    bound = bound_of(labels, 1.0)
    return tuple(sorted(labels.items() if bound is None else (dict(labels) | {"le": repr(bound)}).items()))


def _most(known: Known | None) -> float:
    """The largest value that is believed."""
    if known is None:
        return math.inf
    if known.part is None and known.metric.unit == "share":
        return _MOST_PERCENT
    return _MOST_COUNT if known.part in ("bucket", "count") or known.metric.unit in _COUNTED_UNITS else math.inf


def _address(text: str) -> tuple[str, int] | None:
    host, colon, port = text.rpartition(":")
    return (host, int(port)) if colon and port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536 else None


def _starts(changes: list[tuple[int, float]]) -> list[datetime]:
    """Process starts (UTC) from the values of process_start_time_seconds, in the order they were seen."""
    found: list[float] = []
    for _, value in changes:
        if value > 0 and not any(abs(value - f) < _SAME_START_S for f in found):
            found.append(value)
    return [EPOCH + timedelta(seconds=v) for v in sorted(found)]


def _alternate(changes: list[tuple[int, float]]) -> bool:
    """True when earlier processes come back after later ones: the scrapes are of several processes."""
    return sum(later[1] < earlier[1] - _SAME_START_S for earlier, later in pairwise(changes)) > 1
