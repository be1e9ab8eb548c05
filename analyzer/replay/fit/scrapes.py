"""What an engine did between two scrapes, from its counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from analyzer.replay.fit.begun import prefilled_between
from analyzer.replay.fit.seen import Seen, Spans, in_flight
from analyzer.replay.fit.work import Work
from analyzer.replay.settings import Settings, Sglang, Vllm

# Counters of one process run between two scrapes, and the gauges at its end. vLLM counts its steps (iteration_tokens), SGLang does not.
_SCRAPES = """
WITH rises AS (
    SELECT ts, prev_ts, CASE WHEN part IS NULL THEN name ELSE name || '.' || part END AS what, sum(delta) AS delta
    FROM counter_delta
    WHERE instance = $instance AND run_id = $run AND delta IS NOT NULL AND prev_ts IS NOT NULL
        AND (name IN ('iteration_tokens', 'ttft_s') AND part IN ('count', 'sum') OR part IS NULL AND name IN (
            'generation_tokens_total', 'prompt_tokens_total', 'prefix_hit_tokens_total', 'decode_tokens_total',
            'prefill_computed_tokens_total'
        ))
    GROUP BY ALL
),
told AS (
    SELECT
        ts,
        min(prev_ts) AS prev_ts,
        max(delta) FILTER (WHERE what = 'iteration_tokens.count') AS steps,
        coalesce(
            max(delta) FILTER (WHERE what = 'decode_tokens_total'), max(delta) FILTER (WHERE what = 'generation_tokens_total')
        ) AS made,
        coalesce(
            max(delta) FILTER (WHERE what = 'prefill_computed_tokens_total'),
            max(delta) FILTER (WHERE what = 'prompt_tokens_total') - coalesce(max(delta) FILTER (WHERE what = 'prefix_hit_tokens_total'), 0)
        ) AS prefilled,
        max(delta) FILTER (WHERE what = 'ttft_s.count') AS prompts,
        coalesce(max(delta) FILTER (WHERE what = 'prefix_hit_tokens_total'), 0) AS hit
    FROM rises
    GROUP BY ts
),
gauges AS (
    SELECT ts, sum(running) AS running, sum(waiting) AS waiting, max(kv_usage) AS kv_usage
    FROM scheduler_clean
    WHERE instance = $instance AND run_id = $run AND basis = 'metrics'
    GROUP BY ts
)
SELECT
    epoch(t.prev_ts) - epoch($start::TIMESTAMPTZ),
    epoch(t.ts) - epoch($start::TIMESTAMPTZ),
    t.steps, t.made, t.prefilled, t.prompts, t.hit,
    g.running, g.kv_usage, g.waiting, b.running, b.kv_usage, b.waiting
FROM told AS t
LEFT JOIN gauges AS g ON g.ts = t.ts
LEFT JOIN gauges AS b ON b.ts = t.prev_ts
WHERE t.made IS NOT NULL AND t.ts > t.prev_ts
    AND epoch(t.ts) - epoch($start::TIMESTAMPTZ) > 0 AND epoch(t.prev_ts) - epoch($start::TIMESTAMPTZ) < $end
