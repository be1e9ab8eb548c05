"""Charts, event list and severity of one instance, from the views `timeline` and `event`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import Any

import duckdb

from analyzer.diagnosis.model import Window
from analyzer.report import fmt, words
from analyzer.report.charts import MAX_MARKS, Lane, Mark, Panel, Series, TimeAxis, segments
from analyzer.report.model import (
    MAX_EVENT_ROWS,
    MAX_TABLE_ROWS,
    Capped,
    EventRow,
    Severity,
    Timeline,
    TimelineRow,
)

MAX_RULES = 40
# An incident shorter than this share of the capture gets a chart of its own.
CLOSEUP_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class _Bucket:
    """One row of `timeline`; times in epoch seconds, NULL and non-finite numbers are None."""

    start: float
    end: float
    run: str
    values: dict[str, float | None]
    ttft_source: str

    def get(self, name: str) -> float | None:
        return self.values[name]


_COLUMNS = (
    "running",
    "waiting",
    "kv_usage",
    "prompt_tps",
    "gen_tps",
    "retracted",
    "preempted",
    "wait_est_s",
    "ttft_p50_s",
    "ttft_p95_s",
    "ttft_p99_s",
    "ttft_n",
    "l1_used_tokens",
    "l1_evictable_tokens",
    "l1_available_tokens",
    "l2_used_share",
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Everything about one instance that comes from the views. `closeup` and `whole` may be missing."""

    whole: Timeline | None
    closeup: Timeline | None
    table: tuple[TimelineRow, ...]
    table_step_s: float | None
    events: Capped[EventRow]
    severity: Severity


def build_timelines(con: duckdb.DuckDBPyConnection, instance: str, window: Window, *, uid: str) -> Drawn:
    """Charts, table, events and severity of one instance; `uid` prefixes the ids of the charts."""
    buckets = _read_buckets(con, instance)
    extent = _extent(con, instance, buckets)
    whole = closeup = None
    if extent is not None:
        rules, hidden = _rules(con, instance, buckets)
        whole = _timeline(con, instance, buckets, extent, window, rules, f"{uid}-all", "Whole capture")
        if hidden:
            many = fmt.plural(hidden, "start, crash or shutdown", "starts, crashes or shutdowns")
            whole = replace(whole, notes=(*whole.notes, f"{many} more than the vertical lines show."))
        near = _closeup_range(extent, window)
        if near is not None:
            closeup = _timeline(con, instance, buckets, near, window, rules, f"{uid}-near", "Around the incident")
    table, step = _table(buckets)
    return Drawn(whole, closeup, table, step, _event_rows(con, instance), _severity(buckets, window, extent))


def _read_buckets(con: duckdb.DuckDBPyConnection, instance: str) -> list[_Bucket]:
    rows = con.execute(
        f"""
        SELECT epoch_us(bucket_ts), bucket_s::DOUBLE, run_id, ttft_source::VARCHAR,
               {", ".join(f"{c}::DOUBLE" for c in _COLUMNS)}
        FROM timeline
        WHERE instance IS NOT DISTINCT FROM ? AND bucket_ts IS NOT NULL
        ORDER BY bucket_ts, run_id
        """,
        [instance or None],
    ).fetchall()
    buckets = []
    for start_us, width, run, ttft_source, *values in rows:
        start = start_us / 1e6
        buckets.append(
            _Bucket(
                start=start,
                end=start + (width if width and math.isfinite(width) and width > 0 else 1.0),
                run=run or "",
                values={
                    name: value if value is not None and math.isfinite(value) else None
                    for name, value in zip(_COLUMNS, values, strict=True)
                },
                ttft_source=fmt.clean(ttft_source, 60),
            )
        )
    return buckets


def _extent(con: duckdb.DuckDBPyConnection, instance: str, buckets: Sequence[_Bucket]) -> tuple[float, float] | None:
    """The time range to draw: all buckets, and events too unless they lie far away from them."""
    first, last = con.execute(
        """
        SELECT epoch_us(min(ts)) / 1e6, epoch_us(max(ts)) / 1e6
        FROM event
        WHERE instance IS NOT DISTINCT FROM ?
        """,
        [instance or None],
    ).fetchall()[0]
    if not buckets:
        if first is None:
            return None
        return (first - 1, last + 1)
    start, end = buckets[0].start, max(b.end for b in buckets)
    if first is not None:
        room = (end - start) * 0.5
        # One stamp from a broken clock must not squeeze the incident into a pixel.
        if start - room <= first < start:
            start = first
        if end < last <= end + room:
            end = last
    return (start, end)


