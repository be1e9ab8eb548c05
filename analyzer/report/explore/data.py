"""From an opened trace to what can be explored: the static charts' own curves, finer, and a few that only stand here.

Curves come from the same helpers as the static charts, so that peaks and gaps are the same; what is drawn here may have
more points. How many a page may have in all is fixed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import duckdb
import numpy as np

from analyzer.diagnosis.model import Window
from analyzer.report import fmt
from analyzer.report.buckets import Bucket, breaks, read_buckets
from analyzer.report.charts import Segment, TimeAxis, segments
from analyzer.report.downsample import thinned
from analyzer.report.explore.lanes import build_lanes
from analyzer.report.explore.model import Bars, Charted, Curve, ExploreInstance, Rule, Times
from analyzer.report.explore.moments import build_moments
from analyzer.report.explore.requests import build_requests
from analyzer.report.explore.ttft_map import build_ttft_map
from analyzer.report.explore.whole import Explore
from analyzer.report.panels import panels
from analyzer.report.question_panels import read_gauges
from analyzer.report.timeline import clipped, closeup_range, process_rules, time_range
from analyzer.report.told import read_told

# Points of all curves of all instances together. One takes 5 to 16 characters of the page (twice that where every point
# has a gap behind it), usually 6.
POINT_BUDGET = 100_000
# However many curves there are, each keeps at least this many.
MIN_POINTS = 60
MAX_BARS = 300
_COUNTED = (("retracted", "retraction"), ("preempted", "preemption"))
# Shares of the pool, which are drawn here in tokens.
_AS_TOKENS = ("kv-used", "kv-evictable", "kv-available")
_STATES = ("l1_used_tokens", "l1_evictable_tokens", "l1_available_tokens")

Curves = dict[str, tuple[Segment, ...]]


@dataclass(frozen=True, slots=True)
class _Gathered:
    """One instance before thinning; times in epoch seconds."""

    asked: ExploreInstance
    start: float
    end: float
    rules: Sequence[tuple[float, str]]
    curves: Curves
    bars: Mapping[str, Bars]
    notes: Mapping[str, str]


def build_explore(con: duckdb.DuckDBPyConnection, instances: Sequence[ExploreInstance]) -> Explore | None:
    """What can be explored of these instances; None where there is no chart to draw."""
    found = [one for one in (_gather(con, asked) for asked in instances) if one is not None]
    if not found:
        return None
    limit = fair_limit([_size(c) for one in found for c in one.curves.values()], POINT_BUDGET)
    shown = [one.asked for one in found]
    explore = Explore(
        charted=tuple(_charted(one, limit) for one in found),
        left_out=len(instances) - len(found),
        requests=build_requests(con, shown),
        ttft_map=build_ttft_map(con, shown),
        lanes=build_lanes(con, shown),
        moments=build_moments(con, shown),
    )
    drawn = any(one.curves or one.bars for one in explore.charted) or explore.requests or explore.ttft_map or explore.lanes
    return explore if drawn else None


def fair_limit(sizes: Sequence[int], budget: int) -> int:
    """The most points any one curve may keep so that all together keep at most `budget`; what small ones leave goes to
    the others. Never less than `MIN_POINTS`.
    """
    left = budget
    ordered = sorted(sizes)
    for done, size in enumerate(ordered):
        share = left // (len(ordered) - done)
        if size > share:
            return max(MIN_POINTS, share)
        left -= size
    return max(MIN_POINTS, ordered[-1] if ordered else 0)


def _gather(con: duckdb.DuckDBPyConnection, asked: ExploreInstance) -> _Gathered | None:
    buckets = read_buckets(con, asked.name)
    extent = time_range(con, asked.name, buckets)
    if extent is None:
        return None
    start, end = extent
    curves: Curves = {}
    notes: dict[str, str] = {}
    if buckets:
        told = read_told(con, asked.name)
        # More points than there are buckets: nothing is thinned out yet.
        for panel in panels(buckets, told, asked.engine, [], limit=len(buckets) + 1):
            notes[panel.key] = panel.note
            for series in panel.series:
                if f"{panel.key}-{series.style}" not in _AS_TOKENS:
                    curves[f"{panel.key}-{series.style}"] = series.segments
        curves |= _own_curves(con, asked.name, buckets)
        gauges = read_gauges(con, asked.name, TimeAxis(start, end), max(b.end - b.start for b in buckets))
        curves["hit-share"] = gauges.curve("hit")
        curves["ratio-now"] = gauges.curve("ratio")
    bars = _bars(con, asked.name, buckets)
    rules, _hidden = process_rules(con, asked.name, buckets)
    return _Gathered(asked, start, end, rules, {key: c for key, c in curves.items() if c}, bars, notes)


def _own_curves(con: duckdb.DuckDBPyConnection, name: str, buckets: Sequence[Bucket]) -> Curves:
    """The pool's three states in tokens, its capacity, and the cap on running requests."""
    times = [(b.start, b.end) for b in buckets]
    stops = breaks(buckets)
    limit = len(buckets) + 1

    def curve(values: Sequence[float | None], low: Sequence[float | None] | None = None) -> tuple[Segment, ...]:
        return segments(times, values, stops, low=low, limit=limit)

    stacked: list[tuple[float | None, float | None, float | None]] = []
    for bucket in buckets:
        used, evictable, available = (bucket.get(state) for state in _STATES)
        if used is None or evictable is None or available is None:
            stacked.append((None, None, None))
        else:
            stacked.append((used, used + evictable, used + evictable + available))
    tops = [[part[n] for part in stacked] for n in range(3)]
    caps = _caps(con, name)
    return {
        "l1-used": curve(tops[0]),
        "l1-evictable": curve(tops[1], tops[0]),
        "l1-available": curve(tops[2], tops[1]),
        "l1-capacity": curve([b.get("l1_capacity_tokens") for b in buckets]) if any(t is not None for t in tops[0]) else (),
        "requests-cap": curve([caps.get(b.run) for b in buckets]),
    }


