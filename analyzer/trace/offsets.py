"""How far each source's clock is off, found from signals that two sources of one server both have.

Metric samples carry epoch times and are taken as they are; client records likewise; a log's stamps may lack
zone and year. So the clocks of logs are compared with metrics or else client records, those of client records
with metrics. `--offset` goes before any estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.trace.alignment import Estimate, Signal, estimate_offset, load_from_requests, should_apply
from analyzer.trace.identity import Identity, matches
from analyzer.trace.manifest import StoredSource
from analyzer.trace.offset_rules import OffsetRule
from analyzer.trace.spool import Spool
from analyzer.trace.store import read_rows

_SIGNALS = {"running_requests": "running", "waiting_requests": "waiting"}
# A gauge holds as long as the views hold it.
_HOLD_S = 30.0
_HALF_YEAR_S = 183 * 86400.0


_Signals = Callable[["SourceRows", str], tuple[Signal, ...]]


@dataclass(frozen=True, slots=True)
class Offset:
    """What is added to a source's times, and what was estimated."""

    applied_s: float = 0.0
    given: bool = False
    estimate: Estimate | None = None
    against: str = ""

    def columns(self) -> dict[str, Any]:
        """Columns of the `sources` table."""
        e = self.estimate
        basis = None
        if e is not None:
            basis = f"{' and '.join(e.signals)} against {self.against}, agreement {e.agreement:.2f} over {e.overlap_s:.0f} s"
            if not e.sure:
                basis = f"cannot be told from {basis}"
        return {
            "offset_s": self.applied_s or None,
            "offset_from": "given" if self.given else "estimated" if self.applied_s else None,
            "offset_estimate_s": round(e.offset_s, 3) if e is not None and e.sure else None,
            "offset_basis": basis,
        }


