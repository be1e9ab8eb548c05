"""What a server's KV pool held while the recorded requests ran: that is less than they are long where they share prefixes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

import duckdb
import numpy as np

from analyzer.replay.case.told import Told
from analyzer.replay.settings import Settings, Sglang

# Of one basis only, and not those that show the load before their own batch.
_REPORTS = """
WITH told AS (
    SELECT
        *, epoch(ts) - epoch($start::TIMESTAMPTZ) AS at_s, coalesce(kv_used_tokens, kv_usage * $pool) AS used,
        count(*) OVER (PARTITION BY basis) AS n
    FROM scheduler_clean
    WHERE instance = $instance AND run_id = $run AND kind <> 'prefill' AND running IS NOT NULL
        AND coalesce(kv_used_tokens, kv_usage) IS NOT NULL AND ts >= $start::TIMESTAMPTZ
)
SELECT at_s, any_value(running), any_value(used), bool_and(ts = date_trunc('second', ts)) FROM told
WHERE basis = (SELECT basis FROM told ORDER BY n DESC, basis LIMIT 1)
GROUP BY at_s ORDER BY at_s
"""
# Moments around a report at which as many may have run as it says: clients and the engine do not see a step at the same time, and a stamp
# without parts of a second is of any time in it.
_AROUND_S = (-0.05, 0.0, 0.05)
_IN_ITS_SECOND = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)


@dataclass(frozen=True, slots=True)
class Report:
    """How many requests ran, and how many tokens of the pool they held; `at_s` in seconds of the workload."""

    at_s: float
    running: float
    used_tokens: float


@dataclass(frozen=True, slots=True)
class PoolSeen:
    """A pool of `capacity_tokens` in pages of `page_tokens`, as reports in the order of time tell of it."""

    capacity_tokens: int
    page_tokens: int
    reports: tuple[Report, ...]
    whole_seconds: bool = False


def pool_seen(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, start: datetime, settings: Settings) -> PoolSeen:
    """What lines or scrapes tell of one run."""
    page = settings.page_tokens if isinstance(settings, Sglang) else settings.block_tokens
    told = con.execute(_REPORTS, {"instance": instance, "run": run_id, "start": start, "pool": float(settings.l1_tokens)}).fetchall()
    reports = tuple(Report(float(t), float(n), float(used)) for t, n, used, _whole in told)
    return PoolSeen(settings.l1_tokens, page, reports, whole_seconds=bool(told) and all(whole for *_values, whole in told))


class Shared:
    """By how many tokens the pool held less than the requests that ran are long, from reports that agree with records: what they share."""

    def __init__(self, told: Sequence[Told], pool: PoolSeen) -> None:
        self._begin = np.array([_or(t.first_token_s, np.inf) for t in told])
        self._end = np.array([_or(t.finish_s, np.inf) for t in told])
        self._prompt = np.array([t.request.prompt_tokens for t in told], dtype=np.float64)
        self._output = np.array([t.request.output_tokens for t in told], dtype=np.float64)
        self._at: list[float] = []
        self._tokens: list[float] = []
        moments = _IN_ITS_SECOND if pool.whole_seconds else _AROUND_S
        for report in pool.reports:
            lengths = [n for m in moments if (n := self._length(report.at_s + m, report.running, pool.page_tokens)) is not None]
            if lengths:
                self._at.append(report.at_s)
                self._tokens.append(max(0.0, median(lengths) - report.used_tokens))

    def _length(self, at_s: float, running: float, page: int) -> float | None:
        """Of all that ran at a time, in tokens; None where they are not as many as were reported."""
        runs = (self._begin <= at_s) & (at_s < self._end)
        begin, end = self._begin[runs], self._end[runs]
        if not len(begin) or len(begin) != round(running) or not np.isfinite(end).all():
            return None
        part = (at_s - begin) / np.maximum(end - begin, 1e-9)
        return float((np.ceil((self._prompt[runs] + self._output[runs] * part) / page) * page).sum())

    def next(self, at_s: float, until_s: float) -> tuple[float, float] | None:
        """(when, tokens) of the first report from `at_s` to `until_s`; None where there is none that says it."""
        k = bisect_left(self._at, at_s)
        return (self._at[k], self._tokens[k]) if k < len(self._at) and self._at[k] < until_s else None


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
