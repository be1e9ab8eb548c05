"""Charts and event list of one instance, from the views `timeline` and `event`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import duckdb

from analyzer.diagnosis.model import Window
from analyzer.language import N_, _, ngettext
from analyzer.report import fmt, words
from analyzer.report.buckets import Bucket, read_buckets
from analyzer.report.capped import Capped
from analyzer.report.charts import MAX_POINTS, TimeAxis, Timeline
from analyzer.report.lanes import lanes
from analyzer.report.model import (
    MAX_EVENT_ROWS,
    MAX_TABLE_ROWS,
    EventRow,
    TimelineRow,
)
from analyzer.report.panels import panels
from analyzer.report.told import Told, read_told
from analyzer.report.ttft_panel import is_open

MAX_RULES = 40
_RULES = {"start": N_("start"), "crash": N_("crash"), "shutdown": N_("shutdown"), "restart": N_("restart")}
# An incident shorter than this share of the capture gets a chart of its own.
CLOSEUP_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Drawn:
    """Everything about one instance that comes from the views. `closeup` and `whole` may be missing; `extent` is the capture's
    time range in epoch seconds.
    """

    whole: Timeline | None
    closeup: Timeline | None
    table: tuple[TimelineRow, ...]
    table_step_s: float | None
    events: Capped[EventRow]
    extent: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is drawn: one instance, its buckets, who told what of it, its incident and its other ones."""

    con: duckdb.DuckDBPyConnection
    instance: str
    engine: str | None
    buckets: Sequence[Bucket]
    told: Told
    window: Window
    others: Sequence[Window]
    rules: Sequence[tuple[float, str]]
    points: int


def build_timelines(
    con: duckdb.DuckDBPyConnection,
    instance: str,
    window: Window,
    *,
    others: Sequence[Window] = (),
    engine: str | None,
    uid: str,
    points: int = MAX_POINTS,
) -> Drawn:
    """Charts, table and events of one instance with an incident in `window`, and `others` beside it.

    `uid` prefixes the ids of the charts; a curve has at most `points` points.
    """
    buckets = read_buckets(con, instance)
    told = read_told(con, instance)
    extent = time_range(con, instance, buckets)
    whole = closeup = None
    if extent is not None:
        rules, hidden = process_rules(con, instance, buckets)
        subject = _Subject(con, instance, engine, buckets, told, window, others, rules, points)
        whole = _timeline(subject, extent, f"{uid}-all", _("Whole capture"))
        if hidden:
            more = ngettext(
                "{n} start, crash or shutdown more than the vertical lines show.",
                "{n} starts, crashes or shutdowns more than the vertical lines show.",
                hidden,
                n=fmt.number(hidden),
            )
            whole = replace(whole, notes=(*whole.notes, more))
        near = closeup_range(extent, window)
        if near is not None:
            closeup = _timeline(subject, near, f"{uid}-near", _("Around the incident"))
    table, step = _table(buckets, told)
    return Drawn(
        whole,
        closeup,
        table,
        step,
        _event_rows(con, instance),
        extent,
    )


def time_range(con: duckdb.DuckDBPyConnection, instance: str, buckets: Sequence[Bucket]) -> tuple[float, float] | None:
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


def closeup_range(extent: tuple[float, float], window: Window) -> tuple[float, float] | None:
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


def process_rules(con: duckdb.DuckDBPyConnection, instance: str, buckets: Sequence[Bucket]) -> tuple[tuple[tuple[float, str], ...], int]:
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
    for _kind, run, at in rows:
        firsts[run or ""] = min(at, firsts.get(run or "", at))
    runs = sorted(firsts, key=lambda r: (firsts[r], r))
    rules = [(at, kind if kind != "start" or (run or "") == runs[0] else "restart") for kind, run, at in rows]
    started = {run or "" for kind, run, _at in rows if kind == "start"}
    # A new run without a start line (a counter reset) is a restart all the same.
    rules += [(firsts[run], "restart") for run in runs[1:] if run not in started]
    rules.sort()
    return tuple((at, _(_RULES[kind])) for at, kind in rules[:MAX_RULES]), max(0, len(rules) - MAX_RULES)


def _timeline(subject: _Subject, extent: tuple[float, float], uid: str, title: str) -> Timeline:
    start, end = extent
    window = subject.window
    buckets = [b for b in subject.buckets if b.end > start and b.start < end]
    if buckets:
        # Whole buckets, so that nothing is drawn beyond the axis.
        start = min(start, buckets[0].start)
        end = max(end, max(b.end for b in buckets))
    shade = clipped(window, start, end)
    others = tuple(found for w in subject.others if (found := clipped(w, start, end)) is not None)
    axis = TimeAxis(start, end, shade, tuple(r for r in subject.rules if start <= r[0] <= end), others)
    notes: list[str] = []
    drawn = panels(buckets, subject.told, subject.engine, notes, limit=subject.points)
    marked = lanes(subject.con, subject.instance, buckets, subject.told, axis, notes)
    widths = sorted({b.end - b.start for b in buckets})
    return Timeline(uid, title, axis, widths[-1] if widths else None, drawn, marked, tuple(notes))


def clipped(window: Window, start: float, end: float) -> tuple[float, float] | None:
    """The part of a window that is drawn; None where it has no bounds or lies beyond."""
    if not (window.start or window.end):
        return None
    left = _epoch(window.start) if window.start else start
    right = _epoch(window.end) if window.end else end
    return (max(left, start), min(right, end)) if left < end and right > start else None


def _table(buckets: Sequence[Bucket], told: Told) -> tuple[tuple[TimelineRow, ...], float | None]:
    """The buckets in at most `MAX_TABLE_ROWS` equal intervals, and the interval in seconds."""
    if not buckets:
        return (), None
    start = buckets[0].start
    width = max(b.end - b.start for b in buckets)
    whole = max(b.end for b in buckets) - start
    step = width * max(1, math.ceil(whole / width / MAX_TABLE_ROWS - 1e-9))
    parts: dict[int, list[Bucket]] = {}
    for bucket in buckets:
        parts.setdefault(int((bucket.start - start) / step + 1e-9), []).append(bucket)

    def known(part: Sequence[Bucket], name: str) -> list[float]:
        return [v for v in (b.get(name) for b in part) if v is not None]

    def highest(part: Sequence[Bucket], name: str) -> float | None:
        return max(known(part, name), default=None)

    def total(part: Sequence[Bucket], name: str) -> float | None:
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
            ttft_open=is_open(part, told),
            wait_est_s=highest(part, "wait_est_s"),
        )
        for index, part in sorted(parts.items())
    )
    return rows, step


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
                kind=words.event_word(kind),
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
