"""Which failed requests never reached the engine, by what it said it had in hand while they were on their way."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median

import duckdb

from analyzer.diagnosis.case import Row

# A request is in no report sooner than this: stamps of lines may be whole seconds.
_STAMP_S = 1.0
# Fewer reports than this without failed requests do not tell how far records and reports differ anyway.
_LEAST_CALM = 5
_OF_CALM = 0.9
# Of the failed requests on their way, the engine has this many at least where they reach it.
_HALF = 0.5

# Of one basis; a prefill line of SGLang shows the load before its own batch.
_REPORTS = """
WITH told AS (
    SELECT
        epoch(ts) AS at_s, basis, record, running + waiting AS n,
        concat_ws(' ', running, waiting, coalesce(kv_used_tokens, kv_usage)) AS state
    FROM scheduler_clean
    WHERE instance = $instance AND run_id = $run AND kind <> 'prefill' AND running IS NOT NULL AND waiting IS NOT NULL
)
SELECT at_s, arg_max(n, coalesce(record, 0)), arg_max(state, coalesce(record, 0)) FROM told
WHERE basis = (SELECT basis FROM told GROUP BY basis ORDER BY count(*) DESC, basis LIMIT 1)
GROUP BY at_s ORDER BY at_s
"""
# When the process was ready, where its start is in the capture; its last sign of life, where its end is.
_LIFE = """
SELECT
    CASE WHEN r.start_ts IS NOT NULL THEN coalesce(e.ready_ts, r.start_ts) END AS ready_ts,
    CASE WHEN r.shutdown_ts IS NOT NULL OR e.died_ts IS NOT NULL THEN r.last_ts END AS gone_ts
FROM run AS r
LEFT JOIN (
    SELECT instance, run_id, min(ts) FILTER (WHERE kind = 'ready') AS ready_ts, max(ts) FILTER (WHERE kind = 'crash') AS died_ts
    FROM event GROUP BY instance, run_id
) AS e ON e.instance = r.instance AND e.run_id = r.run_id
WHERE r.instance = ? AND r.run_id = ?
"""


@dataclass(frozen=True, slots=True)
class _Report:
    """At `at_s` (epoch) the engine said that it had `n` requests, running and waiting. Not `moved`: it may have said so for long."""

    at_s: float
    n: float
    moved: bool


def never_reached(
    con: duckdb.DuckDBPyConnection, instance: str, run_id: str, others: Sequence[Row], failed: Sequence[Row]
) -> dict[int, bool]:
    """By index into `failed`: whether it never reached the engine; those of which nothing tells are not in it.

    One that had failed before the process was ready, or came after its last sign of life, did not. Any other did if the engine had more
    requests in hand while it was on its way than the `others`: by half of the failed ones at least. All have an arrival time.
    """
    out: dict[int, bool] = {}
    ready, gone = _life(con, instance, run_id)
    for i, row in enumerate(failed):
        begin, end = _span(row)
        if (ready is not None and end is not None and end < ready) or (gone is not None and begin > gone):
            out[i] = True
    unsure = [i for i in range(len(failed)) if i not in out]
    told = _by_reports(_reports(con, instance, run_id), [_span(row) for row in others], [_span(failed[i]) for i in unsure])
    for i, away in told.items():
        out[unsure[i]] = away
    return out


def _by_reports(
    reports: Sequence[_Report], others: Sequence[tuple[float, float | None]], failed: Sequence[tuple[float, float | None]]
) -> dict[int, bool]:
    """The same by index into `failed`, by the engine's reports alone."""
    if not failed:
        return {}
    known, unknown = _Flight(others), _Flight(failed)
    calm = [r.n - known.at(r.at_s) for r in reports if r.moved and not unknown.at(r.at_s)]
    # clients see a request longer than the engine does
    usual = median(calm) if len(calm) >= _LEAST_CALM else 0.0
    off = sorted(abs(d - usual) for d in calm)
    chance = off[int(_OF_CALM * (len(off) - 1))] if len(calm) >= _LEAST_CALM else 0.0
    shares = [
        (r.at_s, (r.n - known.at(r.at_s) - usual) / n) for r in reports if r.moved and (n := unknown.at(r.at_s)) and _HALF * n > chance
    ]
    times = [at for at, _share in shares]
    out = {}
    for i, (begin, end) in enumerate(failed):
        low = bisect_left(times, begin + _STAMP_S)
        high = len(times) if end is None else bisect_left(times, end)
        if low < high:
            out[i] = median(share for _at, share in shares[low:high]) < _HALF
    return out


class _Flight:
    """How many requests were on their way at a time."""

    def __init__(self, spans: Sequence[tuple[float, float | None]]) -> None:
        self._begin = sorted(begin for begin, _end in spans)
        self._end = sorted(end for _begin, end in spans if end is not None)

    def at(self, at_s: float) -> int:
        return bisect_right(self._begin, at_s) - bisect_right(self._end, at_s)


def _reports(con: duckdb.DuckDBPyConnection, instance: str, run_id: str) -> list[_Report]:
    told = con.execute(_REPORTS, {"instance": instance, "run": run_id}).fetchall()
    if not told:
        return []
    # a scheduler that hangs goes on being reported as it last was; one with nothing to do has nothing to move
    moved = [True, *(not n or state != before for (_at, _n, before), (_t, n, state) in pairwise(told))]
    return [_Report(float(at), float(n), fresh) for (at, n, _state), fresh in zip(told, moved, strict=True)]


def _life(con: duckdb.DuckDBPyConnection, instance: str, run_id: str) -> tuple[float | None, float | None]:
    told = con.execute(_LIFE, [instance, run_id]).fetchone()
    ready, gone = told or (None, None)
    return _epoch(ready), _epoch(gone)


def _span(row: Row) -> tuple[float, float | None]:
    """From its arrival to its end, epoch seconds."""
    begin = row["arrival_ts"].timestamp()
    end = _epoch(row["finish_ts"])
    return begin, end if end is not None or row["e2e_s"] is None else begin + row["e2e_s"]


def _epoch(ts: datetime | None) -> float | None:
    return None if ts is None else ts.timestamp()
