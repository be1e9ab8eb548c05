"""One replay with something changed: what it came to, and how far it can be leaned on.

A what-if is held against the replay with nothing changed, never against what was observed: what the model gets wrong, it gets wrong in
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from analyzer.language import _
from analyzer.replay.knobs import applied
from analyzer.replay.model import Calibration, Case, Change, Measure, Outcome, WhatIf
from analyzer.replay.outcome import outcome, thrashes
from analyzer.replay.result import Replayed
from analyzer.replay.run import replay
from analyzer.report import fmt

# A replay that has not come to its end after this many times the recorded load is stopped, and what is left is told as open.
_PATIENCE = 8.0
# Requests that came all at once have no time of their own: they are given this, in seconds.
_LEAST_S = 600.0
# Steps this many times beyond what the step time was fitted to are still taken on trust: it is a straight line.
_BEYOND = 2.0
# So much of the busy time has to be in batches of half the size or less, for what a request more costs to be known.
_VARIED = 0.1
# Steps of which there are fewer, by time, decide nothing.
_RARE = 0.05
# Where all batches were of about the same size nothing tells what a request more costs in a step.
_LITTLE_BEYOND = 1.25
# Of recorded steps: a host that was this much slower at times than at others has a pace that belongs to the recorded arrivals.
_UNEVEN = 1.25


Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a replay came to, and the largest steps that it took more than rarely: requests at once, and prefill tokens."""

    outcome: Outcome
    most_running: int
    most_prefill_tokens: float
    thrash: bool


def run(case: Case, calibration: Calibration, changes: Sequence[Change]) -> WhatIf:
    """Replay `case` with `changes` until its last request is served. Raises KvpmError for changes that cannot be made."""
    return judged(case, calibration, tuple(changes), measure(case, changes))


def measure(case: Case, changes: Sequence[Change]) -> Measured:
    """The replay itself; with no `changes` it is the one that all others are held against."""
    workload, settings = applied(changes, case.workload, case.settings)
    changed = replace(case, workload=workload, settings=settings)
    patience = max(workload.duration_s, case.workload.duration_s, case.end_s, _LEAST_S) * _PATIENCE
    return _measured(replay(workload, settings, case.fitted.step_time, pace=case.fitted.pace, until_s=patience), changed)


def _measured(replayed: Replayed, case: Case) -> Measured:
    running, tokens = _largest(replayed, share=_RARE)
    return Measured(
        outcome(replayed, case),
        most_running=running,
        most_prefill_tokens=tokens,
        thrash=thrashes(replayed.retractions, len(replayed.requests)),
    )


def judged(
    case: Case, calibration: Calibration, changes: tuple[Change, ...], measured: Measured, unchanged: Measured | None = None
) -> WhatIf:
    """`measured` with its band, and whether it is to be trusted. `unchanged` is the replay without a change, to its end."""
    p99 = measured.outcome.ttft_p99_s
    low, high = band(calibration, p99)
    why_not = _why_not(case, calibration, changes, measured, unchanged) if changes else ""
    return WhatIf(changes, measured.outcome, low, high, trusted=not why_not, why_not=why_not)


def band(calibration: Calibration, p99_s: float | None) -> tuple[float | None, float | None]:
    """Where the true P99 may lie if the replay is as wrong here as it was on the recorded incident; None where its error is not known.

    The bias of the P99 moves the band to one side; the error of the P50, and that of single slow requests, widen it to both. The
    replayed value is always inside.
    """
    by_key = {m.key: m for m in calibration.measures}
    bias = _of(by_key.get("ttft_p99"))
    if p99_s is None or bias is None:
        return None, None
    spread = max(abs(_of(by_key.get("ttft_p50")) or 0.0), calibration.ttft_spread or 0.0)
    most, least = 1 + max(0.0, bias + spread), 1 + min(0.0, bias - spread)
    return p99_s / most, p99_s / least if least > 0 else inf


def _of(measure: Measure | None) -> float | None:
    return None if measure is None else measure.bias


