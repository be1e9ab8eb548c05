"""What the capture says one server did: curves as they were scraped or printed, retractions, and TTFT."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

import duckdb

from analyzer.comparison.latency import from_histogram
from analyzer.comparison.model import Measurement
from analyzer.language import _
from analyzer.replay.fit.seen import seen
from analyzer.replay.model import Observed, ObservedCurve
from analyzer.replay.outcome import percentile

# Reports of one basis only: lines and scrapes of one server do not show the same moment of a step.
_REPORTS = """
WITH told AS (
    SELECT *, epoch(ts) - epoch($start::TIMESTAMPTZ) AS at_s
    FROM scheduler_clean
    WHERE instance = $instance AND run_id = $run AND epoch(ts) - epoch($start::TIMESTAMPTZ) BETWEEN 0 AND $end
),
-- a prefill line of SGLang shows the load before its own batch, a decode line that of the step
kinds AS (
    SELECT *, sum(n) OVER (PARTITION BY basis) AS whole FROM (SELECT basis, kind, count(*) AS n FROM told GROUP BY basis, kind)
),
used AS (
    SELECT basis, kind
    FROM kinds
    WHERE basis = (SELECT basis FROM kinds ORDER BY whole DESC, basis LIMIT 1) AND (kind <> 'prefill' OR whole - n < 5)
),
of_ranks AS (
    -- stamps may be whole seconds: of several lines of a rank in one the last one holds
    SELECT
        t.at_s, t.dp, any_value(t.basis) AS basis, arg_max(t.running, t.record) AS running, arg_max(t.waiting, t.record) AS waiting,
        arg_max(t.kv_usage, t.record) AS kv_usage
    FROM told AS t
    JOIN used AS u ON u.basis = t.basis AND u.kind = t.kind
    GROUP BY t.at_s, t.dp
)
SELECT at_s, any_value(basis), sum(running), sum(waiting), max(kv_usage)
FROM of_ranks
GROUP BY at_s
ORDER BY at_s
"""
_RETRACTED = """
SELECT
    (
        SELECT sum(requests) FROM _retracted
        WHERE instance = $instance AND run_id = $run AND ts > $start::TIMESTAMPTZ
            AND epoch(ts) - epoch($start::TIMESTAMPTZ) <= $end
    ),
    (
        SELECT max(epoch(least(until_ts, $start::TIMESTAMPTZ + to_seconds($end))) - epoch(greatest(from_ts, $start::TIMESTAMPTZ))) / $end
        FROM _counted_retractions WHERE instance = $instance AND run_id = $run
    ),
    (
        SELECT count(*) FROM scheduler
        WHERE instance = $instance AND run_id = $run AND engine = 'sglang' AND kind IN ('prefill', 'decode')
    )
"""
# Bounds that all histograms of the server have, as the checklist reads them.
_HISTOGRAM = """
WITH bounds AS (
    SELECT le, sum(n) AS n, sum(told) AS told
    FROM _latency_rise
    WHERE instance = $instance AND what = 'ttft'
        AND epoch(prev_ts) - epoch($start::TIMESTAMPTZ) >= -$slack AND epoch(ts) - epoch($start::TIMESTAMPTZ) <= $end + $slack
    GROUP BY le
),
shared AS (
    SELECT * FROM bounds QUALIFY told = max(told) OVER ()
)
SELECT list(le ORDER BY le), _cumulative(list(n ORDER BY le)) FROM shared
"""
# Counters that hold less of the time than this tell too little.
_COVERED = 0.85
# A scrape before the first arrival and one after the end belong to the workload.
_SLACK_S = 60.0


@dataclass(frozen=True, slots=True)
class _Told:
    """A percentile in seconds, and the bucket it lies in where it is one of a histogram; infinite ones are not known."""

    read: float | None
    band: tuple[float, float] | None = None

    @property
    def value(self) -> float | None:
        return None if self.read is None or math.isinf(self.read) else self.read


def observe(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, start: datetime | None, end_s: float) -> Observed:
    """All that the replay of a run can be held against, from `start` to `end_s` later; nothing where the workload has no place in time."""
    if start is None:
        return Observed(None, None, None, None, {}, {}, "", None, None)
    running, waiting, usage = curves(con, instance, run_id, start, end_s)
    requests = seen(con, instance, run_id, start, end_s)
    ttft = {r.id: r.ttft_s for r in requests if r.ttft_s is not None}
    waits = {r.id: max(0.0, end_s - r.arrival_s) for r in requests if r.ttft_s is None}
    if ttft:
        values = [*ttft.values(), *(math.inf for _ in waits)]
        p50, p99 = (_Told(percentile(values, q)) for q in (0.50, 0.99))
        source = requests[0].observer
    else:
        p50, p99 = _from_histogram(con, instance, start, end_s)
        source = "histogram" if p50.value is not None else ""
    return Observed(
        running=running,
        waiting=waiting,
        kv_usage=usage,
        retractions=retractions(con, instance, run_id, start, end_s),
        ttft_s=ttft,
        open_s=waits,
        ttft_source=source,
        ttft_p50_s=p50.value,
        ttft_p99_s=p99.value,
        ttft_p50_band_s=p50.band,
        ttft_p99_band_s=p99.band,
    )


def curves(
    con: duckdb.DuckDBPyConnection, instance: str, run_id: str, start: datetime, end_s: float
) -> tuple[ObservedCurve | None, ObservedCurve | None, ObservedCurve | None]:
    """Running, waiting and KV usage, each None where it was not told."""
    rows = con.execute(_REPORTS, {"instance": instance, "run": run_id, "start": start, "end": end_s}).fetchall()
    if not rows:
        return None, None, None
    source = _("metrics") if rows[0][1] == "metrics" else _("log")

    def curve(column: int) -> ObservedCurve | None:
        told = [(float(r[0]), float(r[column])) for r in rows if r[column] is not None]
        return ObservedCurve(tuple(at for at, _v in told), tuple(v for _at, v in told), source) if told else None

    return curve(2), curve(3), curve(4)


def retractions(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, start: datetime, end_s: float) -> int | None:
    """Requests thrown out of the running batch, each time counted; None where nothing tells."""
    told = con.execute(_RETRACTED, {"instance": instance, "run": run_id, "start": start, "end": end_s + 1.0}).fetchone()
    total, counted_share, lines = told if told else (None, None, 0)
    # SGLang prints each one, vLLM (V1) none: without lines, counters have to hold the whole time
    if not lines and (counted_share is None or counted_share < _COVERED):
        return None
    return int(total or 0)


def _from_histogram(con: duckdb.DuckDBPyConnection, instance: str, start: datetime, end_s: float) -> tuple[_Told, _Told]:
    found = con.execute(_HISTOGRAM, {"instance": instance, "start": start, "end": end_s, "slack": _SLACK_S}).fetchone()
    if not found or not found[0]:
        return _Told(None), _Told(None)
    p50, p99 = (from_histogram(found[0], found[1], q) for q in (0.50, 0.99))
    return _of_bucket(p50), _of_bucket(p99)


def _of_bucket(read: Measurement | None) -> _Told:
    if read is None:
        return _Told(None)
    return _Told(read.value, (read.low or 0.0, math.inf if read.high is None else read.high))
