"""Requests rebuilt from scrapes of the metrics: what had ended, ran and waited at each scrape are all that had come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb
import numpy as np

from analyzer.diagnosis.case import Row
from analyzer.diagnosis.diagnose import rows
from analyzer.replay.case.residence import Rate, outputs
from analyzer.replay.case.seen import Seen
from analyzer.replay.case.spread import Numbers, from_histogram, moments, rising, settled, shares
from analyzer.replay.settings import Engine

_LEAST_SCRAPES = 5

# One row per scrape; counters as running totals since the first one. The names differ by engine, and some versions lack one or the other.
_SCRAPES = """
WITH gauges AS (
    SELECT ts, sum(coalesce(running, 0)) AS running, sum(coalesce(waiting, 0)) + sum(coalesce(swapped, 0)) AS waiting
    FROM _scrape WHERE instance = $instance AND run_id = $run GROUP BY ts
),
risen AS (
    SELECT ts, if(part IS NULL, name, name || '.' || part) AS what, sum(delta) AS delta
    FROM counter_delta
    WHERE instance = $instance AND run_id = $run AND delta IS NOT NULL AND (
        part = 'count' AND name IN ('e2e_s', 'ttft_s', 'request_prompt_tokens')
        OR part IS NULL AND name IN ('finished_requests_total', 'prompt_tokens_total', 'generation_tokens_total')
    )
    GROUP BY ALL
),
moments AS (
    SELECT ts FROM gauges UNION SELECT ts FROM risen
),
wide AS (
    SELECT
        m.ts,
        max(r.delta) FILTER (WHERE what = 'finished_requests_total') AS finished,
        max(r.delta) FILTER (WHERE what = 'e2e_s.count') AS e2e,
        max(r.delta) FILTER (WHERE what = 'request_prompt_tokens.count') AS prompts,
        max(r.delta) FILTER (WHERE what = 'ttft_s.count') AS first,
        max(r.delta) FILTER (WHERE what = 'prompt_tokens_total') AS prompt_tokens,
        max(r.delta) FILTER (WHERE what = 'generation_tokens_total') AS made_tokens
    FROM moments AS m LEFT JOIN risen AS r USING (ts)
    GROUP BY m.ts
),
totals AS (
    SELECT
        ts,
        sum(finished) OVER t AS finished, sum(e2e) OVER t AS e2e, sum(prompts) OVER t AS prompts,
        sum(first) OVER t AS first, sum(prompt_tokens) OVER t AS prompt_tokens, sum(made_tokens) OVER t AS made_tokens
    FROM wide WINDOW t AS (ORDER BY ts)
)
SELECT
    g.ts, g.running, g.waiting, coalesce(t.finished, t.e2e, t.prompts, 0) AS ended,
    coalesce(t.first, 0) AS first, coalesce(t.prompt_tokens, 0) AS prompt_tokens, coalesce(t.made_tokens, 0) AS made_tokens
FROM gauges AS g
ASOF JOIN totals AS t ON g.ts >= t.ts
ORDER BY g.ts
"""


@dataclass(frozen=True, slots=True)
class _Totals:
    """Running totals by scrape; times in seconds after the first one."""

    at_s: list[float]
    came: Numbers
    ended: Numbers
    first: Numbers
    prompt: Numbers
    made: Numbers
    running: Numbers


def from_scrapes(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, engine: Engine) -> tuple[datetime, list[Seen]] | None:
    """(second 0, requests in the order of arrival); None where there are too few scrapes, or nothing counts requests that ended.

    Arrivals lie evenly between two scrapes. Lengths are those of the histograms, spread without regard to time; without histograms
    they follow the counters of tokens and of requests side by side.
    """
    read = rows(con, _SCRAPES.replace("$instance", "$1").replace("$run", "$2"), instance, run_id)
    if len(read) < _LEAST_SCRAPES or not read[-1]["ended"]:
        return None
    start: datetime = read[0]["ts"]
    totals = _totals(read, start)
    n = round(float(totals.came[-1]))
    arrivals = moments(totals.at_s, totals.came)
    prompts = _spread(con, instance, run_id, "request_prompt_tokens", n)
    if prompts is None:
        # vLLM counts a prompt with its first token, SGLang when the request ends
        counted = totals.first if engine == "vllm" else totals.ended
        if not len(counted) or counted[-1] <= 0:
            return None
        prompts = _in_order(counted, totals.prompt, n)
    made = _spread(con, instance, run_id, "request_output_tokens", n)
    if made is None:
        made = _made(totals, engine, n)
    return start, [Seen(t, p, o) for t, p, o in zip(arrivals.tolist(), prompts, made, strict=True)]


def _totals(read: list[Row], start: datetime) -> _Totals:
    def column(name: str) -> Numbers:
        return np.asarray([float(r[name]) for r in read])

    running, ended = column("running"), column("ended")
    return _Totals(
        at_s=[(r["ts"] - start).total_seconds() for r in read],
        # a gauge that is set now and then still counts what has ended meanwhile
        came=settled(ended + running + column("waiting")),
        ended=ended,
        first=column("first"),
        prompt=column("prompt_tokens"),
        made=column("made_tokens"),
        running=running,
    )


def _made(totals: _Totals, engine: Engine, n: int) -> list[int]:
    """Output lengths without a histogram of them."""
    if engine == "sglang" and totals.ended[-1] > 0:
        # counted when the request ends
        return _in_order(totals.ended, totals.made, n)
    tokens = np.diff(totals.made, prepend=0.0)
    between = np.maximum(totals.running, np.concatenate(([0.0], totals.running[:-1])))
    rate = Rate(totals.at_s, tokens.tolist(), np.maximum(1.0, between).tolist())
    admitted = rising(totals.ended + totals.running)
    return outputs(moments(totals.at_s, admitted).tolist(), totals.at_s, totals.ended, rate, n)


def _in_order(counted: Numbers, tokens: Numbers, n: int) -> list[int]:
    """Lengths of the counted ones, in order, and their median for those that were not counted yet."""
    done = min(n, round(float(counted[-1])))
    found = [int(v) for v in shares(counted, tokens, done)]
    typical = int(np.median(found)) if found else 1
    return [*found, *[typical] * (n - done)]


def _spread(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, name: str, n: int) -> list[int] | None:
    """Lengths as a histogram of the run has them; None without it."""
    buckets = rows(
        con,
        """
        SELECT le, sum(delta) AS below FROM counter_delta
        WHERE instance = ? AND run_id = ? AND name = ? AND part = 'bucket' AND delta IS NOT NULL
        GROUP BY le ORDER BY le
        """,
        instance,
        run_id,
        name,
    )
    if not buckets or not buckets[-1]["below"]:
        return None
    whole = rows(
        con,
        """
        SELECT sum(delta) FILTER (WHERE part = 'sum') / nullif(sum(delta) FILTER (WHERE part = 'count'), 0) AS mean
        FROM counter_delta WHERE instance = ? AND run_id = ? AND name = ? AND part IN ('sum', 'count') AND delta IS NOT NULL
        """,
        instance,
        run_id,
        name,
    )[0]
    below = np.maximum.accumulate(np.asarray([float(b["below"]) for b in buckets]))
    own = np.diff(below, prepend=0.0)
    return [int(v) for v in from_histogram([b["le"] for b in buckets], own.tolist(), whole["mean"], n)]


def limits(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, n: int) -> list[int] | None:
    """max_new_tokens of `n` requests as vLLM's histogram of them has it, in no order; None without it."""
    return _spread(con, instance, run_id, "vllm_request_max_tokens", n)
