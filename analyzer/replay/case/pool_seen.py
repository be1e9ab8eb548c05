"""What a server's KV pool held while the recorded requests ran: that is less than they are long where they share prefixes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

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
SELECT at_s, any_value(running), any_value(used) FROM told
WHERE basis = (SELECT basis FROM told ORDER BY n DESC, basis LIMIT 1)
GROUP BY at_s ORDER BY at_s
"""
# Records and a report that differ by more running requests than this, or this share of them, do not show the same moment.
_SLACK = 1.0
_SLACK_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Report:
    """How many requests ran, and how many tokens of the pool they held; `at_s` in seconds of the workload."""

    at_s: float
    running: float
    used_tokens: float


@dataclass(frozen=True, slots=True)
class PoolSeen:
    """A pool of `capacity_tokens` in pages of `page_tokens`, as reports tell of it in the order of time."""

    capacity_tokens: int
    page_tokens: int
    reports: tuple[Report, ...]


def pool_seen(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, start: datetime, settings: Settings) -> PoolSeen:
    """What lines or scrapes tell of one run."""
    page = settings.page_tokens if isinstance(settings, Sglang) else settings.block_tokens
    told = con.execute(_REPORTS, {"instance": instance, "run": run_id, "start": start, "pool": float(settings.l1_tokens)}).fetchall()
    return PoolSeen(settings.l1_tokens, page, tuple(Report(float(t), float(n), float(used)) for t, n, used in told))


class Shared:
    """By how many tokens the pool held less than the requests that ran are long: what they share."""

    def __init__(self, told: Sequence[Told], pool: PoolSeen) -> None:
        self._at: list[float] = []
        self._tokens: list[float] = []
        begin = np.array([_or(t.first_token_s, np.inf) for t in told])
        end = np.array([_or(t.finish_s, np.inf) for t in told])
        prompt = np.array([t.request.prompt_tokens for t in told], dtype=np.float64)
        output = np.array([t.request.output_tokens for t in told], dtype=np.float64)
        for report in pool.reports:
            runs = (begin <= report.at_s) & (report.at_s < end)
            n = int(runs.sum())
            if not n or abs(n - report.running) > max(_SLACK, _SLACK_SHARE * n) or not np.isfinite(end[runs]).all():
                continue
            part = (report.at_s - begin[runs]) / np.maximum(end[runs] - begin[runs], 1e-9)
            held = np.ceil((prompt[runs] + output[runs] * part) / pool.page_tokens) * pool.page_tokens
            self._at.append(report.at_s)
            # as many as were reported, of the mean length of those that are known to run
            self._tokens.append(max(0.0, float(held.sum()) * report.running / n - report.used_tokens))

    def next(self, at_s: float, until_s: float) -> tuple[float, float] | None:
        """(when, tokens) of the first report from `at_s` to `until_s`; None where there is none that says it."""
        k = bisect_left(self._at, at_s)
        return (self._at[k], self._tokens[k]) if k < len(self._at) and self._at[k] < until_s else None


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