@dataclass(frozen=True, slots=True)
class SourceRows:
    """One source and where its rows are: in a spool when it was read just now, else stored."""

    source: StoredSource
    trace: Path
    spool: Spool | None

    def table(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """The rows of one table on the source's own clock; empty when it has none."""
        if self.spool is not None:
            batches = list(self.spool.batches(name, columns))
            frame = pl.from_arrow(pa.Table.from_batches(batches)) if batches else pl.DataFrame()
        elif name in self.source.files:
            frame = pl.from_arrow(read_rows(self.trace, self.source.files[name], columns))
        else:
            frame = pl.DataFrame()
        assert isinstance(frame, pl.DataFrame)
        return frame

    def samples(self, numbers: Sequence[int]) -> pl.DataFrame:
        """Samples of some series."""
        wanted = pa.array(numbers, pa.int64())
        if self.spool is not None:
            parts = [b.filter(pc.is_in(b.column("series_id"), wanted)) for b in self.spool.batches("samples")]
            frame = pl.from_arrow(pa.Table.from_batches(parts)) if parts else pl.DataFrame()
        else:
            table = read_rows(self.trace, self.source.files["samples"], None, [("series_id", "in", list(numbers))])
            frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    @property
    def stored_shift_s(self) -> float:
        """What was added to stored times already."""
        return 0.0 if self.spool is not None else self.source.offset_s


def find_offsets(sources: Sequence[SourceRows], identity: Identity, rules: Sequence[OffsetRule]) -> dict[str, Offset]:
    """The offset of every source, by source id."""
    found: dict[str, Offset] = {}
    by_instance: dict[str, list[SourceRows]] = {}
    for s in sources:
        for name in sorted({identity.instance[s.source.source_id, d["origin"]] for d in s.source.streams}):
            by_instance.setdefault(name, []).append(s)
    cache: dict[tuple[str, str], tuple[Signal, ...]] = {}

    def signals(s: SourceRows, instance: str) -> tuple[Signal, ...]:
        key = (s.source.source_id, instance)
        if key not in cache:
            origins = {d["origin"] for d in s.source.streams if identity.instance[s.source.source_id, d["origin"]] == instance}
            cache[key] = tuple(_signals(s, origins))
        return cache[key]

    # the best clocks first: what they turn out to be off by is known when others are compared with them
    for s in sorted(sources, key=lambda s: (-_trust(s), s.source.path, s.source.source_id)):
        rule = next((r for r in rules if matches(r.pattern, s.source.path)), None)
        estimate, against = _estimate(s, by_instance, signals, found)
        applied = rule.seconds if rule else 0.0
        if rule is None and estimate is not None:
            applied = should_apply(estimate, zone_was_assumed=s.source.clock_assumed) or 0.0
        found[s.source.source_id] = Offset(applied, rule is not None, estimate, against)
    return found


def _trust(s: SourceRows) -> int:
    """How far a source's clock is to be believed; 0 for one that has none."""
    kinds = {d.get("kind", "log") for d in s.source.streams}
    if "metrics" in kinds:
        return 3 if s.source.row["clock"] == "samples" else 0
    if "requests" in kinds:
        return 0 if s.source.clock_assumed else 2
    return 0 if s.source.clock_assumed else 1


def _estimate(
    s: SourceRows, by_instance: Mapping[str, Sequence[SourceRows]], signals: _Signals, found: Mapping[str, Offset]
) -> tuple[Estimate | None, str]:
    """The estimate against the best clock of the same server that tells one for sure, else the best unsure one.

    `found` are the offsets of better clocks, which have been moved by then.
    """
    best: tuple[Estimate | None, str] = (None, "")
    rank: tuple[bool, int, float] | None = None
    if not s.source.streams:
        return best
    for name, members in by_instance.items():
        if s not in members:
            continue
        for other in members:
            if _trust(other) <= _trust(s) or other is s:
                continue
            reference, own = signals(other, name), signals(s, name)
            if not reference or not own:
                continue
            years = _years(reference, own) if s.source.year_assumed else 0.0
            moved = found[other.source.source_id].applied_s
            estimate = estimate_offset([_later(x, moved) for x in reference], [_later(x, years) for x in own])
            if estimate is None:
                continue
            if years:
                estimate = replace(estimate, offset_s=estimate.offset_s + years, agreement_at_zero=None)
            this = (estimate.sure, _trust(other), estimate.overlap_s)
            if rank is None or this > rank:
                best, rank = (estimate, other.source.path), this
    return best


def _years(reference: Sequence[Signal], own: Sequence[Signal]) -> float:
    """Seconds to add so that a log whose year was guessed falls into the reference's year, if it is that far away."""
    middle = float(np.median(np.concatenate([x.ts for x in reference])))
    mine = float(np.median(np.concatenate([x.ts for x in own])))
    if abs(middle - mine) < _HALF_YEAR_S:
        return 0.0
    moment = datetime.fromtimestamp(mine, UTC)
    days = [
        datetime(datetime.fromtimestamp(middle, UTC).year + n, moment.month, min(moment.day, 28), tzinfo=UTC).timestamp()
        - datetime(moment.year, moment.month, min(moment.day, 28), tzinfo=UTC).timestamp()
        for n in (-1, 0, 1)
    ]
    return min(days, key=lambda d: abs(mine + d - middle))


def _later(signal: Signal, seconds: float) -> Signal:
    return Signal(signal.name, signal.ts + seconds, signal.value, signal.hold_s) if seconds else signal


def _signals(s: SourceRows, origins: set[str]) -> Iterator[Signal]:
    """running, waiting and load of one server as this source tells them, on the source's own clock."""
    yield from _from_log(s, origins)
    yield from _from_metrics(s, origins)
    yield from _from_requests(s, origins)


def _from_log(s: SourceRows, origins: set[str]) -> Iterator[Signal]:
    rows = s.table("scheduler", ["ts", "stream", "dp", "tp", "pp", "ep", "kind", "running", "waiting"])
    if rows.is_empty():
        return
    rows = rows.filter(pl.col("stream").fill_null("").is_in(list(origins)) & (pl.col("kind") != "companion"))
    rows = rows.filter(pl.all_horizontal(pl.col(r).fill_null(0) == pl.col(r).fill_null(0).min() for r in ("tp", "pp", "ep")))
    yield from _summed(
        {n: rows.select("ts", pl.col("dp").fill_null(0).alias("rank"), pl.col(n).alias("value")) for n in ("running", "waiting")}, s
    )


def _from_metrics(s: SourceRows, origins: set[str]) -> Iterator[Signal]:
    series = s.table("series", ["series_id", "name", "stream", "counted"])
    if series.is_empty():
        return
    series = series.filter(pl.col("name").is_in(list(_SIGNALS)) & pl.col("stream").fill_null("").is_in(list(origins)) & pl.col("counted"))
    if series.is_empty():
        return
    samples = s.samples(series["series_id"].to_list()).join(series, on="series_id")
    frames = {
        _SIGNALS[name]: samples.filter(pl.col("name") == name).select("ts", pl.col("series_id").alias("rank"), "value") for name in _SIGNALS
    }
    yield from _summed(frames, s)


def _from_requests(s: SourceRows, origins: set[str]) -> Iterator[Signal]:
    rows = s.table("requests", ["stream", "clock", "arrival_ts", "finish_ts", "e2e_s", "status"])
    if rows.is_empty():
        return
    rows = rows.filter(
        pl.col("stream").fill_null("").is_in(list(origins)) & (pl.col("clock") == "wall") & pl.col("arrival_ts").is_not_null()
    ).sort("arrival_ts")
    if rows.height < 2:
        return
    arrival = _seconds(rows["arrival_ts"]) - s.stored_shift_s
    ended = (_seconds(rows["finish_ts"]) - s.stored_shift_s) if rows["finish_ts"].count() else np.full(rows.height, np.nan)
    by_length = arrival + rows["e2e_s"].cast(pl.Float64).to_numpy()
    end = np.where(np.isnan(ended), by_length, ended)
    # one that failed without a time was not in the server for long
    end = np.where(np.isnan(end) & (rows["status"] != "unfinished").fill_null(True).to_numpy(), arrival, end)
    last = float(np.nanmax(np.concatenate([arrival, end])))
    yield load_from_requests(arrival, end, last)


def _summed(frames: Mapping[str, pl.DataFrame], s: SourceRows) -> Iterator[Signal]:
    """One signal per name, summed over ranks (each holds its last value), and `load`, the sum of both."""
    made: dict[str, Signal] = {}
    for name, frame in frames.items():
        frame = frame.drop_nulls().unique(["ts", "rank"], keep="last").sort("ts")
        if frame.height < 2:
            continue
        wide = frame.pivot("rank", index="ts", values="value").sort("ts").with_columns(pl.exclude("ts").forward_fill())
        total = wide.select("ts", pl.sum_horizontal(pl.exclude("ts"), ignore_nulls=False).alias("value"))
        made[name] = Signal(name, _seconds(total["ts"]) - s.stored_shift_s, total["value"].cast(pl.Float64).to_numpy(), _HOLD_S)
    if "running" in made and "waiting" in made and np.array_equal(made["running"].ts, made["waiting"].ts):
        running, waiting = made["running"], made["waiting"]
        made["load"] = Signal("load", running.ts, running.value + waiting.value, _HOLD_S)
    yield from made.values()


def _seconds(column: pl.Series) -> Any:
    return column.dt.timestamp("us").cast(pl.Float64).to_numpy() / 1e6
