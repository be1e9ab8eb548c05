"""What a replay came to, in the numbers that what-ifs are compared by."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from analyzer.replay.model import Case, FittedStepTime, Outcome
from analyzer.replay.result import Curves, Replayed, Served

# Retractions a request, from which on they feed on themselves.
_THRASH = 0.5


def thrashes(retractions: int, requests: int) -> bool:
    """Whether what is taken from running requests is much of what they compute: a small error then grows with every round."""
    return retractions > _THRASH * max(1, requests)


def outcome(replayed: Replayed, case: Case) -> Outcome:
    """Of all requests that had arrived; percentiles as the checklist takes them, infinite where they fall on one without a first token."""
    ttft = [ttft_s(r, case.fitted) for r in replayed.requests]
    usage = _usage(replayed.curves, replayed.l1_tokens)
    return Outcome(
        ttft_p50_s=percentile(ttft, 0.50),
        ttft_p99_s=percentile(ttft, 0.99),
        max_waiting=max(replayed.curves.waiting, default=0),
        mean_kv_usage=_mean(replayed, usage),
        max_kv_usage=float(usage.max()) if usage.size else 0.0,
        retractions=replayed.retractions,
        finished=sum(r.finish_s is not None and not r.aborted for r in replayed.requests),
        open=sum(r.first_token_s is None and not r.refused for r in replayed.requests),
        never=sum(bool(r.refused) for r in replayed.requests),
        l2_load_s=replayed.l2_load_s,
    )


def ttft_s(served: Served, fitted: FittedStepTime) -> float:
    """What its client waits for the first token, with what is beside the engine; infinity where none came."""
    if served.first_token_s is None:
        return math.inf
    at = served.first_token_s
    held = bisect_right(fitted.stalls, (at, math.inf)) - 1
    if held >= 0:
        start, length = fitted.stalls[held]
        at = max(at, start + length)
    return at - served.arrival_s + fitted.overhead_s


def percentile(values: Sequence[float], q: float) -> float | None:
    """The lowest value that more than a share `q` of `values` do not exceed, as the checklist takes it; None of nothing."""
    if not values:
        return None
    return sorted(values)[min(len(values) - 1, math.floor(q * len(values)))]


def _usage(curves: Curves, l1_tokens: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Share of the pool in use at the start and the end of each run of steps: shape (2, runs)."""
    return np.array([curves.used_tokens_start, curves.used_tokens_end], dtype=np.float64) / l1_tokens


def _mean(replayed: Replayed, usage: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """Over the time from second 0 to the end, idle times as empty."""
    if replayed.end_s <= 0 or not usage.size:
        return 0.0
    length = np.array(replayed.curves.end_s) - np.array(replayed.curves.start_s)
    return float(np.sum(usage.mean(axis=0) * length) / replayed.end_s)
