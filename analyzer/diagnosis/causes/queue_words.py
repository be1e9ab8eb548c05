"""What is said of a queue that was held: whole sentences, one template each."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.l2 import l2_beside
from analyzer.diagnosis.causes.words import thrown_out
from analyzer.diagnosis.model import Cause

_L1 = (
    "The KV pool in HBM (L1) was full {when}: up to {requests} waited, and usage while they waited was {usage} at the median and {most} "
    "at most."
)
_L1_NO_ROOM = (
    "The KV pool in HBM (L1) had no room for the next request {when}: up to {requests} waited, and usage while they waited was {usage} at "
    "the median and {most} at most."
)
_L1_OF_A_POOL = (
    "The KV pool in HBM (L1) was full {when}: up to {requests} waited, and usage of the {pool} pool, the fullest one, while they waited "
    "was {usage} at the median and {most} at most."
)
_RESERVED = (
    "The admission budget was spent {when}: up to {requests} waited although the pool was used to only {usage} at the median, because the "
    "rest was reserved for what running requests might still generate."
)
_RESERVED_OR_GROWN = (
    "The admission budget was spent {when}: up to {requests} waited with the pool used to {usage} at the median, because the rest was "
    "reserved for what running requests might still generate; requests that grow into it may be what binds."
)
_WATERMARK = (
    "The watermark was kept free {when}: up to {requests} waited although their prompts would have fitted into the pool, which was used to "
    "{usage} at the median."
)
_LEFT = "Of {free} free or evictable tokens, between {low} and {high} were reserved (estimate)."
_CAP = "Running stood at the cap of {cap} {when}: up to {requests} waited while the pool was used to at most {usage}."
_PLATEAU = (
    "Running stood still at {running} {when}, as at a cap, and up to {requests} waited while the pool was used to at most {usage}; the cap "
    "itself is not in the capture."
)
_PREFILL = (
    "Prefill was saturated {when}: up to {requests} waited at about {tps} prompt tokens/s, while the pool was used to at most {usage}."
)
_PREFILL_AND_POOL = (
    "Prefill was saturated {when}: up to {requests} waited at about {tps} prompt tokens/s; the pool was full too, for {share} of the time."
)
_WAIT = "They waited for an estimated {wait}."
_WAITS = "They waited for an estimated {median} at the median and {worst} at worst."
_OPEN = "The capture ends inside the incident."

_TOO_FEW = "Requests queued {when}, but too few reports tell what for."
_STOOD_STILL = (
    "The scheduler made not one token for {seconds} {when}, though it reported, with {running} running and up to {waiting} waiting."
)
_WITHOUT_RUNNING = "Requests queued {when} (up to {waiting}), but no report tells how many were running, so a cap cannot be ruled out."
_UNEXPLAINED = (
    "Requests queued {when} (up to {waiting}), and for {share} of the time the capture shows neither a full pool, nor a cap, nor saturated "
    "prefill."
)
_UNEXPLAINED_WITHOUT_CAP = (
    "Requests queued {when} (up to {waiting}), and for {share} of the time the capture shows neither a full pool, nor a cap, nor saturated "
    "prefill: the cap is not in it."
)

_REASONS: dict[Cause, str] = {
    "l1_bound": "For {share} of the time in which the queue was held, the pool had no room for the next request, or had to throw requests "
    "out.",
    "reservation_bound": "For {share} of the time in which the queue was held, the next request would have fitted, but the admission "
    "budget was spent.",
    "cap_bound": "For {share} of the time in which the queue was held, running stood at the cap.",
    "prefill_bound": "For {share} of the time in which the queue was held, prefill had no budget left.",
}
_RESTS_ON: dict[Cause, tuple[str, ...]] = {
    "l1_bound": ("ttft_broke", "l1_full", "queue_on_l1", "retracted", "demand_over_ceiling"),
    "reservation_bound": ("ttft_broke", "l1_full", "queue_on_l1", "config_asked_for_it"),
    "cap_bound": ("ttft_broke", "queue_on_cap", "l1_full", "config_asked_for_it"),
    "prefill_bound": ("ttft_broke", "prefill_bottleneck", "l1_full", "queue_on_cap"),
}


def reason_of(cause: Cause, weight: float) -> str:
    """How much of the time speaks for a cause."""
    return _REASONS[cause].format(share=say.share(min(weight, 1.0)))


def rests_on(cause: Cause) -> tuple[str, ...]:
    """The questions whose answers a cause rests on."""
    return _RESTS_ON[cause]


def sentence_of(case: Case, cause: Cause) -> str:
    """What happened, how long requests waited for it, and what goes with it."""
    main = {"l1_bound": _l1, "reservation_bound": _reserved, "cap_bound": _cap, "prefill_bound": _prefill}[cause](case)
    said = [main[0], *_waits(case), *main[1:]]
    return " ".join([*said, _OPEN] if case.open_ended else said)


def _about(case: Case) -> dict[str, str]:
    return {"when": case.when(), "requests": say.count(case.row("ttft_broke")["waiting_peak"], "request")}


def _l1(case: Case) -> list[str]:
    full = case.row("l1_full")
    usage = {"usage": say.share(full["usage_waiting_p50"]), "most": say.share(full["usage_waiting_max"])}
    if full["fullest_pool"] is not None:
        main = _L1_OF_A_POOL.format(**_about(case), **usage, pool=full["fullest_pool"])
    else:
        shares = case.queue_shares()
        template = _L1 if shares["l1"] >= shares["gap"] + shares["reservation"] else _L1_NO_ROOM
        main = template.format(**_about(case), **usage)
    beside = l2_beside(case)
    return [main, *thrown_out(case), *([beside] if beside else [])]


def _reserved(case: Case) -> list[str]:
    queue = case.row("queue_on_l1")
    if case.engine == "vllm":
        return [_WATERMARK.format(**_about(case), usage=say.share(queue["usage_p50"]))]
    grown = (queue["usage_reservation_p50"] or 0) > case.limits["reserved_usage"]
    main = (_RESERVED_OR_GROWN if grown else _RESERVED).format(**_about(case), usage=say.share(queue["usage_p50"]))
    low, high, free = queue["reserved_low_tokens"], queue["reserved_high_tokens"], queue["free_tokens_p50"]
    return [main] if None in (low, high, free) else [main, _LEFT.format(free=say.count(free), low=say.count(low), high=say.count(high))]


def _cap(case: Case) -> list[str]:
    cap = case.row("queue_on_cap")
    usage = say.share(cap["usage_max"])
    if cap["cap"] is None:
        return [_PLATEAU.format(**_about(case), running=say.count(cap["running_max"]), usage=usage)]
    return [_CAP.format(**_about(case), cap=say.count(cap["cap"]), usage=usage)]


def _prefill(case: Case) -> list[str]:
    r = case.row("prefill_bottleneck")
    tps = say.count(r["counted_prompt_tps"] if r["counted_prompt_tps"] is not None else r["prompt_tps_mean"])
    if (r["usage_max"] or 0) < case.limits["full_usage"]:
        return [_PREFILL.format(**_about(case), tps=tps, usage=say.share(r["usage_max"]))]
    return [_PREFILL_AND_POOL.format(**_about(case), tps=tps, share=say.share(case.queue_shares()["l1"]))]


def _waits(case: Case) -> list[str]:
    q = case.row("ttft_broke")
    median, worst = q["wait_est_p50_s"], q["wait_est_peak_s"]
    if not worst:
        return []
    if median is None or say.seconds(median) == say.seconds(worst):
        return [_WAIT.format(wait=say.seconds(worst))]
    return [_WAITS.format(median=say.seconds(median), worst=say.seconds(worst))]


def too_few_reports(case: Case) -> str:
    """A queue that almost no report tells of."""
    return _TOO_FEW.format(when=case.when())


def stood_still(case: Case, seconds: float) -> str:
    """A scheduler that reports and makes no token."""
    running, waiting = case.row("queue_on_cap")["running_max"], case.row("ttft_broke")["waiting_peak"]
    return _STOOD_STILL.format(seconds=say.seconds(seconds), when=case.when(), running=say.count(running), waiting=say.count(waiting))


def without_running(case: Case) -> str:
    """A queue of which nobody tells how many ran beside it."""
    return _WITHOUT_RUNNING.format(when=case.when(), waiting=say.count(case.row("ttft_broke")["waiting_peak"]))


def unexplained(case: Case) -> str:
    """A queue that none of the causes explains."""
    shares, cap = case.queue_shares(), case.row("queue_on_cap")
    return (_UNEXPLAINED_WITHOUT_CAP if cap["cap"] is None and cap["cap_at_least"] is None else _UNEXPLAINED).format(
        when=case.when(),
        waiting=say.count(case.row("ttft_broke")["waiting_peak"]),
        share=say.share(shares["unexplained"] + shares["stalled"]),
    )
