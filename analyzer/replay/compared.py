"""A replay held against the capture: curves at the moments they were observed at, and TTFT with the same end on both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analyzer.replay.model import Case, Measure, ObservedCurve
from analyzer.replay.outcome import percentile, ttft_s
from analyzer.replay.result import Replayed

CurveKey = Literal["running", "waiting", "kv_usage"]
Numbers = NDArray[np.float64]

CURVE_BOUND = 0.10
TTFT_BOUND = 0.15
RETRACTION_BOUND = 0.20
# Fewer points than this are no curve.
_LEAST_POINTS = 5
# The least range that an error is taken as a share of: below it a curve is as good as flat.
_LEAST_RANGE = {"running": 2.0, "waiting": 2.0, "kv_usage": 0.02}
# Of fewer retractions each one counts as a tenth.
_LEAST_RETRACTIONS = 10.0
# Steps and gauges have no finer time than this: TTFTs closer than it are the same.
_LEAST_TTFT_S = 0.005


@dataclass(frozen=True, slots=True)
class Waits:
    """TTFT of each request so far, in seconds, on both sides, in the same order; `open` had no first token on the one side or the other."""

    observed: tuple[float, ...]
    replayed: tuple[float, ...]
    open: int


def curve_measure(key: CurveKey, observed: ObservedCurve | None, replayed: Replayed) -> Measure:
    """The mean absolute error over the range of what was observed; `bias` is that of the means."""
    unit = "share" if key == "kv_usage" else "requests"
    if observed is None or len(observed.at_s) < _LEAST_POINTS:
        return Measure(key, unit, None, None, None, None, CURVE_BOUND, None)
    seen = np.array(observed.values)
    made = sampled(key, replayed, np.array(observed.at_s))
    span = max(float(np.ptp(seen)), _LEAST_RANGE[key])
    error = float(np.mean(np.abs(made - seen))) / span
    bias = float(np.mean(made - seen)) / span
    return Measure(key, unit, float(np.mean(seen)), float(np.mean(made)), error, bias, CURVE_BOUND, error <= CURVE_BOUND)


def sampled(key: CurveKey, replayed: Replayed, at_s: Numbers) -> Numbers:
    """A replayed curve at the given times. Between two steps it is what the last one left, and 0 when no request is there."""
    curves = replayed.curves
    if not curves.start_s:
        return np.zeros(len(at_s))
    starts, ends = np.array(curves.start_s), np.array(curves.end_s)
    index = np.searchsorted(starts, at_s, side="right") - 1
    held = np.maximum(index, 0)
    if key == "kv_usage":
        part = np.clip((at_s - starts[held]) / np.maximum(ends[held] - starts[held], 1e-12), 0.0, 1.0)
        begin, end = np.array(curves.used_tokens_start)[held], np.array(curves.used_tokens_end)[held]
        # gauges are set when a step has ended: what the one that runs has taken is not in them yet
        taken = (np.array(curves.prefill_tokens) + np.array(curves.decode_tokens))[held] / np.maximum(np.array(curves.steps)[held], 1)
        values = np.maximum(0.0, begin + (end - begin) * part - np.where(at_s < ends[held], taken, 0.0)) / replayed.l1_tokens
    else:
        values = np.array(curves.running if key == "running" else curves.waiting, dtype=np.float64)[held]
    empty = (index < 0) | ((at_s >= ends[held]) & (_in_hand(replayed, at_s) == 0))
    return np.where(empty, 0.0, values)


def _in_hand(replayed: Replayed, at_s: Numbers) -> NDArray[np.int64]:
    """How many requests had arrived and not ended, at each time."""
    came = np.sort([r.arrival_s for r in replayed.requests if not r.refused])
    went = np.sort([r.finish_s for r in replayed.requests if r.finish_s is not None])
    return np.asarray(np.searchsorted(came, at_s, side="right") - np.searchsorted(went, at_s, side="right"), dtype=np.int64)


def retraction_measure(observed: int | None, replayed: Replayed) -> Measure:
    """Retractions or preemptions, each time a request was thrown out."""
    made = float(replayed.retractions)
    if observed is None:
        return Measure("retractions", "requests", None, made, None, None, RETRACTION_BOUND, None)
    bias = (made - observed) / max(float(observed), _LEAST_RETRACTIONS)
    return Measure("retractions", "requests", float(observed), made, abs(bias), bias, RETRACTION_BOUND, abs(bias) <= RETRACTION_BOUND)


def waits(case: Case, replayed: Replayed) -> Waits:
    """The requests that both sides know. One whose first token had not come at the end counts with its wait so far, on both sides."""
    end = case.end_s
    served = {r.id: r for r in replayed.requests}
    seen = {i: min(t, case.observed.open_s.get(i, t)) for i, t in case.observed.ttft_s.items()} | case.observed.open_s
    pairs = []
    still = 0
    for rid, wait in seen.items():
        if (request := served.get(rid)) is None:
            continue
        made = ttft_s(request, case.fitted)
        so_far = max(0.0, end - request.arrival_s)
        still += rid not in case.observed.ttft_s or made > so_far
        pairs.append((wait, min(made, so_far)))
    return Waits(tuple(o for o, _ in pairs), tuple(r for _, r in pairs), still)


def ttft_spread(case: Case, replayed: Replayed) -> float | None:
    """How far off single requests are: nine of ten of the slower half within this share.

    Of a histogram it is how far off the P99 may be inside its bucket. None where neither tells.
    """
    band = case.observed.ttft_p99_band_s
    if not case.observed.ttft_s and band is not None:
        made = percentile(_finite(case, replayed), 0.99)
        return None if not made else max(0.0, 1 - made / band[1], made / band[0] - 1 if band[0] > 0 else 1.0)
    both = sorted(
        (seen, ttft_s(r, case.fitted))
        for r in replayed.requests
        if r.first_token_s is not None and (seen := case.observed.ttft_s.get(r.id)) is not None
    )
    slower = both[len(both) // 2 :]
    if len(slower) < _LEAST_POINTS:
        return None
    return percentile([abs(made - seen) / max(seen, _LEAST_TTFT_S) for seen, made in slower], 0.9)


def _finite(case: Case, replayed: Replayed) -> list[float]:
    """Replayed TTFT of those that got a first token before the end, as a histogram counts them."""
    return [t for r in replayed.requests if math.isfinite(t := ttft_s(r, case.fitted)) and r.arrival_s + t <= case.end_s]


def ttft_measures(case: Case, replayed: Replayed) -> tuple[Measure, Measure]:
    """P50 and P99, of the same requests on both sides; against a histogram, of all those with a first token."""
    both = waits(case, replayed)
    if both.observed:
        return (
            _ttft("ttft_p50", percentile(both.observed, 0.50), percentile(both.replayed, 0.50), None),
            _ttft("ttft_p99", percentile(both.observed, 0.99), percentile(both.replayed, 0.99), None),
        )
    made = _finite(case, replayed)
    seen = case.observed
    return (
        _ttft("ttft_p50", seen.ttft_p50_s, percentile(made, 0.50), seen.ttft_p50_band_s),
        _ttft("ttft_p99", seen.ttft_p99_s, percentile(made, 0.99), seen.ttft_p99_band_s),
    )


def _ttft(key: Literal["ttft_p50", "ttft_p99"], seen: float | None, made: float | None, band: Sequence[float] | None) -> Measure:
    if seen is None or made is None:
        return Measure(key, "s", seen, made, None, None, TTFT_BOUND, None)
    # within a histogram's bucket no value is more likely than another
    nearest = seen if band is None else min(max(made, band[0]), band[1])
    bias = (made - nearest) / max(nearest, _LEAST_TTFT_S)
    bucket = None if band is None else (band[0], band[1])
    return Measure(key, "s", seen, made, abs(bias), bias, TTFT_BOUND, abs(bias) <= TTFT_BOUND, bucket)
