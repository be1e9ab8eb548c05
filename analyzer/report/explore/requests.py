"""Requests over time: when each arrived, how long its first token took, and what that time went to.

A request that never got a first token is placed at the age it had when it failed, or when the capture ended: it waited
at least that long. The parts of TTFT are those of question 2: queue and prefill follow each other, the rest is what they
leave, and a load from L2 lies inside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from analyzer.language import N_, _
from analyzer.report import fmt
from analyzer.report.explore.model import Column, ExploreInstance, Tables, Times, Values

# Points of all instances together, and the least that one may have.
MAX_POINTS = 4000
MIN_POINTS = 100
# A spread of TTFT from which on a linear scale would press most requests into one line.
LOG_SPREAD = 50.0
# The lowest TTFT that a logarithmic scale has a place for, in seconds.
LEAST_S = 0.001

# What took most of TTFT, and how it is drawn: the key, its colour, its name.
WHY = (
    ("queue", "c-amber", N_("mostly in the queue")),
    ("prefill", "c-blue", N_("mostly in prefill")),
    ("load", "c-green", N_("mostly loading from L2")),
    ("rest", "c-purple", N_("mostly elsewhere")),
    ("unknown", "muted", N_("parts not recorded")),
)
# What became of a request: its marker, its name, and how the legend draws the marker.
FATES = {
    "answered": ("circle", N_("answered"), "M6 2a4 4 0 1 0 .1 0z"),
    "retracted": ("diamond", N_("answered, but retracted or preempted"), "M6 1l4 5-4 5-4-5z"),
    "failed": ("x", N_("failed"), "M2 2l8 8M10 2l-8 8"),
    "waiting": ("triangle", N_("no first token by the end"), "M6 1.5l5 9h-10z"),
}
# Columns of the hover box that not every capture tells: the column, its title, its unit.
TOLD = (
    ("queue", N_("Queue"), "s"),
    ("prefill", N_("Prefill"), "s"),
    ("load", N_("Load from L2"), "s"),
    ("prompt", N_("Prompt tokens"), ""),
    ("output", N_("Output tokens"), ""),
    ("cached", N_("Cached tokens"), ""),
    ("retractions", N_("Retractions"), ""),
)


@dataclass(frozen=True, slots=True, eq=False)
class Scattered:
    """The requests of one instance that are drawn, in the order of arrival.

    `arrival` is in epoch ms, `shown` seconds on the y axis: TTFT, or the age without one. `why` and `fate` index WHY and
    FATES; `told` holds the text of each of TOLD's columns. `total` requests could be placed, `unplaced` could not.
    """

    anchor: str
    arrival: Times
    shown: Values
    why: tuple[int, ...]
    fate: tuple[int, ...]
    rid: tuple[str, ...]
    status: tuple[str, ...]
    told: Mapping[str, tuple[str, ...]]
    total: int
    unplaced: int


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Requests of all instances that recorded any. `told` are the columns of TOLD that any of them fills."""

    scattered: tuple[Scattered, ...]
    told: frozenset[str]

    @property
    def classes(self) -> tuple[int, ...]:
        """The entries of WHY that some request belongs to."""
        return tuple(sorted({w for one in self.scattered for w in one.why}))

    @property
    def legend(self) -> tuple[tuple[str, str], ...]:
        """Name and colour of the classes."""
        return tuple((_(WHY[w][2]), WHY[w][1]) for w in self.classes)

    @property
    def markers(self) -> tuple[tuple[str, str], ...]:
        """Name and drawing of the markers that some request has."""
        fates = tuple(FATES.values())
        return tuple((_(fates[f][1]), fates[f][2]) for f in sorted({f for one in self.scattered for f in one.fate}))

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value above `LEAST_S`, in seconds; equal where there is one, or none."""
        drawn = np.maximum(np.concatenate([one.shown for one in self.scattered]), np.float32(LEAST_S))
        return float(drawn.min()), float(drawn.max())

    @property
    def logarithmic(self) -> bool:
        """True when TTFT spreads so widely that only a logarithmic scale shows it."""
        low, high = self.bounds
        return high > LOG_SPREAD * low

    def tables(self) -> Tables:
        """The columns of each instance's sources, one source for each entry of WHY."""
        return {one.anchor: {source_name(w): _columns(one, w, self.told, self.logarithmic) for w in self.classes} for one in self.scattered}

    def note(self, anchor: str) -> str:
        """What is to be known about one instance's points: how many of how many, and what could not be placed."""
        one = next((s for s in self.scattered if s.anchor == anchor), None)
        if one is None:
            return _("No requests were recorded for this instance.")
        notes = []
        if len(one.arrival) < one.total:
            notes.append(
                _(
                    "Drawn: {shown} of {total}. The slowest stay, and those that were retracted, failed or waited; the others are "
                    "thinned out evenly.",
                    shown=fmt.number(len(one.arrival)), total=fmt.plural(one.total, "request"),
                )
            )  # fmt: skip
        untold = [_(title) for key, title, _unit in TOLD if key not in self.told]
        if untold:
            notes.append(_("Not recorded: {columns}.", columns=fmt.listed(untold)))
        if one.unplaced:
            notes.append(_("Without an arrival or a duration, so not drawn: {n}.", n=fmt.plural(one.unplaced, "request")))
        return fmt.sentences(notes)


