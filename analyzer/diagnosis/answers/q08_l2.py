"""Question 8: was L2 the bottleneck?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.l2 import l1_came_first, loads_waited_for
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

_LOADED_BY_COUNTER = N_("{tokens} were loaded by its counters, and no failure was recorded.")
_LOADED_IN_LOG = N_("{tokens} were loaded by the lines of the log, and no failure was recorded.")


def answer(case: Case) -> Answered:
    q = questions()["l2_bottleneck"]
    r = case.row("l2_bottleneck")
    shares = case.queue_shares()
    l1 = case.queue_broke and shares.get("l1", 0) + shares.get("gap", 0) >= case.limits["dominant_share"]
    capacity = r["l2_capacity_tokens"]
    evidence = (
        Evidence(_("L2 capacity"), whole(capacity), "tokens", source=r["l2_source"] or ""),
        Evidence(_("L2 used, highest"), rounded(r["used_share_max"]), "share"),
        Evidence(_("L2 used in the incident, highest"), rounded(r["used_share_inside"]), "share"),
        Evidence(_("L2 operations in the log"), r["operations"], ""),
        Evidence(_("tokens found in L2"), r["hit_tokens"], "tokens"),
        Evidence(_("tokens loaded from L2"), r["loaded_tokens"], "tokens"),
        Evidence(_("bytes loaded from L2"), r["loaded_bytes"], "bytes"),
        Evidence(_("time spent loading"), rounded(r["load_s"]), "s"),
        Evidence(_("slowest load"), rounded(r["load_max_s"]), "s"),
        Evidence(_("one load in the incident, mean"), rounded(r["load_mean_inside_s"]), "s", r["slow_from_ts"]),
        Evidence(_("one load before and after, mean"), rounded(r["load_mean_outside_s"]), "s"),
        Evidence(_("loading in the incident"), rounded(r["load_inside_s"]), "s"),
        Evidence(_("computing those tokens instead"), rounded(r["computed_s"]), "s"),
        Evidence(_("tokens that lookups said were to be loaded"), r["need_to_load_tokens"], "tokens"),
        Evidence(_("tokens read from storage (L3) in the incident"), whole(r["prefetched_tokens_inside"]), "tokens"),
        Evidence(_("tokens found in storage that never came"), whole(r["unfulfilled_tokens_inside"]), "tokens"),
        Evidence(_("waiting for loads"), rounded(r["fetch_request_s"]), "requests x s", r["fetch_from_ts"]),
        Evidence(_("L2 pinned by transfers, highest (no occupancy)"), rounded(r["pinned_share_max"]), "share"),
        Evidence(_("tokens dropped for want of room in L2"), r["dropped_tokens"], "tokens"),
        Evidence(_("failures"), r["failures"], ""),
    )
    more = [t for t in (_room(r), _pinned(r), _nothing_to_load(r)) if t]
    wait = loads_waited_for(case)
    if wait is not None and wait.share >= case.limits["dominant_share"] / 2:
        all_of_it = wait.share >= case.limits["dominant_share"] and not l1_came_first(case)
        first = _("L1 was full before loads were slow.") if l1_came_first(case) else ""
        text = say.sentences([wait.sentence, first, _saved(r), *more])
        return q.answer(case.instance, "yes" if all_of_it else "partly", text, evidence, () if all_of_it else q.missing(case.engine))
    load_s = max(r["load_max_s"] or 0.0, r["load_mean_inside_s"] or 0.0)
    if not r["failures"] and load_s >= 1.0:
        slow = _(
            "A load from L2 took {seconds}: requests that needed one waited for it, but loads do not explain most of it.",
            seconds=say.seconds(load_s),
        )
        return q.answer(case.instance, "partly", say.sentences([slow, *more]), evidence, q.missing(case.engine))
    if (r["operations"] or r["l2_moved_by"]) and not r["failures"]:
        return q.answer(case.instance, "no", say.sentences([*_traffic(r), _saved(r), *more]), evidence)
    if r["failures"]:
        failed = _(
            "{operations} on L2 or L3 failed or was dropped: what they were for is computed again. How long requests waited for L2 is not "
            "recorded.",
            operations=say.count(r["failures"], "operation"),
        )
        return q.answer(case.instance, "partly", say.sentences([failed, *more]), evidence, q.missing(case.engine))
    text = say.sentences([_("No L2 traffic was recorded, so its part cannot be told."), *more, _beside_l1(capacity) if l1 else ""])
    return q.answer(case.instance, "cannot_tell", text, evidence if capacity else (), q.missing(case.engine))


def _traffic(r: Row) -> list[str]:
    """What was moved, by the best that tells it."""
    if r["loaded_tokens"] is not None:
        template = _LOADED_BY_COUNTER if r["l2_moved_by"] == "counter" else _LOADED_IN_LOG
        said = [_(template, tokens=say.count(r["loaded_tokens"], "token"))]
    elif r["operations"]:
        said = [_("{operations} in the log, and no failure was recorded.", operations=say.count(r["operations"], "operation"))]
    else:
        said = [_("It was used, and no failure was recorded.")]
    if r["load_max_s"] is not None:
        said.append(_("The slowest load took {seconds}.", seconds=say.seconds(r["load_max_s"])))
    return said


def _beside_l1(capacity: float | None) -> str:
    if not capacity:
        return _(
            "What can be told: the queue was held by L1, and no admission test reads L2, so more L2 would not have admitted these requests."
        )
    return _(
        "What can be told: the queue was held by L1, and no admission test reads L2 (of {size}), so more L2 would not have admitted these "
        "requests.",
        size=say.count(capacity, "token"),
    )


def _room(r: Row) -> str:
    used = r["used_share_max"]
    return "" if used is None else _("At its fullest it was used to {share}.", share=say.share(used))


def _pinned(r: Row) -> str:
    if r["pinned_share_max"] is None:
        return ""
    return _(
        "Transfers pinned at most {share} of it, which is no occupancy: how full the pool of vLLM's offloading is, it does not tell.",
        share=say.share(r["pinned_share_max"]),
    )


def _nothing_to_load(r: Row) -> str:
    """Much found and little to load: the engine had it already."""
    if not r["hit_tokens"] or r["need_to_load_tokens"] is None or r["need_to_load_tokens"] > 0.1 * r["hit_tokens"]:
        return ""
    return _(
        "Of {found} found only {needed} had to be loaded: the rest was in L1 already.",
        found=say.count(r["hit_tokens"], "token"), needed=say.count(r["need_to_load_tokens"]),
    )  # fmt: skip


def _saved(r: Row) -> str:
    if not r["computed_s"] or not r["load_inside_s"]:
        return ""
    return _(
        "Loads in the incident took {loading}; computing their tokens would have taken about {computing}.",
        loading=say.seconds(r["load_inside_s"]), computing=say.seconds(r["computed_s"]),
    )  # fmt: skip
