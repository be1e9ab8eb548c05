"""Whether requests waited for loads from L2, and what to say of L2 where they did not."""

from __future__ import annotations

from typing import NamedTuple

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import at_most, finding
from analyzer.diagnosis.model import Confidence, Finding, Window
from analyzer.language import N_, _

# What is said of slow loads, without and with what loads took outside the incident.
_BLOCKED = (
    N_("Requests waited for KV to be loaded from L2: slow loads took {took} of {whole}, each {mean} on average."),
    N_(
        "Requests waited for KV to be loaded from L2: slow loads took {took} of {whole}, each {mean} on average against {usual} before "
        "and after."
    ),
)
_BLOCKED_AT_ONCE = (
    N_(
        "Requests waited for KV to be loaded from L2: slow loads took {took} together in {whole}, several at a time, each {mean} on "
        "average."
    ),
    N_(
        "Requests waited for KV to be loaded from L2: slow loads took {took} together in {whole}, several at a time, each {mean} on "
        "average against {usual} before and after."
    ),
)
_FIRST_TOKENS = (
    N_(
        "Requests waited for KV to be loaded from L2: first tokens took {excess} longer than usual, added up over {requests}, and slow "
        "loads took {took}, each {mean} on average."
    ),
    N_(
        "Requests waited for KV to be loaded from L2: first tokens took {excess} longer than usual, added up over {requests}, and slow "
        "loads took {took}, each {mean} on average against {usual} before and after."
    ),
)


class Wait(NamedTuple):
    """How requests waited for L2: the part of the trouble that loads explain, by which of the four measures, and in a sentence."""

    share: float
    by: str
    sentence: str


def loads_waited_for(case: Case) -> Wait | None:
    """The strongest evidence that requests waited for loads; None where there is no trouble or no load."""
    r = case.row("l2_bottleneck")
    if not (case.queue_broke or case.ttft_broke or r["slow_ttft_n"]):
        return None
    found = [w for w in (_fetched(case, r), _blocked(r), _first_tokens(r), _prefetched(r)) if w is not None]
    return max(found, key=lambda w: w.share) if found else None


def l2_bound(case: Case) -> list[Finding]:
    """Requests that demonstrably waited for loads, unless the pool was full before loads were slow."""
    wait = loads_waited_for(case)
    if wait is None or wait.share < case.limits["dominant_share"] or l1_came_first(case):
        return []
    r = case.row("l2_bottleneck")
    sure = wait.by in ("fetch", "blocked") and wait.share >= case.limits["high_share"] and r["slow_from_ts"] is not None
    confidence: Confidence = "high" if sure else "medium"
    if wait.by == "prefetch" and not r["prefetched_tokens_inside"]:
        confidence = at_most(confidence, "low")
    window = case.window if case.window.start else Window(r["slow_from_ts"], None)
    return [
        finding(
            case, "l2_bound", confidence, say.sentences([wait.sentence, _order(case, r)]), window,
            ("ttft_broke", "l2_bottleneck", "l1_full"), (_against_computing(r),) if r["computed_s"] and r["load_inside_s"] else (),
        )
    ]  # fmt: skip


def l2_in_part(case: Case) -> list[Finding]:
    """Loads that explain a part of the trouble, for a queue that nothing else explains: its rest may be what they had piled up."""
    wait = loads_waited_for(case)
    if wait is None or wait.share < case.limits["dominant_share"] / 2 or l1_came_first(case):
        return []
    return [finding(case, "l2_bound", "low", wait.sentence, case.window, ("ttft_broke", "l2_bottleneck", "l1_full"))]


def l1_came_first(case: Case) -> bool:
    """True when the pool was full before loads were slow: then loads are late because of L1, not the other way round."""
    r = case.row("l2_bottleneck")
    full, slow = r["full_from_ts"], r["slow_from_ts"] or r["fetch_from_ts"]
    if full is None:
        return False
    shares = case.queue_shares()
    held = shares.get("l1", 0.0) + shares.get("gap", 0.0)
    return held >= case.limits["dominant_share"] / 2 and (slow is None or full <= slow)