def _closeup_range(extent: tuple[float, float], window: Window) -> tuple[float, float] | None:
    """The incident with as much again on each side, when it would be a sliver of the whole."""
    if window.start is None or window.end is None:
        return None
    start, end = _epoch(window.start), _epoch(window.end)
    length = max(end - start, 1.0)
    whole = extent[1] - extent[0]
    if end <= extent[0] or start >= extent[1] or length > whole * CLOSEUP_SHARE:
        return None
    return (max(extent[0], start - length), min(extent[1], end + length))


def _epoch(moment: datetime) -> float:
    known = fmt.to_utc(moment)
    assert known is not None
    return known.timestamp()


def _rules(con: duckdb.DuckDBPyConnection, instance: str, buckets: Sequence[_Bucket]) -> tuple[tuple[tuple[float, str], ...], int]:
    """Vertical lines: the first start, crash and shutdown of each run, and how many were left out."""
    rows = con.execute(
        """
        SELECT kind, run_id, epoch_us(min(ts)) / 1e6 AS first_s
        FROM event
        WHERE instance IS NOT DISTINCT FROM ? AND kind IN ('start', 'crash', 'shutdown') AND ts IS NOT NULL
        GROUP BY kind, run_id
        ORDER BY first_s, kind, run_id
        """,
        [instance or None],
    ).fetchall()
    firsts: dict[str, float] = {}
    for bucket in buckets:
        if bucket.run:  # nothing ran in a bucket without one
            firsts.setdefault(bucket.run, bucket.start)
    for _, run, at in rows:
        firsts[run or ""] = min(at, firsts.get(run or "", at))
    runs = sorted(firsts, key=lambda r: (firsts[r], r))
    rules = [(at, kind if kind != "start" or (run or "") == runs[0] else "restart") for kind, run, at in rows]
    started = {run or "" for kind, run, _ in rows if kind == "start"}
    # A new run without a start line (a counter reset) is a restart all the same.
    rules += [(firsts[run], "restart") for run in runs[1:] if run not in started]
    rules.sort()
    return tuple(rules[:MAX_RULES]), max(0, len(rules) - MAX_RULES)


def _timeline(
    con: duckdb.DuckDBPyConnection,
    instance: str,
    every: Sequence[_Bucket],
    extent: tuple[float, float],
    window: Window,
    rules: Sequence[tuple[float, str]],
    uid: str,
    title: str,
) -> Timeline:
    start, end = extent
    buckets = [b for b in every if b.end > start and b.start < end]
    if buckets:
        # Whole buckets, so that nothing is drawn beyond the axis.
        start = min(start, buckets[0].start)
        end = max(end, max(b.end for b in buckets))
    shade = None
    if window.start or window.end:
        left = _epoch(window.start) if window.start else start
        right = _epoch(window.end) if window.end else end
        if left < end and right > start:
            shade = (max(left, start), min(right, end))
    axis = TimeAxis(start, end, shade, tuple(r for r in rules if start <= r[0] <= end))
    notes: list[str] = []
    panels = _panels(buckets, notes)
    lanes = _lanes(con, instance, buckets, axis, notes)
    widths = sorted({b.end - b.start for b in buckets})
    return Timeline(uid, title, axis, widths[-1] if widths else None, panels, lanes, tuple(notes))