ORDER BY t.ts
"""
# Fewer steps than this are more chance than measurement.
_LEAST_STEPS = 5
# Steps that are not counted but estimated are off by more than one.
_ESTIMATED = 4.0


def scraped_work(
    con: duckdb.DuckDBPyConnection,
    instance: str,
    run_id: str,
    start: datetime | None,
    end_s: float,
    settings: Settings,
    requests: Sequence[Seen],
) -> tuple[list[Work], bool]:
    """One row per interval between two scrapes in which the engine worked, in order; and whether the engine counted its steps itself."""
    if start is None:
        return [], False
    rows: list[tuple[Any, ...]] = con.execute(_SCRAPES, {"instance": instance, "run": run_id, "start": start, "end": end_s}).fetchall()
    if not rows:
        return [], False
    flight = in_flight(requests, end_s)
    counted = any(r[2] for r in rows)
    prompts, exact = _prompt_tokens(rows, settings, requests)
    found = []
    for (begin, end, steps, made, told, firsts, _hit, running, usage, waiting, running_before, _before, waiting_before), prefilled in zip(
        rows, prompts, strict=True
    ):
        busy = min(end - begin, max(flight.any(begin, end), end - begin if running and running_before else 0.0))
        if busy <= 0:
            continue
        if not counted:
            batch = _batch(flight, begin, end, busy, waiting, waiting_before, running, running_before)
            steps = made / batch if batch else 0.0
        mean = told / firsts if told and firsts else _chunk(settings)
        found.append(_row(begin, end, busy, steps, _Tokens(made, prefilled, firsts or 0.0, mean, exact), usage, settings, counted))
    return found, counted


def _batch(
    flight: Spans, begin: float, end: float, busy: float, waiting: float | None, waiting_before: float | None,
    running: float | None, running_before: float | None,
) -> float:  # fmt: skip
    """The mean size of the batch: of the requests that were there, those that did not wait; without request records, that of the gauges."""
    there = flight.sum(begin, end) / busy
    if there:
        return max(1.0, there - ((waiting or 0.0) + (waiting_before or 0.0)) / 2)
    return ((running or 0.0) + (running_before or 0.0)) / 2


def _prompt_tokens(rows: Sequence[tuple[Any, ...]], settings: Settings, requests: Sequence[Seen]) -> tuple[list[float], bool]:
    """Prompt tokens computed in each interval, and whether exact to a step: not where prompts take several, unless the pool tells."""
    told = [max(0.0, r[4] or 0.0) for r in rows]
    several = sum(told) > _chunk(settings) * sum(r[5] or 0.0 for r in rows)
    # SGLang's gauges are those of its last line, and cached tokens are in the pool without being computed
    if not several or not requests or not isinstance(settings, Vllm) or any(r[6] for r in rows):
        return told, not several
    at = [rows[0][0], *(r[1] for r in rows)]
    usage = [rows[0][11], *(r[8] for r in rows)]
    return prefilled_between(told, at, usage, settings.l1_tokens, requests), True


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Tokens made, prompt tokens computed, first tokens, the mean prompt, and whether the prompt tokens are exact to a step."""

    made: float
    prefilled: float
    firsts: float
    mean_prompt: float
    exact: bool


def _row(
    begin: float, end: float, busy: float, steps: float, tokens: _Tokens, usage: float | None, settings: Settings, counted: bool
) -> Work:
    chunk = _chunk(settings)
    chunks = tokens.prefilled / chunk
    prefills = max(chunks, min(tokens.firsts, steps or tokens.firsts))
    if isinstance(settings, Vllm):
        # a step that ends no prompt and makes no token is not counted
        steps = max(steps, chunks)
        prefills = min(prefills, steps)
    else:
        # prefill steps are steps of their own
        steps += prefills
    return Work(
        start_s=begin,
        end_s=end,
        seconds=busy,
        steps=steps,
        tokens=tokens.made + tokens.prefilled,
        requests=max(steps, tokens.made + max(0.0, chunks - tokens.firsts)),
        prefills=prefills,
        attended=tokens.prefilled * tokens.mean_prompt / 2,
        kv_tokens=0.0 if usage is None else usage * settings.l1_tokens * (steps - prefills if isinstance(settings, Sglang) else steps),
        lump=max(1.0 if counted else _ESTIMATED, 1.0 if tokens.exact else min(tokens.mean_prompt / chunk, steps)),
        fits=steps >= _LEAST_STEPS and busy >= 0.2 * (end - begin),
    )


def _chunk(settings: Settings) -> float:
    """The most tokens that one step prefills."""
    if isinstance(settings, Vllm):
        return float(settings.step_tokens)
    return float(settings.chunked_prefill_tokens or settings.max_prefill_tokens)
