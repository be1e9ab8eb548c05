"""Question 8: was L2 the bottleneck?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.l2 import l1_came_first, loads_waited_for
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["l2_bottleneck"]
    r = case.row("l2_bottleneck")
    shares = case.queue_shares()
    l1 = case.queue_broke and shares.get("l1", 0) + shares.get("gap", 0) >= case.limits["dominant_share"]
    capacity = r["l2_capacity_tokens"]
    moved = "by its counters" if r["l2_moved_by"] == "counter" else "in the log"
    evidence = (
        Evidence("L2 capacity", whole(capacity), "tokens", source=r["l2_source"] or ""),
        Evidence("L2 used, highest", rounded(r["used_share_max"]), "share"),
        Evidence("L2 used in the incident, highest", rounded(r["used_share_inside"]), "share"),
        Evidence("L2 operations in the log", r["operations"], ""),
        Evidence("tokens found in L2", r["hit_tokens"], "tokens"),
        Evidence("tokens loaded from L2", r["loaded_tokens"], "tokens"),
        Evidence("bytes loaded from L2", r["loaded_bytes"], "bytes"),
        Evidence("time spent loading", rounded(r["load_s"]), "s"),
        Evidence("slowest load", rounded(r["load_max_s"]), "s"),
        Evidence("one load in the incident, mean", rounded(r["load_mean_inside_s"]), "s", r["slow_from_ts"]),
        Evidence("one load before and after, mean", rounded(r["load_mean_outside_s"]), "s"),
        Evidence("loading in the incident", rounded(r["load_inside_s"]), "s"),
        Evidence("computing those tokens instead", rounded(r["computed_s"]), "s"),
        Evidence("tokens that lookups said were to be loaded", r["need_to_load_tokens"], "tokens"),
        Evidence("tokens read from storage (L3) in the incident", whole(r["prefetched_tokens_inside"]), "tokens"),
        Evidence("tokens found in storage that never came", whole(r["unfulfilled_tokens_inside"]), "tokens"),
        Evidence("waiting for loads", rounded(r["fetch_request_s"]), "requests x s", r["fetch_from_ts"]),
        Evidence("L2 pinned by transfers, highest (no occupancy)", rounded(r["pinned_share_max"]), "share"),
        Evidence("tokens dropped for want of room in L2", r["dropped_tokens"], "tokens"),
        Evidence("failures", r["failures"], ""),
    )
    more = _room(r) + _pinned(r) + _nothing_to_load(r)
    wait = loads_waited_for(case)
    if wait is not None and wait.share >= case.limits["dominant_share"] / 2:
        whole_of_it = wait.share >= case.limits["dominant_share"] and not l1_came_first(case)
        first = " L1 was full before loads were slow." if l1_came_first(case) else ""
        return q.answer(
            case.instance, "yes" if whole_of_it else "partly",
            f"Requests waited for loads: {wait.words}.{first}{_saved(r)}{more}", evidence,
            () if whole_of_it else q.missing(case.engine),
        )  # fmt: skip
    load_s = max(r["load_max_s"] or 0.0, r["load_mean_inside_s"] or 0.0)
    if not r["failures"] and load_s >= 1.0:
        return q.answer(
            case.instance, "partly",
            f"A load from L2 took {say.seconds(load_s)}: requests that needed one waited for it, but loads do not explain most of it."
            f"{more}", evidence, q.missing(case.engine),
        )  # fmt: skip
    if (r["operations"] or r["l2_moved_by"]) and not r["failures"]:
        loads = f"{say.count(r['loaded_tokens'])} tokens were loaded {moved}" if r["loaded_tokens"] is not None else ""
        what = loads or (f"{say.count(r['operations'], 'operation')} in the log" if r["operations"] else "It was used")
        slow = f", the slowest load took {say.seconds(r['load_max_s'])}" if r["load_max_s"] is not None else ""
        return q.answer(case.instance, "no", f"{what}, and no failure was recorded{slow}.{_saved(r)}{more}", evidence)
    if r["failures"]:
        return q.answer(
            case.instance, "partly",
            f"{say.count(r['failures'], 'operation')} on L2 or L3 failed or was dropped: what they were for is computed again. "
            f"How long requests waited for L2 is not recorded.{more}", evidence, q.missing(case.engine),
        )  # fmt: skip
    text = f"No L2 traffic was recorded, so its part cannot be told.{more}"
    if l1:
        known = f" (of {say.count(capacity)} tokens)" if capacity else ""
        text += (
            f" What can be told: the queue was held by L1, and no admission test reads L2{known}, "
            "so more L2 would not have admitted these requests."
        )
    return q.answer(case.instance, "cannot_tell", text, evidence if capacity else (), q.missing(case.engine))


def _room(r: Row) -> str:
    return f" At its fullest it was used to {say.share(r['used_share_max'])}." if r["used_share_max"] is not None else ""


def _pinned(r: Row) -> str:
    if r["pinned_share_max"] is None:
        return ""
    return (
        f" Transfers pinned at most {say.share(r['pinned_share_max'])} of it, which is no occupancy: how full the pool of vLLM's "
        "offloading is, it does not tell."
    )


def _nothing_to_load(r: Row) -> str:
    """Much found and little to load: the engine had it already."""
    if not r["hit_tokens"] or r["need_to_load_tokens"] is None or r["need_to_load_tokens"] > 0.1 * r["hit_tokens"]:
        return ""
    found, needed = say.count(r["hit_tokens"]), say.count(r["need_to_load_tokens"])
    return f" Of {found} tokens found only {needed} had to be loaded: the rest was in L1 already."


def _saved(r: Row) -> str:
    if not r["computed_s"] or not r["load_inside_s"]:
        return ""
    return (
        f" Loads in the incident took {say.seconds(r['load_inside_s'])}; computing their tokens would have taken about "
        f"{say.seconds(r['computed_s'])}."
    )