def _panels(buckets: Sequence[_Bucket], notes: list[str]) -> tuple[Panel, ...]:
    times = [(b.start, b.end) for b in buckets]
    breaks = [
        i
        for i in range(1, len(buckets))
        if buckets[i].run != buckets[i - 1].run or buckets[i].start > buckets[i - 1].end + 0.5 * (buckets[i].end - buckets[i].start)
    ]

    def column(name: str) -> list[float | None]:
        return [b.get(name) for b in buckets]

    def curve(name: str, label: str, style: str, *, filled: bool = False) -> Series:
        return Series(label, style, segments(times, column(name), breaks), filled=filled)

    sources = _ttft_sources(buckets)
    ttft = (
        curve("ttft_p99_s", "P99", "p99"),
        curve("ttft_p95_s", "P95", "p95"),
        curve("ttft_p50_s", "P50", "p50"),
        curve("wait_est_s", "queue wait, estimated from waiting / admission rate (not TTFT)", "estimate"),
    )
    has_ttft = any(s.segments for s in ttft[:3])
    drawn = [
        Panel(
            "ttft",
            "Time to first token" if has_ttft else "Queue wait (estimate)",
            "s",
            ttft,
            note=(f"TTFT per bucket, read from: {sources}." if sources else "TTFT per bucket.")
            if has_ttft
            else "TTFT was not recorded. The curve is an estimate of the wait in the queue only.",
        ),
        Panel(
            "requests",
            "Requests waiting and running",
            "requests",
            (curve("waiting", "waiting", "waiting", filled=True), curve("running", "running", "running")),
            note="Highest in each bucket, summed over ranks.",
        ),
        _kv_panel(buckets, times, breaks, curve, notes),
        Panel("prompt", "Prefill throughput", "tokens/s", (curve("prompt_tps", "prompt", "prompt"),), height=70),
        Panel("gen", "Decode throughput", "tokens/s", (curve("gen_tps", "generation", "gen"),), height=70),
    ]
    panels = []
    for panel in drawn:
        series = tuple(s for s in panel.series if s.segments)
        if series:
            panels.append(Panel(panel.key, panel.title, panel.unit, series, panel.top, panel.height, panel.note))
        elif panel.key != "ttft":
            notes.append(f"{panel.title}: not reported in this time range.")
        else:
            notes.append("Time to first token: not recorded, and the queue wait could not be estimated.")
    return tuple(panels)


def _kv_panel(
    buckets: Sequence[_Bucket],
    times: Sequence[tuple[float, float]],
    breaks: Sequence[int],
    curve: Callable[..., Series],
    notes: list[str],
) -> Panel:
    """KV usage, 0..100 % always, over the three states of the pool where all three are known."""
    used: list[float | None] = []
    cached: list[float | None] = []
    for bucket in buckets:
        states = [bucket.get(f"l1_{s}_tokens") for s in ("used", "evictable", "available")]
        known = [s for s in states if s is not None]
        total = sum(known)
        if len(known) < 3 or total <= 0:
            used.append(None)
            cached.append(None)
        else:
            used.append(known[0] / total)
            cached.append((known[0] + known[1]) / total)
    if any((b.get("kv_usage") or 0) > 1 for b in buckets):
        notes.append("KV usage above 100 % was reported; it is drawn at 100 %.")
    return Panel(
        "kv",
        "KV cache",
        "share",
        (
            Series("L1 used: locked by running requests", "used", segments(times, used, breaks), band=True),
            Series(
                "L1 evictable: cached prefixes nobody holds",
                "evictable",
                segments(times, cached, breaks, low=used),
                band=True,
            ),
            curve("kv_usage", "KV usage, fullest rank", "usage"),
            curve("l2_used_share", "L2 used", "l2"),
        ),
        top=1.0,
        note="Used by running requests; what is left is cache or empty. Room in L2 does not admit requests.",
    )


def _ttft_sources(buckets: Sequence[_Bucket]) -> str:
    found = sorted({b.ttft_source for b in buckets if b.ttft_source})
    return ", ".join(found[:3]) + (" and others" if len(found) > 3 else "")


