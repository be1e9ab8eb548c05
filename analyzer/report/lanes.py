"""Event lanes under the charts: retractions and preemptions, what L2 loaded, requests left pending, other events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from analyzer.language import N_, _, ngettext
from analyzer.report import fmt, words
from analyzer.report.buckets import Bucket
from analyzer.report.charts import MAX_MARKS, Lane, Mark, TimeAxis
from analyzer.report.told import Moved, Told
from analyzer.report.ttft_panel import pending_in

_COUNTED = (("retracted", "retraction", N_("Retractions")), ("preempted", "preemption", N_("Preemptions")))
Amount = tuple[float, float, int]
"""From, to (epoch seconds), and how much of it there was."""


def lanes(
    con: duckdb.DuckDBPyConnection, instance: str, buckets: Sequence[Bucket], told: Told, axis: TimeAxis, notes: list[str]
) -> tuple[Lane, ...]:
    """The lanes that have marks in the drawn range."""
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
    found: list[Lane | None] = []
    for key, kind, title in _COUNTED:
        amounts = [(b.start, b.end, n) for b in buckets if (n := round(b.get(key) or 0)) > 0]
        if amounts:
            found.append(_amount_lane(key, _(title), amounts, axis, width, "requests", _count_note(key, told, axis)))
        else:
            found.append(_bar_lane(key, kind, _(title), rows))
    found.append(_loaded_lane(told, buckets, axis, width))
    found.append(_pending_lane(told, buckets, axis, width))
    found += _symbol_lanes(rows)
    untimed = con.execute("SELECT count(*) FROM event WHERE instance IS NOT DISTINCT FROM ? AND ts IS NULL", [instance or None]).fetchall()[
        0
    ][0]
    if untimed:
        notes.append(
            ngettext(
                "{n} event without a time cannot be drawn.",
                "{n} events without a time cannot be drawn.",
                untimed,
                n=fmt.number(untimed),
            )
        )
    return tuple(lane for lane in found if lane is not None)


def _amount_lane(key: str, title: str, amounts: Sequence[Amount], axis: TimeAxis, width: float, unit: str, note: str = "") -> Lane:
    """Bars of amounts with a unit (`requests`, `tokens`, `bytes`), merged into at most `MAX_MARKS`."""
    bins: dict[int, list[Amount]] = {}
    for amount in amounts:
        bins.setdefault(int((amount[0] - axis.start) / width), []).append(amount)
    marks = []
    for part in (bins[n] for n in sorted(bins)):
        count = sum(a[2] for a in part)
        marks.append(Mark(part[0][0], part[-1][1], count, f"{_when(part[0][0])}: {fmt.measure(count, unit)}"))
    return Lane(key, title, "bar", tuple(marks), _bar_summary([m.count for m in marks], unit), note)


def _count_note(key: str, told: Told, axis: TimeAxis) -> str:
    column = 2 if key == "retracted" else 3
    sources = {row[1] for row in told.counted if row[column] and axis.start <= row[0] < axis.end}
    return fmt.sentences((words.counted_by(sources), _(words.COUNTER_LAGS[key]) if "counter" in sources else ""))


def _loaded_lane(told: Told, buckets: Sequence[Bucket], axis: TimeAxis, width: float) -> Lane | None:
    """What was moved from L2 into L1, in tokens, or in bytes where only those were told."""
    moved = [m for m in told.moved if axis.start <= m.start < axis.end]
    bucket_s = buckets[0].end - buckets[0].start if buckets else 1.0
    for unit in ("tokens", "bytes"):
        amounts = [(m.start, m.start + bucket_s, n) for m in moved if (n := _loaded(m, unit))]
        if amounts:
            return _amount_lane("loaded", _("Loaded from L2"), amounts, axis, width, unit, _loaded_note(moved))
    return None


def _loaded(moved: Moved, unit: str) -> int:
    return (moved.loaded_tokens if unit == "tokens" else moved.loaded_bytes) or 0


def _loaded_note(moved: Sequence[Moved]) -> str:
    notes = [words.counted_by(m.source for m in moved)]
    hits = [m.hit_tokens for m in moved if m.hit_tokens is not None]
    if hits:
        notes.append(_("{hits} were hits: found in L2, which is not yet loaded.", hits=fmt.measure(sum(hits), "tokens")))
    else:
        notes.append(_("A hit, found in L2, is not yet loaded."))
    failures = sum(m.failures or 0 for m in moved)
    if failures:
        notes.append(
            ngettext("{n} load or allocation failed.", "{n} loads or allocations failed.", failures, n=fmt.number(failures)),
        )
    return fmt.sentences(notes)


def _pending_lane(told: Told, buckets: Sequence[Bucket], axis: TimeAxis, width: float) -> Lane | None:
    """Requests that never got a first token, by arrival: why percentiles end before the capture does."""
    if not pending_in(buckets, told):
        return None
    amounts = [(float(at), at + 1.0, n) for at, n in told.pending if axis.start <= at < axis.end]
    note = _("By the time of their arrival; still without a first token when the capture ended.")
    return _amount_lane("pending", _("Left pending"), amounts, axis, width, "requests", note) if amounts else None


def _bar_lane(key: str, kind: str, title: str, rows: Sequence[tuple[Any, ...]]) -> Lane | None:
    mine = [r for r in rows if r[0] == kind]
    if not mine:
        return None
    marks = tuple(Mark(r[2], r[3], r[4], f"{_when(r[2])}: {fmt.plural(r[4], 'event')}") for r in mine)
    return Lane(key, title, "bar", marks, _bar_summary([m.count for m in marks], "events"), words.counted_by(("log",)))


def _symbol_lanes(rows: Sequence[tuple[Any, ...]]) -> list[Lane]:
    found = []
    drawn = {kind for _key, kind, _title in _COUNTED}
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
                label=_when(min(r[2] for r in part)) + ": " + fmt.listed(f"{r[4]} × {_kind(r[0])}" for r in part),
            )
            for part in (bins[n] for n in sorted(bins))
        )
        counts: dict[str, int] = {}
        for row in mine:
            counts[_kind(row[0])] = counts.get(_kind(row[0]), 0) + row[4]
        summary = fmt.listed(f"{fmt.number(n)} × {k}" for k, n in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
        found.append(Lane(key, _(title), symbol, marks, fmt.clean(summary, 200)))
    return found


def _bar_summary(counts: Sequence[int], unit: str) -> str:
    total = fmt.measure(sum(counts), unit)
    if len(counts) == 1:
        return _("{total} in this time range", total=total)
    return _("{total} in this time range, at most {most} in one bar", total=total, most=fmt.measure(max(counts), unit))


def _when(at: float) -> str:
    return fmt.clock(fmt.from_epoch(at))


def _kind(kind: object) -> str:
    """An event's name inside a line: with a small letter, unless it begins with an abbreviation."""
    word = words.event_word(kind)
    return word[:1].lower() + word[1:] if word[1:2].islower() else word
