"""What is said of a queue that was held: whole sentences, one template each."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.l2 import l2_beside
from analyzer.diagnosis.causes.words import thrown_out
from analyzer.diagnosis.model import Cause
from analyzer.language import N_, _

_L1 = N_(
    "The KV pool in HBM (L1) was full {when}: up to {requests} waited, and usage while they waited was {usage} at the median and {most} "
    "at most."
)
_L1_FOR_A_PART = N_(
    "The KV pool in HBM (L1) was full for {part} of the time in which requests waited {when}: up to {requests} waited, and usage was "
    "{usage} at the median and {most} at most."
)
_L1_NO_ROOM = N_(
    "The KV pool in HBM (L1) had no room for the next request {when}: up to {requests} waited, and usage while they waited was {usage} at "
    "the median and {most} at most."
)
_L1_OF_A_POOL = N_(
    "The KV pool in HBM (L1) was full {when}: up to {requests} waited, and usage of the {pool} pool, the fullest one, while they waited "
    "was {usage} at the median and {most} at most."
)
_RESERVED = N_(
    "The admission budget was spent {when}: up to {requests} waited although the pool was used to only {usage} at the median, because the "
    "rest was reserved for what running requests might still generate."
)
_RESERVED_OR_GROWN = N_(
    "The admission budget was spent {when}: up to {requests} waited with the pool used to {usage} at the median, because the rest was "
    "reserved for what running requests might still generate; requests that grow into it may be what binds."
)
_WATERMARK = N_(
    "The watermark was kept free {when}: up to {requests} waited although their prompts would have fitted into the pool, which was used to "
    "{usage} at the median."
)
_LEFT = N_("Of {free} free or evictable tokens, between {low} and {high} were reserved (estimate).")
_CAP = N_("Running stood at the cap of {cap} {when}: up to {requests} waited while the pool was used to at most {usage}.")
_PLATEAU = N_(
    "Running stood still at {running} {when}, as at a cap, and up to {requests} waited while the pool was used to at most {usage}; the cap "
    "itself is not in the capture."
)
_PREFILL = N_(
    "Prefill was saturated {when}: up to {requests} waited at about {tps} prompt tokens/s, while the pool was used to at most {usage}."
)
_PREFILL_AND_POOL = N_(
    "Prefill was saturated {when}: up to {requests} waited at about {tps} prompt tokens/s; the pool was full too, for {share} of the time."
)
_WAIT = N_("They waited for an estimated {wait}.")
_WAITS = N_("They waited for an estimated {median} at the median and {worst} at worst.")
_OPEN = N_("The capture ends inside the incident.")

_TOO_FEW = N_("Requests queued {when}, but too few reports tell what for.")
_STOOD_STILL = N_(
    "The scheduler made not one token for {seconds} {when}, though it reported, with {running} running and up to {waiting} waiting."
)
_WITHOUT_RUNNING = N_("Requests queued {when} (up to {waiting}), but no report tells how many were running, so a cap cannot be ruled out.")
_UNEXPLAINED = N_(
    "Requests queued {when} (up to {waiting}), and for {share} of the time the capture shows neither a full pool, nor a cap, nor saturated "
    "prefill."
)
_UNEXPLAINED_WITHOUT_CAP = N_(
    "Requests queued {when} (up to {waiting}), and for {share} of the time the capture shows neither a full pool, nor a cap, nor saturated "
    "prefill: the cap is not in it."
)

_REASONS: dict[Cause, str] = {
    "l1_bound": N_(
        "For {share} of the time in which the queue was held, the pool had no room for the next request, or had to throw requests out."
    ),
    "reservation_bound": N_(
        "For {share} of the time in which the queue was held, the next request would have fitted, but the admission budget was spent."
    ),
    "cap_bound": N_("For {share} of the time in which the queue was held, running stood at the cap."),
    "prefill_bound": N_("For {share} of the time in which the queue was held, prefill had no budget left."),
}
_RESTS_ON: dict[Cause, tuple[str, ...]] = {
    "l1_bound": ("ttft_broke", "l1_full", "queue_on_l1", "retracted", "demand_over_ceiling"),
    "reservation_bound": ("ttft_broke", "l1_full", "queue_on_l1", "config_asked_for_it"),
    "cap_bound": ("ttft_broke", "queue_on_cap", "l1_full", "config_asked_for_it"),
    "prefill_bound": ("ttft_broke", "prefill_bottleneck", "l1_full", "queue_on_cap"),
}


def reason_of(cause: Cause, weight: float) -> str:
    """How much of the time speaks for a cause."""
    return _(_REASONS[cause], share=say.share(min(weight, 1.0)))


def rests_on(cause: Cause) -> tuple[str, ...]:
    """The questions whose answers a cause rests on."""
    return _RESTS_ON[cause]


def sentence_of(case: Case, cause: Cause) -> str:
    """What happened, how long requests waited for it, and what goes with it."""
    main = {"l1_bound": _l1, "reservation_bound": _reserved, "cap_bound": _cap, "prefill_bound": _prefill}[cause](case)
    said = [main[0], *_waits(case), *main[1:]]
    return say.sentences([*said, _(_OPEN)] if case.open_ended else said)


def _about(case: Case) -> dict[str, str]:
    return {"when": case.when(), "requests": say.count(case.row("ttft_broke")["waiting_peak"], "request")}


def _l1(case: Case) -> list[str]:
    full = case.row("l1_full")
    usage = {"usage": say.share(full["usage_waiting_p50"]), "most": say.share(full["usage_waiting_max"])}
    if full["fullest_pool"] is not None:
        main = _(_L1_OF_A_POOL, **_about(case), **usage, pool=say.pool(full["fullest_pool"]))
    else:
        shares = case.queue_shares()
        part = (full["full_waiting_s"] or 0.0) / full["waiting_s"] if full["waiting_s"] else 1.0
        if shares["l1"] < shares["gap"] + shares["reservation"]:
            main = _(_L1_NO_ROOM, **_about(case), **usage)
        elif part < case.limits["high_share"]:
            main = _(_L1_FOR_A_PART, **_about(case), **usage, part=say.share(part))
        else:
            main = _(_L1, **_about(case), **usage)
    beside = l2_beside(case)
    return [main, *thrown_out(case), *([beside] if beside else [])]


def _reserved(case: Case) -> list[str]:
    queue = case.row("queue_on_l1")
    if case.engine == "vllm":
        return [_(_WATERMARK, **_about(case), usage=say.share(queue["usage_p50"]))]
    grown = (queue["usage_reservation_p50"] or 0) > case.limits["reserved_usage"]
    main = _(_RESERVED_OR_GROWN if grown else _RESERVED, **_about(case), usage=say.share(queue["usage_p50"]))
    low, high, free = queue["reserved_low_tokens"], queue["reserved_high_tokens"], queue["free_tokens_p50"]
    return [main] if None in (low, high, free) else [main, _(_LEFT, free=say.count(free), low=say.count(low), high=say.count(high))]


def _cap(case: Case) -> list[str]:
    cap = case.row("queue_on_cap")
    usage = say.share(cap["usage_max"])
    if cap["cap"] is None:
        return [_(_PLATEAU, **_about(case), running=say.count(cap["running_max"]), usage=usage)]
    return [_(_CAP, **_about(case), cap=say.count(cap["cap"]), usage=usage)]


def _prefill(case: Case) -> list[str]:
    r = case.row("prefill_bottleneck")
    tps = say.count(r["counted_prompt_tps"] if r["counted_prompt_tps"] is not None else r["prompt_tps_mean"])
    if (r["usage_max"] or 0) < case.limits["full_usage"]:
        return [_(_PREFILL, **_about(case), tps=tps, usage=say.share(r["usage_max"]))]
    return [_(_PREFILL_AND_POOL, **_about(case), tps=tps, share=say.share(case.queue_shares()["l1"]))]


def _waits(case: Case) -> list[str]:
    q = case.row("ttft_broke")
    median, worst = q["wait_est_p50_s"], q["wait_est_peak_s"]
    if not worst:
        return []
    if median is None or say.seconds(median) == say.seconds(worst):
        return [_(_WAIT, wait=say.seconds(worst))]
    return [_(_WAITS, median=say.seconds(median), worst=say.seconds(worst))]


def too_few_reports(case: Case) -> str:
    """A queue that almost no report tells of."""
    return _(_TOO_FEW, when=case.when())


def stood_still(case: Case, seconds: float) -> str:
    """A scheduler that reports and makes no token."""
    running, waiting = case.row("queue_on_cap")["running_max"], case.row("ttft_broke")["waiting_peak"]
    return _(_STOOD_STILL, seconds=say.seconds(seconds), when=case.when(), running=say.count(running), waiting=say.count(waiting))


def without_running(case: Case) -> str:
    """A queue of which nobody tells how many ran beside it."""
    return _(_WITHOUT_RUNNING, when=case.when(), waiting=say.count(case.row("ttft_broke")["waiting_peak"]))


def unexplained(case: Case) -> str:
    """A queue that none of the causes explains."""
    shares, cap = case.queue_shares(), case.row("queue_on_cap")
    return _(
        _UNEXPLAINED_WITHOUT_CAP if cap["cap"] is None and cap["cap_at_least"] is None else _UNEXPLAINED,
        when=case.when(),
        waiting=say.count(case.row("ttft_broke")["waiting_peak"]),
        share=say.share(shares["unexplained"] + shares["stalled"]),
    )