def _lanes(
    con: duckdb.DuckDBPyConnection,
    instance: str,
    buckets: Sequence[_Bucket],
    axis: TimeAxis,
    notes: list[str],
) -> tuple[Lane, ...]:
    width = (axis.end - axis.start) / MAX_MARKS
    rows = con.execute(
        """
        SELECT kind,
               CAST(floor((epoch_us(ts) / 1e6 - $start) / $width) AS BIGINT) AS bin,
               epoch_us(min(ts)) / 1e6, epoch_us(max(ts)) / 1e6, count(*)
        FROM event
        WHERE instance IS NOT DISTINCT FROM $instance
          AND epoch_us(ts) BETWEEN $start * 1e6 AND $end * 1e6
        GROUP BY kind, bin
        ORDER BY bin, kind
        """,
        {"start": axis.start, "end": axis.end, "width": width, "instance": instance or None},
    ).fetchall()
    lanes = []
    for key, kind, title in (
        ("retracted", "retraction", "Retractions"),
        ("preempted", "preemption", "Preemptions"),
    ):
        lane = _counted_lane(key, title, buckets, axis, width) or _bar_lane(key, kind, title, rows)
        if lane:
            lanes.append(lane)
    drawn = {"retraction", "preemption"}
    for key, title, symbol, kinds in words.LANES:
        mine = [r for r in rows if (r[0] in kinds if kinds else r[0] not in drawn)]
        drawn.update(kinds)
        if not mine:
            continue
        bins: dict[int, list[tuple[Any, ...]]] = {}
        for row in mine:
            bins.setdefault(row[1], []).append(row)
        marks = tuple(
            Mark(
                start=min(r[2] for r in part),
                end=max(r[3] for r in part),
                count=sum(r[4] for r in part),
                label=_when(min(r[2] for r in part)) + ": " + ", ".join(f"{r[4]} × {_kind(r[0])}" for r in part),
            )
            for _, part in sorted(bins.items())
        )
        counts: dict[str, int] = {}
        for row in mine:
            counts[_kind(row[0])] = counts.get(_kind(row[0]), 0) + row[4]
        summary = ", ".join(f"{fmt.number(n)} × {k}" for k, n in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
        lanes.append(Lane(key, title, symbol, marks, fmt.clean(summary, 200)))
    untimed = con.execute("SELECT count(*) FROM event WHERE instance IS NOT DISTINCT FROM ? AND ts IS NULL", [instance or None]).fetchall()[
        0
    ][0]
    if untimed:
        notes.append(f"{fmt.plural(untimed, 'event')} without a time cannot be drawn.")
    return tuple(lanes)


def _counted_lane(key: str, title: str, buckets: Sequence[_Bucket], axis: TimeAxis, width: float) -> Lane | None:
    """Bars from the timeline's counts, which know of more than the log prints (metrics counters)."""
    bins: dict[int, list[_Bucket]] = {}
    for bucket in buckets:
        if (bucket.get(key) or 0) > 0:
            bins.setdefault(int((bucket.start - axis.start) / width), []).append(bucket)
    if not bins:
        return None
    marks = []
    for _, part in sorted(bins.items()):
        count = round(sum(b.get(key) or 0 for b in part))
        label = f"{_when(part[0].start)}: {fmt.plural(count, 'request')}"
        marks.append(Mark(part[0].start, part[-1].end, count, label))
    return Lane(key, title, "bar", tuple(marks), _bar_summary([m.count for m in marks], "request"))


def _bar_lane(key: str, kind: str, title: str, rows: Sequence[tuple[Any, ...]]) -> Lane | None:
    mine = [r for r in rows if r[0] == kind]
    if not mine:
        return None
    marks = tuple(Mark(r[2], r[3], r[4], f"{_when(r[2])}: {fmt.plural(r[4], 'event')}") for r in mine)
    return Lane(key, title, "bar", marks, _bar_summary([m.count for m in marks], "event"))


def _bar_summary(counts: Sequence[int], word: str) -> str:
    text = f"{fmt.plural(sum(counts), word)} in this time range"
    return f"{text}, at most {fmt.number(max(counts))} in one bar" if len(counts) > 1 else text


def _when(at: float) -> str:
    return fmt.clock(fmt.from_epoch(at))


def _kind(kind: object) -> str:
    return words.EVENTS.get(str(kind), fmt.clean(kind, 40)).lower()


def _table(buckets: Sequence[_Bucket]) -> tuple[tuple[TimelineRow, ...], float | None]:
    """The buckets in at most `MAX_TABLE_ROWS` equal intervals, and the interval in seconds."""
    if not buckets:
        return (), None
    start = buckets[0].start
    width = max(b.end - b.start for b in buckets)
    whole = max(b.end for b in buckets) - start
    step = width * max(1, math.ceil(whole / width / MAX_TABLE_ROWS - 1e-9))
    parts: dict[int, list[_Bucket]] = {}
    for bucket in buckets:
        parts.setdefault(int((bucket.start - start) / step + 1e-9), []).append(bucket)

    def known(part: Sequence[_Bucket], name: str) -> list[float]:
        return [v for v in (b.get(name) for b in part) if v is not None]

    def highest(part: Sequence[_Bucket], name: str) -> float | None:
        return max(known(part, name), default=None)

    def total(part: Sequence[_Bucket], name: str) -> float | None:
        values = known(part, name)
        return sum(values) if values else None

    rows = tuple(
        TimelineRow(
            at=fmt.from_epoch(start + index * step),
            waiting=highest(part, "waiting"),
            running=highest(part, "running"),
            kv_usage=highest(part, "kv_usage"),
            retracted=total(part, "retracted"),
            preempted=total(part, "preempted"),
            prompt_tps=highest(part, "prompt_tps"),
            gen_tps=highest(part, "gen_tps"),
            ttft_p99_s=highest(part, "ttft_p99_s"),
            wait_est_s=highest(part, "wait_est_s"),
        )
        for index, part in sorted(parts.items())
    )
    return rows, step


def _severity(buckets: Sequence[_Bucket], window: Window, extent: tuple[float, float] | None) -> Severity:
    if not (window.start or window.end):
        return Severity()
    start = _epoch(window.start) if window.start else None
    end = _epoch(window.end) if window.end else None
    inside = [b for b in buckets if (start is None or b.end > start) and (end is None or b.start < end)]
    before = [v for b in buckets if start is not None and b.end <= start and (v := b.get("ttft_p99_s")) is not None]
    length = end - start if start is not None and end is not None else None
    whole = extent[1] - extent[0] if extent else None
    return Severity(
        duration_s=length,
        capture_share=min(1.0, length / whole) if length is not None and whole else None,
        ttft_p99_peak_s=max((v for b in inside if (v := b.get("ttft_p99_s")) is not None), default=None),
        # Two buckets are no "normal" to compare with.
        ttft_p99_before_s=median(before) if len(before) >= 3 else None,
        ttft_source=_ttft_sources(inside),
        wait_est_peak_s=max((v for b in inside if (v := b.get("wait_est_s")) is not None), default=None),
    )


def _event_rows(con: duckdb.DuckDBPyConnection, instance: str) -> Capped[EventRow]:
    """The most telling events in the order of time: a flood of warnings never hides a crash."""
    total = con.execute("SELECT count(*) FROM event WHERE instance IS NOT DISTINCT FROM ?", [instance or None]).fetchall()[0][0]
    rows = con.execute(
        """
        WITH ranked AS (
          SELECT *, coalesce(list_position($kinds, kind), 99) AS importance
          FROM event
          WHERE instance IS NOT DISTINCT FROM $instance
          ORDER BY importance, ts NULLS LAST, source, kind, text, requests, tokens, run_id
          LIMIT $limit
        )
        SELECT epoch_us(ts), run_id, kind, requests, tokens, ratio_before, ratio_after,
               reported_by, text, source
        FROM ranked
        ORDER BY ts NULLS LAST, importance, source, kind, text, requests, tokens, run_id
        """,
        {"kinds": list(words.EVENTS), "instance": instance or None, "limit": MAX_EVENT_ROWS},
    ).fetchall()
    return Capped(
        tuple(
            EventRow(
                at=fmt.from_epoch(us / 1e6) if us is not None else None,
                run=fmt.clean(run, 20),
                kind=words.EVENTS.get(kind, fmt.clean(kind, 40)),
                requests=requests,
                tokens=tokens,
                ratio=_ratio(before, after),
                reports=_reports(reports),
                text=fmt.clean(text, 240),
                source=fmt.clean(source, 200),
            )
            for us, run, kind, requests, tokens, before, after, reports, text, source in rows
        ),
        total,
    )


def _reports(reported_by: object) -> str:
    """Who said so: how many lines (the view counts them), or the ranks where they are named."""
    return fmt.plural(reported_by, "line") if isinstance(reported_by, int) else fmt.clean(reported_by, 60)


def _ratio(before: float | None, after: float | None) -> str:
    if before is None and after is None:
        return ""
    return " → ".join(fmt.number(v) if v is not None else "?" for v in (before, after))