def _caps(con: duckdb.DuckDBPyConnection, name: str) -> dict[str, float]:
    """The cap on running requests of each run: that of a rank times the ranks that reported, as running is their sum."""
    rows = con.execute(
        """
        WITH ranks AS (
          SELECT run_id, count(DISTINCT dp) AS n FROM scheduler_clean WHERE instance IS NOT DISTINCT FROM $name GROUP BY run_id
        )
        SELECT l.run_id, l.cap * coalesce(r.n, 1)
        FROM _limits AS l
        LEFT JOIN ranks AS r USING (run_id)
        WHERE l.instance IS NOT DISTINCT FROM $name AND l.cap > 0
        """,
        {"name": name or None},
    ).fetchall()
    return {run or "": float(cap) for run, cap in rows}


def _bars(con: duckdb.DuckDBPyConnection, name: str, buckets: Sequence[Bucket]) -> dict[str, Bars]:
    """Retractions and preemptions: requests per bucket where they were counted, else the log's lines."""
    found = {}
    for key, kind in _COUNTED:
        amounts = [(b.start, b.end, n) for b in buckets if (n := b.get(key) or 0) > 0]
        width = max((b.end - b.start for b in buckets), default=1.0)
        if not amounts:
            rows = con.execute(
                """
                SELECT floor(epoch_us(ts) / 1e6 / $width) * $width AS start, count(*)
                FROM event
                WHERE instance IS NOT DISTINCT FROM $name AND kind = $kind AND ts IS NOT NULL
                GROUP BY start ORDER BY start
                """,
                {"name": name or None, "kind": kind, "width": width},
            ).fetchall()
            amounts = [(start, start + width, float(n)) for start, n in rows]
        if amounts:
            found[key] = _merged(amounts)
    return found


def _merged(amounts: Sequence[tuple[float, float, float]]) -> Bars:
    """At most `MAX_BARS`: neighbours are added up where there are more."""
    start = amounts[0][0]
    width = max(max(right - left for left, right, _n in amounts), (amounts[-1][1] - start) / MAX_BARS)
    bins: dict[int, list[float]] = {}
    for left, right, count in amounts:
        merged = bins.setdefault(int((left - start) / width + 1e-9), [left, right, 0.0])
        merged[1] = right
        merged[2] += count
    columns = np.array([bins[n] for n in sorted(bins)], dtype=np.float64).T
    return Bars(_ms(columns[0]), _ms(columns[1]), columns[2].astype(np.float32))


def _ms(seconds: Times) -> Times:
    return np.asarray(np.round(seconds * 1e3), dtype=np.float64)


def _size(curve: Sequence[Segment]) -> int:
    return sum(len(s.points) for s in curve)


def thin(curve: Sequence[Segment], limit: int) -> Curve:
    """A curve of at most `limit` points (not counting gaps): lowest and highest of each stretch stay, and so does where
    it begins anew as long as these beginnings are not more than half of all.
    """
    points = np.array(list(chain.from_iterable(s.points for s in curve)), dtype=np.float64)
    part = np.repeat(np.arange(len(curve)), [len(s.points) for s in curve])
    first = np.flatnonzero(np.diff(part, prepend=-1))
    if len(points) <= limit:
        kept = np.arange(len(points))
    elif len(first) <= limit // 2:
        kept = np.union1d(thinned(points[:, 2], max(2, limit - len(first))), first)
    else:
        kept = thinned(points[:, 2], limit)
    ends = np.array([s.end for s in curve])
    rows: list[tuple[float, float, float]] = []
    for at, index in enumerate(kept.tolist()):
        rows.append((points[index, 0], points[index, 1], points[index, 2]))
        own = part[index]
        following = kept[at + 1] if at + 1 < len(kept) else None
        if following is None or part[following] != own:
            rows.append((ends[own], np.nan, np.nan))
    x, low, high = np.array(rows, dtype=np.float64).T
    base = low.astype(np.float32) if np.nanmax(np.abs(low)) > 0 else None
    return Curve(_ms(x), high.astype(np.float32), base, len(points))


def _charted(one: _Gathered, limit: int) -> Charted:
    start, end = one.start, one.end
    for curve in one.curves.values():
        # Whole buckets, and the time that a histogram's value tells of.
        start, end = min(start, curve[0].points[0][0]), max(end, curve[-1].end)
    incident = _shaded(one.asked.window, start, end)
    near = closeup_range((start, end), one.asked.window)
    first = (start, end) if near is None else near
    return Charted(
        anchor=one.asked.anchor,
        name=fmt.name_of(one.asked.name),
        start=round(start * 1e3),
        end=round(end * 1e3),
        first=(round(first[0] * 1e3), round(first[1] * 1e3)),
        incident=incident,
        others=tuple(found for window in one.asked.others if (found := _shaded(window, start, end)) is not None),
        rules=tuple(Rule(round(at * 1e3), label) for at, label in one.rules),
        curves={key: thin(curve, limit) for key, curve in one.curves.items()},
        bars=one.bars,
        notes=one.notes,
    )


def _shaded(window: Window, start: float, end: float) -> tuple[float, float] | None:
    """A window within the range (epoch s), in epoch ms; None where it has no bounds or lies beyond."""
    part = clipped(window, start, end)
    return None if part is None else (round(part[0] * 1e3), round(part[1] * 1e3))
