"""Why a queue was held: pool, reservation, cap or prefill, by the states of its time."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import LEVELS, PRECEDENCE, at_most, finding
from analyzer.diagnosis.causes.words import thrown_out
from analyzer.diagnosis.model import Cause, Confidence, Finding, Window


def queue_held(case: Case) -> list[Finding]:
    """Why the queue was held, in the incident that the queue shows."""
    shares = case.queue_shares()
    q, cap, retracted = case.row("ttft_broke"), case.row("queue_on_cap"), case.row("retracted")
    window = Window(q["start_ts"], q["end_ts"])
    if not shares:
        return [
            finding(
                case, "insufficient_data", "low",
                f"Requests queued {case.when()}, but too few reports tell what for.", window, ("queue_on_l1",),
            )
        ]  # fmt: skip
    dominant = case.limits["dominant_share"]
    stalled_s = case.row("queue_on_l1")["stalled_s"] or 0.0
    if shares["stalled"] >= dominant and stalled_s > case.limits["hang_silence_s"]:
        return [
            finding(
                case, "hang", "medium",
                f"The scheduler made not one token for {say.seconds(stalled_s)} {case.when()}, though it reported, with "
                f"{say.count(cap['running_max'])} running and up to {say.count(q['waiting_peak'])} waiting.",
                window, ("outside_scheduler", "queue_on_l1"),
            )
        ]  # fmt: skip
    l1, reserved = shares["l1"] + shares["gap"], shares["reservation"]
    any_thrown = (retracted["events_in_incident"] or 0) > 0
    weights: dict[Cause, float] = {
        "l1_bound": l1,
        "reservation_bound": reserved,
        "cap_bound": shares["cap"],
        "prefill_bound": shares["prefill"],
    }
    if _looks_capped(case, shares):
        weights["cap_bound"] = max(weights["cap_bound"], reserved + shares["unexplained"])
        weights["reservation_bound"] = 0.0
    elif any_thrown and l1 + reserved >= dominant / 2:
        # a pool that had to throw requests out was full, whatever its usage was while they waited
        weights["l1_bound"], weights["reservation_bound"] = l1 + reserved, 0.0
    elif l1 + reserved >= dominant:
        # a pool that fills up again and again was reserved for what really came
        main: Cause = "l1_bound" if l1 > reserved or l1 >= case.limits["grown_share"] else "reservation_bound"
        weights["l1_bound"], weights["reservation_bound"] = 0.0, 0.0
        weights[main] = l1 + reserved
    if not case.running_reports:
        # below the cap or at it? Only what the pool itself shows is left
        weights = {c: w if c == "l1_bound" else 0.0 for c, w in weights.items()}
    ranked = sorted(weights.items(), key=lambda kv: (-kv[1], PRECEDENCE.index(kv[0])))
    found = [_queue_finding(case, c, w, window, any_thrown) for c, w in ranked if w >= dominant / 2]
    if not found and not case.running_reports:
        return [
            finding(
                case, "insufficient_data", "low",
                f"Requests queued {case.when()} (up to {say.count(q['waiting_peak'])}), but no report tells how many were running, "
                "so a cap cannot be ruled out.", window, ("queue_on_cap", "queue_on_l1"),
            )
        ]  # fmt: skip
    if not found or found[0].cause != ranked[0][0]:
        unknown = shares["unexplained"] + shares["stalled"]
        found.insert(
            0,
            finding(
                case, "insufficient_data", "low",
                f"Requests queued {case.when()} (up to {say.count(q['waiting_peak'])}), and for {say.share(unknown)} of the time the "
                "capture shows neither a full pool, nor a cap, nor saturated prefill"
                + (": the cap is not in it." if cap["cap"] is None else "."),
                window, ("queue_on_l1", "queue_on_cap", "prefill_bottleneck"),
            ),
        )  # fmt: skip
    return found


def _looks_capped(case: Case, shares: dict[str, float]) -> bool:
    """Without a cap in the capture: running stands still while requests wait and the pool has room."""
    cap = case.row("queue_on_cap")
    return (
        cap["cap"] is None
        and (cap["plateau_share"] or 0) >= case.limits["plateau_share"]
        and (cap["running_max"] or 0) >= 2
        and not _below_any_default(case)
        and cap["reports"] >= 5
        and cap["usage_max"] is not None
        and shares["prefill"] < case.limits["dominant_share"]
        and shares["l1"] + shares["gap"] < case.limits["dominant_share"] / 2
    )


def _below_any_default(case: Case) -> bool:
    """The arguments are known and set no cap, and running stayed below what the engine takes by default."""
    arguments = case.row("config_asked_for_it")["args_source"]
    running = case.row("queue_on_cap")["running_max"]
    return case.engine == "vllm" and arguments is not None and (running or 0) < case.limits["default_cap"]


# What `weight` says of each cause that the queue can have.
_HELD = {
    "l1_bound": "the pool had no room for the next request, or had to throw requests out",
    "reservation_bound": "the next request would have fitted, but the admission budget was spent",
    "cap_bound": "running stood at the cap",
    "prefill_bound": "prefill had no budget left",
}


def _queue_finding(case: Case, cause: Cause, weight: float, window: Window, any_thrown: bool) -> Finding:
    q, cap = case.row("ttft_broke"), case.row("queue_on_cap")
    queue, full, prefill = case.row("queue_on_l1"), case.row("l1_full"), case.row("prefill_bottleneck")
    confidence: Confidence = (
        "high" if weight >= case.limits["high_share"] else "medium" if weight >= case.limits["dominant_share"] else "low"
    )
    if (queue["reports"] or 0) < case.limits["few_reports"] and not any_thrown:
        confidence = "low"
    if cap["cap"] is None and not (cause == "l1_bound" and any_thrown):
        # most reports at the maximum are enough for doubt: SGLang's gauge is one short while a prefill fills the last place
        still = (cap["plateau_share"] or 0) >= case.limits["plateau_share"] or cap["running_p50"] == cap["running_max"]
        plateau = still and (cap["running_max"] or 0) >= 2
        # without the cap, running that stands still may be at it, whatever else shows
        if cause == "cap_bound" or (plateau and cause != "l1_bound"):
            confidence = "low"
        elif not _below_any_default(case):
            confidence = at_most(confidence, "medium")
    shares = case.queue_shares()
    if cause == "l1_bound" and not any_thrown and shares["l1"] + shares["gap"] < shares["reservation"]:
        confidence = at_most(confidence, "medium")
    if cause == "reservation_bound" and (queue["usage_reservation_p50"] or 0) > case.limits["reserved_usage"]:
        confidence = "low"
    if not case.has_log and cause == "reservation_bound":
        # by elimination only: neither batches nor the settings that reserve are in metrics
        confidence = "low"
    if not case.has_log and cap["cap"] is None and cause == "prefill_bound":
        # at a cap that nothing tells, running stays close to its maximum while prefill of the admitted goes on
        running, most = cap["running_p50"] or 0, cap["running_max"] or 0
        if most >= 2 and running >= case.limits["plateau_share"] * most:
            confidence = "low"
    if case.open_ended and cause in ("prefill_bound", "reservation_bound"):
        # a pool may still be filling: what it looked like so far may be only how it began
        confidence = LEVELS[max(0, LEVELS.index(confidence) - 1)]
    wait = _wait_words(q)
    start = f"{case.when()} up to {say.count(q['waiting_peak'], 'request')} waited{wait}, because "
    rests: tuple[str, ...]
    if cause == "l1_bound":
        why = f"the KV pool in HBM (L1) was full: usage while they waited was {say.share(full['usage_waiting_p50'])} at the median"
        why += thrown_out(case)
        rests = ("ttft_broke", "l1_full", "queue_on_l1", "retracted", "demand_over_ceiling")
        if case.row("l2_bottleneck")["l2_capacity_tokens"] or case.row("l2_bottleneck")["l2_bytes"]:
            why += ". No admission test reads L2: more of it would not have admitted them"
    elif cause == "reservation_bound":
        why = "the admission budget was reserved for what running requests might still generate: the pool itself was used to "
        if (queue["usage_reservation_p50"] or 0) > case.limits["reserved_usage"]:
            why += f"{say.share(queue['usage_p50'])} at the median, so that requests growing into it may be what binds"
        else:
            why += f"only {say.share(queue['usage_p50'])} at the median"
        rests = ("ttft_broke", "l1_full", "queue_on_l1", "config_asked_for_it")
    elif cause == "cap_bound":
        why = (
            f"running stood at the cap of {say.count(cap['cap'])} while the pool was used to at most {say.share(cap['usage_max'])}"
            if cap["cap"] is not None
            else f"running stood still at {say.count(cap['running_max'])}, as at a cap, while the pool was used to at most "
            f"{say.share(cap['usage_max'])}; the cap itself is not in the capture"
        )
        rests = ("ttft_broke", "queue_on_cap", "l1_full", "config_asked_for_it")
    else:
        tps = prefill["counted_prompt_tps"] if prefill["counted_prompt_tps"] is not None else prefill["prompt_tps_mean"]
        why = f"prefill was saturated at about {say.count(tps)} prompt tokens/s" + (
            f" while the pool was used to at most {say.share(prefill['usage_max'])}"
            if (prefill["usage_max"] or 0) < case.limits["full_usage"]
            else f"; the pool was full too, for {say.share(case.queue_shares()['l1'])} of the time"
        )
        rests = ("ttft_broke", "prefill_bottleneck", "l1_full", "queue_on_cap")
    sentence = start + why + (". The capture ends inside the incident." if case.open_ended else ".")
    reasons = (f"For {say.share(min(weight, 1.0))} of the time in which the queue was held, {_HELD[cause]}.",)
    return finding(case, cause, confidence, sentence[0].upper() + sentence[1:], window, rests, reasons)


def _wait_words(q: Row) -> str:
    median, worst = q["wait_est_p50_s"], q["wait_est_peak_s"]
    if not worst:
        return ""
    if median is None or say.seconds(median) == say.seconds(worst):
        return f", for an estimated {say.seconds(worst)}"
    return f", for an estimated {say.seconds(median)} at the median and {say.seconds(worst)} at worst"
