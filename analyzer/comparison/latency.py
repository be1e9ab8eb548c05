"""TTFT of one side, as each source tells it: exact by observer, or by histogram, each with bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import duckdb

from analyzer.comparison.model import Measurement
from analyzer.comparison.noise import quantile_ranks

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
HISTOGRAM = "histogram"
# Requests of every observer, by the time of arrival, inside --since and --until as all views are.
REQUESTS = """
SELECT *, coalesce(arrival_ts, ts) AS from_ts
FROM requests
WHERE instance = $instance
    AND coalesce(arrival_ts, ts, '-infinity'::TIMESTAMPTZ) >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
    AND coalesce(arrival_ts, ts, '-infinity'::TIMESTAMPTZ) <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
"""
# A request without a first token at the end of the capture has waited `at_least_s`. It lies in the incident as in the view q01_ttft.
_EXACT = f"""
WITH asked AS ({REQUESTS}),
ends AS (SELECT observer, max(greatest(finish_ts, first_token_ts, arrival_ts, ts)) AS last_ts FROM asked GROUP BY observer),
timed AS (
    SELECT
        r.observer,
        if(r.ttft_s IS NULL, 'infinity'::DOUBLE, r.ttft_s) AS ttft_s,
        greatest(0.0, coalesce(r.ttft_s, epoch(e.last_ts - r.arrival_ts), 0.0)) AS at_least_s,
        r.from_ts,
        coalesce(r.first_token_ts, r.arrival_ts + to_microseconds((r.ttft_s * 1e6)::BIGINT), e.last_ts) AS until_ts
    FROM asked AS r
    JOIN ends AS e USING (observer)
    WHERE r.ttft_s IS NOT NULL OR coalesce(r.status = 'unfinished', false)
)
SELECT
    t.observer,
    t.ttft_s,
    t.at_least_s,
    coalesce(i.broke AND t.from_ts <= i.end_ts AND t.until_ts >= i.start_ts, false) AS inside
FROM timed AS t
LEFT JOIN incident AS i ON i.instance = $instance AND i.incident = 1
"""
# As the view q01_ttft reads histograms: only bounds that all of them have.
_HISTOGRAM = """
WITH placed AS (
    SELECT l.le, l.n, l.told, coalesce(i.broke AND l.ts >= i.start_ts AND l.prev_ts <= i.end_ts, false) AS inside
    FROM _latency_rise AS l
    LEFT JOIN incident AS i ON i.instance = l.instance AND i.incident = 1
    WHERE l.what = 'ttft' AND l.instance = $instance
        AND coalesce(l.prev_ts >= getvariable('since')::TIMESTAMPTZ, true)
),
bounds AS (
    SELECT 'all' AS span, le, sum(n) AS n, sum(told) AS told FROM placed GROUP BY le
    UNION ALL
    SELECT 'inside' AS span, le, sum(n) AS n, sum(told) AS told FROM placed WHERE inside GROUP BY le
),
shared AS (
    SELECT * FROM bounds QUALIFY told = max(told) OVER (PARTITION BY span)
)
SELECT span, list(le ORDER BY le) AS le, _cumulative(list(n ORDER BY le)) AS n FROM shared GROUP BY span
"""


def ttft(con: duckdb.DuckDBPyConnection, instance: str) -> dict[str, dict[str, Measurement]]:
    """Percentiles in seconds by measurement (`ttft_p99`, `ttft_p99_incident`) and source."""
    found: dict[str, dict[str, Measurement]] = {}
    exact: dict[str, list[tuple[float, float, bool]]] = {}
    for observer, value, least, inside in con.execute(_EXACT, {"instance": instance}).fetchall():
        exact.setdefault(observer, []).append((value, least, inside))
    for observer, requests in exact.items():
        if not any(math.isfinite(value) for value, _, _ in requests):
            continue
        for suffix, those in (("", requests), ("_incident", [r for r in requests if r[2]])):
            for name, q in QUANTILES.items():
                if those:
                    found.setdefault(f"ttft_{name}{suffix}", {})[observer] = _exact(those, q, observer)
    for span, le, n in con.execute(_HISTOGRAM, {"instance": instance}).fetchall():
        for name, q in QUANTILES.items():
            read = from_histogram(le, n, q)
            if read is not None:
                found.setdefault(f"ttft_{name}{'' if span == 'all' else '_incident'}", {})[HISTOGRAM] = read
    return found


def _exact(requests: Sequence[tuple[float, float, bool]], q: float, observer: str) -> Measurement:
    values = sorted(value for value, _, _ in requests)
    least = sorted(value for _, value, _ in requests)
    return from_values(values, least, q, observer)


def from_values(values: Sequence[float], least: Sequence[float], q: float, source: str) -> Measurement:
    """The percentile of sorted values. One that is not over at the end is infinite in `values`, and what it took so far in `least`."""
    n = len(values)
    at = min(n - 1, math.floor(q * n))
    low, high = quantile_ranks(n, q)
    upper = values[high - 1] if high is not None else math.inf
    beyond = math.isinf(values[at])
    return Measurement(
        value=least[at] if beyond else values[at],
        low=least[low - 1] if low else None,
        high=upper if math.isfinite(upper) else None,
        at_least=beyond,
        n=n,
        source=source,
    )


def from_histogram(le: Sequence[float], n: Sequence[float], q: float) -> Measurement | None:
    """The percentile of a histogram, interpolated inside its bucket; bounds are those of the buckets that chance leaves open.

    `le` are upper bounds in order, the last one infinite; `n` the cumulative counts. None where that is not a histogram of anything.
    """
    if not n or n[-1] < 1 or not math.isinf(le[-1]):
        return None
    total = round(n[-1])
    low, high = quantile_ranks(total, q)
    bucket = _bucket(n, q * n[-1])
    floor = le[bucket - 1] if bucket else 0.0
    before = n[bucket - 1] if bucket else 0.0
    beyond = math.isinf(le[bucket])
    inside = n[bucket] - before
    value = floor if beyond else floor + (le[bucket] - floor) * ((q * n[-1] - before) / inside if inside > 0 else 1.0)
    first = _bucket(n, low) if low else None
    upper = le[_bucket(n, high)] if high is not None else math.inf
    return Measurement(
        value=value,
        low=None if first is None else le[first - 1] if first else 0.0,
        high=upper if math.isfinite(upper) else None,
        at_least=beyond,
        n=total,
        source=HISTOGRAM,
    )


def _bucket(n: Sequence[float], rank: float) -> int:
    return next(i for i, count in enumerate(n) if count >= min(rank, n[-1]))
