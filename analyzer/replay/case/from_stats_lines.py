"""Requests rebuilt from vLLM's stats lines alone: throughputs, running, waiting and KV usage every few seconds, no count of requests."""

from __future__ import annotations

from datetime import datetime

import duckdb
import numpy as np

from analyzer.diagnosis.diagnose import rows
from analyzer.replay.case.seen import Seen
from analyzer.replay.case.spread import moments, rising
from analyzer.replay.settings import Vllm

_LEAST_LINES = 5
# Lines with as many running at least tell of a mean request.
_BUSY = 2
# Since then, at the latest, the printed prompt throughput leaves out what was found cached.
_COMPUTED_ONLY_SINCE = (0, 19)
_MOST_HIT = 0.95


def from_stats_lines(
    con: duckdb.DuckDBPyConnection, instance: str, run_id: str, settings: Vllm, version: tuple[int, ...] | None
) -> tuple[datetime, list[Seen]] | None:
    """(second 0, requests in the order of arrival, all of one length); None where there are too few lines, or nothing ran.

    In a steady state a running request holds its prompt and half of its output, and prompt and output tokens are made in the proportion of
    the two lengths: KV usage and throughputs give both. As many requests were admitted as prompt tokens make prompts; those that wait
    came too. What is found cached is held once for all that run.
    """
    lines = rows(
        con,
        """
        SELECT ts, coalesce(running, 0) AS running, coalesce(waiting, 0) + coalesce(swapped, 0) AS waiting, kv_usage,
            greatest(coalesce(prompt_tps, 0), 0) AS prompt_tps, greatest(coalesce(gen_tps, 0), 0) AS gen_tps,
            coalesce(prefix_hit_share, 0) AS hit
        FROM scheduler_clean WHERE instance = ? AND run_id = ? AND basis = 'log'
        ORDER BY ts, source_id, record
        """,
        instance,
        run_id,
    )
    if len(lines) < _LEAST_LINES:
        return None
    start: datetime = lines[0]["ts"]
    at_s = [(r["ts"] - start).total_seconds() for r in lines]
    spans = np.diff(at_s, prepend=at_s[0])
    made_tokens = float(np.sum(np.asarray([r["gen_tps"] for r in lines]) * spans))
    prompt_tokens = np.cumsum(np.asarray([r["prompt_tps"] for r in lines]) * spans)
    busy = [r for r in lines if r["running"] >= _BUSY and r["kv_usage"]]
    if not busy or made_tokens <= 0 or prompt_tokens[-1] <= 0:
        return None
    hit = min(_MOST_HIT, float(np.median([r["hit"] for r in busy]))) if settings.prefix_caching else 0.0
    if version is not None and version < _COMPUTED_ONLY_SINCE:
        prompt_tokens = prompt_tokens * (1 - hit)
    proportion = made_tokens / float(prompt_tokens[-1])
    # tokens are held in whole blocks, half of the last one empty; the cached part of a prompt is hit / (1 - hit) of the computed one
    computed = max(
        1.0,
        float(
            np.median(
                [
                    (r["kv_usage"] * settings.l1_tokens / r["running"] - settings.block_tokens / 2)
                    / (1 + proportion / 2 + hit / (1 - hit) / r["running"])
                    for r in busy
                ]
            )
        ),
    )
    prompt, output = max(1, round(computed / (1 - hit))), max(1, round(computed * proportion))
    came = rising(prompt_tokens / computed + np.asarray([float(r["waiting"]) for r in lines]))
    cached = round(prompt * hit)
    return start, [Seen(float(t), prompt, output, cached) for t in moments(at_s, came)]