def source_name(why: int) -> str:
    """The name of the column source that holds the requests of one entry of WHY."""
    return f"requests-{WHY[why][0]}"


def build_requests(con: duckdb.DuckDBPyConnection, instances: Sequence[ExploreInstance]) -> Requests | None:
    """The requests of these instances; None when none was recorded with a time."""
    known = [one for one in instances if _any_requests(con, one.name)]
    limit = max(MIN_POINTS, MAX_POINTS // max(1, len(known)))
    found = [one for one in (_scattered(con, asked, limit) for asked in known) if len(one.arrival)]
    if not found:
        return None
    told = frozenset(key for key, _title, _unit in TOLD if any(text for one in found for text in one.told[key]))
    return Requests(tuple(found), told)


def _any_requests(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    return bool(con.execute("SELECT count(*) FROM request_best WHERE instance IS NOT DISTINCT FROM ?", [name or None]).fetchall()[0][0])


# `last_ts` is question 1's: a request that is pending at the end has waited up to then at least. What is telling is kept
# up to half of the limit, the slowest up to a quarter; the rest is taken at equal steps in the order of arrival.
_POINTS = """
WITH mine AS (
  SELECT source_id, record, ts, arrival_ts, first_token_ts, finish_ts, coalesce(arrival_ts, ts) AS at_ts, ttft_s, queue_s, prefill_s,
         e2e_s, prompt_tokens, output_tokens, cached_tokens, retractions, rid, status, censored
  FROM request_best
  WHERE instance IS NOT DISTINCT FROM $name
),
ended AS (
  SELECT max(greatest(finish_ts, first_token_ts, arrival_ts, ts)) AS last_ts FROM mine
),
loads AS (
  SELECT rid, sum(duration_s) AS load_s
  FROM cache_op
  WHERE instance IS NOT DISTINCT FROM $name AND op = 'load' AND rid IS NOT NULL AND duration_s >= 0
  GROUP BY rid
),
aged AS (
  SELECT m.*, l.load_s,
         CASE
           WHEN m.ttft_s >= 0 THEN m.ttft_s
           WHEN m.ttft_s IS NOT NULL THEN NULL
           WHEN m.censored THEN epoch_us(e.last_ts - m.at_ts) / 1e6
           ELSE coalesce(m.e2e_s, epoch_us(m.finish_ts - m.at_ts) / 1e6)
         END AS shown_s
  FROM mine AS m
  CROSS JOIN ended AS e
  LEFT JOIN loads AS l ON l.rid = m.rid
),
placed AS (
  SELECT *, (ttft_s IS NULL OR censored OR coalesce(retractions, 0) > 0 OR status IN ('error', 'aborted', 'rejected')) AS telling
  FROM aged
  WHERE at_ts IS NOT NULL AND isfinite(shown_s) AND shown_s >= 0
),
counted AS (
  SELECT count(*) AS total, $limit - least(count(*) FILTER (WHERE telling), $limit // 2) - $limit // 4 AS even_n FROM placed
),
ranked AS (
  SELECT *,
         row_number() OVER (PARTITION BY telling ORDER BY shown_s DESC, at_ts, source_id, record) AS slow_n,
         row_number() OVER (ORDER BY at_ts, source_id, record) AS n
  FROM placed
)
SELECT epoch_us(at_ts) / 1e3, shown_s, ttft_s, queue_s, prefill_s, load_s, prompt_tokens, output_tokens, cached_tokens,
       retractions, rid, status, censored, total
FROM ranked CROSS JOIN counted
WHERE total <= $limit
   OR (telling AND slow_n <= $limit // 2)
   OR (NOT telling AND slow_n <= $limit // 4)
   OR n * even_n // total <> (n - 1) * even_n // total
ORDER BY n
"""


def _scattered(con: duckdb.DuckDBPyConnection, asked: ExploreInstance, limit: int) -> Scattered:
    name = asked.name or None
    rows = con.execute(_POINTS, {"name": name, "limit": limit}).fetchall()
    recorded = con.execute("SELECT count(*) FROM request_best WHERE instance IS NOT DISTINCT FROM ?", [name]).fetchall()[0][0]
    total = rows[0][-1] if rows else 0
    points = [_Point(*row[:-1]) for row in rows]
    return Scattered(
        anchor=asked.anchor,
        arrival=np.array([round(p.at_ms) for p in points], dtype=np.float64),
        shown=np.array([p.shown_s for p in points], dtype=np.float32),
        why=tuple(map(_why, points)),
        fate=tuple(map(_fate, points)),
        rid=tuple(fmt.clean(p.rid, 24) or _("not recorded") for p in points),
        status=tuple(map(_status, points)),
        told={key: tuple(_text(value(p), unit) for p in points) for (key, _title, unit), value in zip(TOLD, _VALUES, strict=True)},
        total=total,
        unplaced=recorded - total,
    )


@dataclass(frozen=True, slots=True)
class _Point:
    """One row of _POINTS."""

    at_ms: float
    shown_s: float
    ttft_s: float | None
    queue_s: float | None
    prefill_s: float | None
    load_s: float | None
    prompt: int | None
    output: int | None
    cached: int | None
    retractions: int | None
    rid: str | None
    status: str | None
    censored: bool


# In the order of TOLD.
_VALUES: tuple[Callable[[_Point], float | int | None], ...] = (
    lambda p: p.queue_s,
    lambda p: p.prefill_s,
    lambda p: p.load_s,
    lambda p: p.prompt,
    lambda p: p.output,
    lambda p: p.cached,
    lambda p: p.retractions,
)


def _why(point: _Point) -> int:
    """The entry of WHY that took most of TTFT. Without the queue's part the time cannot be taken apart."""
    names = [key for key, _colour, _title in WHY]
    if point.ttft_s is None or point.queue_s is None or not math.isfinite(point.queue_s):
        return names.index("unknown")
    if point.load_s is not None and point.load_s > point.ttft_s / 2:
        return names.index("load")
    prefill = point.prefill_s or 0.0
    parts = {"queue": point.queue_s, "prefill": prefill, "rest": point.ttft_s - point.queue_s - prefill}
    return names.index(max(parts, key=lambda key: parts[key]))


def _fate(point: _Point) -> int:
    names = list(FATES)
    if point.ttft_s is None:
        return names.index("waiting" if point.censored else "failed")
    if point.retractions:
        return names.index("retracted")
    return names.index("failed" if point.status not in (None, "finished", "unfinished") else "answered")


def _status(point: _Point) -> str:
    if point.ttft_s is None and point.censored:
        return _("still waiting at the end")
    if point.censored:
        return _("still running at the end")
    return fmt.clean(point.status, 24) or _("not recorded")


def _text(value: float | int | None, unit: str) -> str:
    return "" if value is None else fmt.measure(value, unit)


def _columns(one: Scattered, why: int, told: Iterable[str], logarithmic: bool) -> dict[str, Column]:
    own = [n for n, w in enumerate(one.why) if w == why]
    shown = one.shown[own]
    markers = [marker for marker, _title, _path in FATES.values()]
    columns: dict[str, Column] = {
        "arrival": one.arrival[own],
        # what a logarithmic scale has no place for stands at its lower end; the hover box tells the value
        "shown": np.maximum(shown, np.float32(LEAST_S)) if logarithmic else shown,
        "first": [_first(one, n) for n in own],
        "marker": [markers[one.fate[n]] for n in own],
        "rid": [one.rid[n] for n in own],
        "status": [one.status[n] for n in own],
    }
    for key in sorted(told):
        columns[key] = [one.told[key][n] or fmt.not_reported() for n in own]
    return columns


def _first(one: Scattered, index: int) -> str:
    """TTFT as the hover box says it."""
    seconds = fmt.duration(float(one.shown[index]))
    fate = tuple(FATES)[one.fate[index]]
    if fate == "waiting":
        return _("over {seconds}, none at the end", seconds=seconds)
    return seconds