def l2_beside(case: Case) -> str:
    """One sentence on L2 beside a full L1: its room, and why more of it would not have helped; empty without an L2."""
    r = case.row("l2_bottleneck")
    used = r["used_share_inside"] if r["used_share_inside"] is not None else r["used_share_max"]
    size = say.count(r["l2_capacity_tokens"], "token") if r["l2_capacity_tokens"] else ""
    if used is not None and used < case.limits["full_usage"]:
        if size:
            return _(
                "L2 ({size}) was used to at most {used} meanwhile: no admission test reads it, so more L2 would not have helped.",
                size=size, used=say.share(used),
            )  # fmt: skip
        return _(
            "L2 was used to at most {used} meanwhile: no admission test reads it, so more L2 would not have helped.", used=say.share(used)
        )
    if used is not None or size or r["l2_bytes"]:
        return _("No admission test reads L2: more of it would not have admitted these requests.")
    return ""


def _fetched(case: Case, r: Row) -> Wait | None:
    """vLLM counts the requests that wait for remote KV. They are L2's only where it is not another server that sends it."""
    if not r["fetch_request_s"] or not r["waiting_request_s"] or case.row("pd_queues")["transfers"] or not r["l2_moved_by"]:
        return None
    share = min(1.0, r["fetch_request_s"] / r["waiting_request_s"])
    sentence = _(
        "Requests waited for KV to be loaded from L2: {share} of the waiting was for loads (up to {requests} at a time), and requests that "
        "wait for a load hold their room in L1.",
        share=say.share(share), requests=say.count(r["fetch_max"], "request"),
    )  # fmt: skip
    return Wait(share, "fetch", sentence)


def _blocked(r: Row) -> Wait | None:
    """Loads that were slow, one after the other, for most of the time."""
    if not r["slow_load_inside_s"] or not r["incident_s"] or not r["loads_inside"]:
        return None
    share = min(1.0, r["slow_load_inside_s"] / r["incident_s"])
    templates = _BLOCKED_AT_ONCE if r["slow_load_inside_s"] > r["incident_s"] else _BLOCKED
    return Wait(share, "blocked", _each(templates, r, whole=say.seconds(r["incident_s"])))


def _first_tokens(r: Row) -> Wait | None:
    """Slow loads against what first tokens took longer than usual."""
    if not r["slow_load_inside_s"] or not r["excess_request_s"] or not r["loads_inside"]:
        return None
    share = min(1.0, r["slow_load_inside_s"] / r["excess_request_s"])
    excess, requests = say.seconds(r["excess_request_s"]), say.count(r["slow_ttft_n"], "request")
    return Wait(share, "ttft", _each(_FIRST_TOKENS, r, excess=excess, requests=requests))


def _prefetched(r: Row) -> Wait | None:
    """SGLang passes over a request whose prefetch from storage is not done; nothing else held the queue."""
    if not r["prefetched_tokens_inside"] or not r["spare_judged_s"]:
        return None
    share = (r["spare_s"] or 0.0) / r["spare_judged_s"]
    sentence = _(
        "Requests waited for KV to be loaded from L2: for {share} of the time in which nothing was admitted the pool had room even for the "
        "most that running requests can have reserved, below the cap, while {tokens} were read from storage (L3); the scheduler passes "
        "over a request until its prefetch is done.",
        share=say.share(share), tokens=say.count(r["prefetched_tokens_inside"], "token"),
    )  # fmt: skip
    return Wait(share, "prefetch", sentence)


def _each(templates: tuple[str, str], r: Row, **fields: str) -> str:
    """One of two sentences on slow loads: the second where it is known what loads took outside the incident."""
    took, mean, outside = say.seconds(r["slow_load_inside_s"]), say.seconds(r["load_mean_inside_s"]), r["load_mean_outside_s"]
    if outside is None:
        return _(templates[0], took=took, mean=mean, **fields)
    return _(templates[1], took=took, mean=mean, usual=say.seconds(outside), **fields)


def _order(case: Case, r: Row) -> str:
    slow, full = r["slow_from_ts"] or r["fetch_from_ts"], r["full_from_ts"]
    if slow is None or full is None or full <= slow:
        return ""
    return _(
        "Loads were slow from {slow} UTC on, and the pool (L1) was full from {full} on: slow L2 filled L1.",
        slow=say.clock(slow), full=say.clock(full),
    )  # fmt: skip


def _against_computing(r: Row) -> str:
    return _(
        "The loads took {took}; computing their tokens would have taken about {computed}.",
        took=say.seconds(r["load_inside_s"]), computed=say.seconds(r["computed_s"]),
    )  # fmt: skip