def _why_not(case: Case, calibration: Calibration, changes: tuple[Change, ...], measured: Measured, unchanged: Measured | None) -> str:
    """The first reason not to rely on a what-if; empty where there is none."""
    if calibration.trust == "none":
        return _("nothing was recorded to hold the replay against")
    if calibration.trust == "low" and calibration.thrash and not calibration.misses:
        return _("retractions fed on themselves, so that a small error grows with every round")
    if calibration.trust == "low" and not calibration.misses:
        return _("what the server did is not all in the model")
    if calibration.trust == "low":
        return _("the replay with nothing changed does not fit what was recorded")
    if measured.thrash and not calibration.thrash:
        return _("retractions feed on themselves under this change")
    knobs = {c.knob for c in changes}
    if "l2_tokens" in knobs and case.settings.l2 is None and measured.outcome.l2_load_s > 0:
        return _("how fast an L2 would load is assumed")
    if "prefix_sharing" in knobs and not case.settings.prefix_caching and not any(r.prefix for r in case.workload.requests):
        return _("the capture does not tell which prompts share a prefix")
    if "arrival_rate" in knobs and _uneven(case):
        return _("the host's own speed changed over the recorded time, and the load would meet it elsewhere")
    return _beyond(case, calibration, measured, unchanged)


def _uneven(case: Case) -> bool:
    pace = case.fitted.pace
    return bool(pace.pauses) or max(pace.slower) > _UNEVEN * min(pace.slower)


def _beyond(case: Case, calibration: Calibration, measured: Measured, unchanged: Measured | None) -> str:
    """What of the steps lies far beyond those of the recorded incident, to which the step time was fitted."""
    seen = [_largest(calibration.unchanged), *([(unchanged.most_running, unchanged.most_prefill_tokens)] if unchanged else [])]
    running = max([*(r for r, _tokens in seen), *(case.observed.running.values if case.observed.running else ())])
    if running and measured.most_running > running * (_BEYOND if _varied(calibration.unchanged) else _LITTLE_BEYOND):
        told = {"most": fmt.number(measured.most_running), "seen": fmt.number(round(running))}
        return _("up to {most} requests run at once, and how long steps of more than {seen} take was not recorded", **told)
    tokens = max(tokens for _running, tokens in seen)
    if tokens and measured.most_prefill_tokens > _BEYOND * tokens:
        told = {"most": fmt.number(round(measured.most_prefill_tokens)), "seen": fmt.number(round(tokens))}
        return _("steps prefill up to {most} tokens, and how long more than {seen} take was not recorded", **told)
    return ""


def _varied(replayed: Replayed) -> bool:
    """Whether batches of very different size were recorded, so that what a request costs in a step is known."""
    seconds = np.array(replayed.curves.end_s) - np.array(replayed.curves.start_s)
    running = np.array(replayed.curves.running)
    small = running <= max(replayed.curves.running, default=0) / 2
    return float(seconds[small].sum()) > _VARIED * float(seconds.sum())


def _largest(replayed: Replayed, *, share: float = 0.0) -> tuple[int, float]:
    """The most requests at once, and the most prefill tokens in a step, of more than a `share` of the time (of that with prefill)."""
    curves = replayed.curves
    steps = np.maximum(np.array(curves.steps, dtype=np.float64), 1)
    seconds = np.array(curves.end_s) - np.array(curves.start_s)
    prefilled = np.array(curves.prefill_tokens)
    return (
        round(_reached(np.array(curves.running, dtype=np.float64), seconds, share)),
        _reached(prefilled[prefilled > 0] / steps[prefilled > 0], seconds[prefilled > 0], share),
    )


def _reached(values: Numbers, seconds: Numbers, share: float) -> float:
    """The highest value that, with those above it, lasted for more than `share` of all seconds."""
    if not values.size:
        return 0.0
    order = np.argsort(-values, kind="stable")
    lasted = np.cumsum(seconds[order])
    return float(values[order[min(int(np.searchsorted(lasted, share * lasted[-1], side="right")), len(order) - 1)]])
