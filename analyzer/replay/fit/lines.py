"""The lines of an engine's log that tell how fast it was, and what vLLM's say; `gaps` reads SGLang's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import duckdb

from analyzer.replay.fit.gaps import between_decode_lines, prefill_steps
from analyzer.replay.fit.line import STAMP_S, Line, idle
from analyzer.replay.fit.seen import Spans
from analyzer.replay.fit.work import Work
from analyzer.replay.settings import Settings, Sglang

# SGLang prints a decode line every so many decode steps.
_DECODE_STEPS = 40.0
_LINES = """
SELECT
    epoch(ts) - epoch($start::TIMESTAMPTZ), kind, running, waiting,
    gen_tps, gen_tps_now IS NOT NULL, prompt_tps, prompt_tps_now IS NOT NULL,
    coalesce(new_seqs, 0), coalesce(new_tokens, 0), coalesce(cached_tokens, 0), coalesce(kv_used_tokens, kv_usage * $pool, 0),
    step_s, coalesce(ctx_reqs, 0), coalesce(ctx_tokens, 0), coalesce(gen_reqs, 0), coalesce(gen_tokens, 0)
FROM _report
WHERE instance = $instance AND run_id = $run AND basis = 'log'
    AND epoch(ts) - epoch($start::TIMESTAMPTZ) BETWEEN -$slack AND $end + $slack
ORDER BY seq
"""
_INTERVAL = "SELECT number FROM fact WHERE instance = ? AND key = 'arg.decode_log_interval' ORDER BY (run_id = ?) DESC LIMIT 1"
_SLACK_S = 30.0
_LEAST_STEPS = 20


@dataclass(frozen=True, slots=True)
class Printed:
    """`exact` rows are there to be fitted to, with gaps between them; `all` follow one another and tell the pace."""

    exact: list[Work]
    all: list[Work]


def printed_work(
    con: duckdb.DuckDBPyConnection,
    instance: str,
    run_id: str,
    start: datetime | None,
    end_s: float,
    settings: Settings,
    flight: Spans | None,
) -> Printed:
    """What the log tells of stretches in which the engine worked all the time. `flight`: when requests were there, where that is known."""
    if start is None:
        return Printed([], [])
    bound = {"instance": instance, "run": run_id, "start": start, "end": end_s, "slack": _SLACK_S, "pool": float(settings.l1_tokens)}
    lines = [Line(*row) for row in con.execute(_LINES, bound).fetchall()]
    steps = [_iteration(x) for x in lines if x.kind == "iteration" and x.step_s]
    if steps:
        return Printed(steps, steps)
    if isinstance(settings, Sglang):
        told = con.execute(_INTERVAL, [instance, run_id]).fetchone()
        exact, everything = between_decode_lines(lines, float(told[0]) if told and told[0] else _DECODE_STEPS, flight)
        return Printed(exact + prefill_steps(lines, settings), everything)
    rows = _between_stats_lines([x for x in lines if x.kind == "stats"], float(settings.step_tokens), flight)
    return Printed(rows, rows)


def _iteration(line: Line) -> Work:
    seconds = line.step_s or 0.0
    return Work(
        start_s=line.at_s - seconds,
        end_s=line.at_s,
        seconds=seconds,
        steps=1.0,
        tokens=float(line.ctx_tokens + line.gen_tokens),
        requests=float(line.ctx_reqs + line.gen_reqs),
        prefills=1.0 if line.ctx_tokens else 0.0,
        kv_tokens=line.kv_tokens if line.gen_reqs else 0.0,
    )


def _between_stats_lines(lines: Sequence[Line], budget: float, flight: Spans | None) -> list[Work]:
    """A stats line tells the throughput since the one before; how many steps that took follows from the size of the batch."""
    out = []
    for before, line in pairwise(lines):
        if not before.running or not line.running or line.gen_tps is None or line.prompt_tps is None:
            continue
        seconds = line.at_s - before.at_s
        made, prefilled = line.gen_tps * seconds, line.prompt_tps * seconds
        steps = max(made / ((before.running + line.running) / 2), prefilled / budget)
        if steps < _LEAST_STEPS:
            continue
        found = Work(
            start_s=before.at_s,
            end_s=line.at_s,
            seconds=seconds,
            steps=steps,
            tokens=made + prefilled,
            requests=max(steps, made),
            prefills=prefilled / budget,
            kv_tokens=steps * (before.kv_tokens + line.kv_tokens) / 2,
        )
        if not idle(found, flight, STAMP_S):
            out.append(found)
    return out
