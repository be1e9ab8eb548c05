"""Why a queue was held: pool, reservation, cap or prefill, by the states of its time."""

from __future__ import annotations

from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.finding import LEVELS, PRECEDENCE, at_most, finding
from analyzer.diagnosis.causes.queue_words import (
    reason_of,
    rests_on,
    sentence_of,
    stood_still,
    too_few_reports,
    unexplained,
    without_running,
)
from analyzer.diagnosis.causes.skew import one_rank_alone
from analyzer.diagnosis.causes.unschedulable import all_fit
from analyzer.diagnosis.model import Cause, Confidence, Finding, Window


def queue_held(case: Case) -> list[Finding]:
    """Why the queue was held, in the incident that the queue shows."""
    shares = case.queue_shares()
    q = case.row("ttft_broke")
    window = Window(q["start_ts"], q["end_ts"])
    queue = case.row("queue_on_l1")
    # a handful of reports, each long after the one before, does not even show one queue
    scattered = (queue["reports"] or 0) < case.limits["few_reports"] and not _any_thrown(case)
    scattered = scattered and (queue["judged_s"] or 0.0) > case.limits["spell_gap_s"] * (queue["reports"] or 0)
    if not shares or scattered:
        return [finding(case, "insufficient_data", "low", too_few_reports(case), window, ("queue_on_l1",))]
    dominant = case.limits["dominant_share"]
    stalled_s = case.row("queue_on_l1")["stalled_s"] or 0.0
    if shares["stalled"] >= dominant and stalled_s > case.limits["hang_silence_s"]:
        # a head request that can never fit looks the same: nothing runs, or SGLang's gauges show what ran last
        alike = case.engine == "sglang" or case.row("outside_scheduler")["stuck_reports"]
        level: Confidence = "low" if alike and not all_fit(case) else "medium"
        return [finding(case, "hang", level, stood_still(case, stalled_s), window, ("outside_scheduler", "queue_on_l1"))]
    weights = _weights(case, shares)
    ranked = sorted(weights.items(), key=lambda kv: (-kv[1], PRECEDENCE.index(kv[0])))
    found = [
        finding(
            case, cause, _confidence(case, cause, weight), sentence_of(case, cause), window, rests_on(cause), (reason_of(cause, weight),)
        )
        for cause, weight in ranked
        if weight >= dominant / 2
    ]  # fmt: skip
    if not found and not case.running_reports:
        return [finding(case, "insufficient_data", "low", without_running(case), window, ("queue_on_cap", "queue_on_l1"))]
    if not found or found[0].cause != ranked[0][0]:
        about = ("queue_on_l1", "queue_on_cap", "prefill_bottleneck")
        found.insert(0, finding(case, "insufficient_data", "low", unexplained(case), window, about))
    return found


def _weights(case: Case, shares: dict[str, float]) -> dict[Cause, float]:
    """The part of the judged time that speaks for each cause."""
    l1, reserved = shares["l1"] + shares["gap"], shares["reservation"]
    dominant = case.limits["dominant_share"]
    weights: dict[Cause, float] = {
        "l1_bound": l1,
        "reservation_bound": reserved,
        "cap_bound": shares["cap"] + shares["plateau"],
        "prefill_bound": shares["prefill"],
    }
    if _any_thrown(case) and l1 + reserved >= dominant / 2:
        # a pool that had to throw requests out was full, whatever its usage was while they waited
        weights["l1_bound"], weights["reservation_bound"] = l1 + reserved, 0.0
    elif l1 + reserved >= dominant:
        # both are L1, but the knob differs; a pool that fills up again and again was reserved for what really came
        main: Cause = "l1_bound" if l1 > reserved or l1 >= case.limits["grown_share"] else "reservation_bound"
        weights["l1_bound"], weights["reservation_bound"] = 0.0, 0.0
        weights[main] = l1 + reserved
    if not case.running_reports:
        # below the cap or at it? Only what the pool itself shows is left
        weights = {c: w if c == "l1_bound" else 0.0 for c, w in weights.items()}
    return weights


def _any_thrown(case: Case) -> bool:
    return (case.row("retracted")["events_in_incident"] or 0) > 0


def _confidence(case: Case, cause: Cause, weight: float) -> Confidence:
    """By the part of the time, lowered by what the capture does not show."""
    limits, shares = case.limits, case.queue_shares()
    cap, queue = case.row("queue_on_cap"), case.row("queue_on_l1")
    level: Confidence = "high" if weight >= limits["high_share"] else "medium" if weight >= limits["dominant_share"] else "low"
    if (queue["reports"] or 0) < limits["few_reports"] and not _any_thrown(case):
        level = "low"
    if cap["cap"] is None and not (cause == "l1_bound" and _any_thrown(case)):
        # most reports at the maximum are enough for doubt
        still = (cap["plateau_share"] or 0) >= limits["plateau_share"] or cap["running_p50"] == cap["running_max"]
        if cause == "cap_bound" or (still and (cap["running_max"] or 0) >= 2 and cause != "l1_bound" and not _below_any_default(case)):
            # running that stands still may be at a cap, whatever else shows
            level = "low"
        elif not _below_any_default(case):
            level = at_most(level, "medium")
    if cause == "l1_bound" and not _any_thrown(case) and shares["l1"] < shares["gap"] + shares["reservation"]:
        # that it did not fit is inferred from what else could have held it
        level = at_most(level, "medium")
        if cap["cap"] is None and not _below_any_default(case):
            # and a cap could have held it
            level = "low"
        if (not case.has_log or case.adapters) and shares["l1"] < limits["dominant_share"] / 2:
            # a watermark, which no metric tells, keeps a part of the pool back; a slot for an adapter holds a request as long
            level = "low"
    only_inferred = (queue["refused_share"] or 0) < limits["dominant_share"]
    fuller = (queue["usage_reservation_p50"] or 0) > limits["reserved_usage"]
    if cause == "reservation_bound" and only_inferred and (fuller or not case.has_log):
        # by elimination only, and a pool that fills up could as well have held it
        level = "low"
    if not case.has_log and cap["cap"] is None and cause == "prefill_bound":
        # at a cap that nothing tells, running stays close to its maximum while prefill of the admitted goes on
        running, most = cap["running_p50"] or 0, cap["running_max"] or 0
        if most >= 2 and running >= limits["plateau_share"] * most:
            level = "low"
    if cause == "l1_bound" and not case.has_log and (cap["running_p50"] or 0) <= 1:
        # one request that fills the pool may have outgrown it for good: only a line of the log would tell
        level = "low"
    if one_rank_alone(case):
        # a queue that the capture does not see the end of could have been the other ranks' as well
        level = "low"
    if case.open_ended and cause in ("prefill_bound", "reservation_bound"):
        # a pool may still be filling: what it looked like so far may be only how it began
        level = LEVELS[max(0, LEVELS.index(level) - 1)]
    return level


def _below_any_default(case: Case) -> bool:
    """The arguments are known and set no cap, and running stayed below what the engine takes by default."""
    cap = case.row("queue_on_cap")
    return cap["cap_at_least"] is not None and (cap["running_max"] or 0) < cap["cap_at_least"]
