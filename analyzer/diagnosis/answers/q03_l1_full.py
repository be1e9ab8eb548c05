"""Question 3: was the KV pool in HBM full?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions

_NEVER = "The pool was used to {usage} at {clock}: never full."
_NO_INCIDENT = "The pool was used to {usage} at {clock}, but no queue to speak of formed: full without an incident."
_FULL = (
    "The pool was used to {usage} at {clock}; while requests waited, usage was {median} at the median, and full for {full} of {waiting}."
)
_OF_POOL = "The fullest pool was the {pool} one; that of full attention was used to at most {full}."
_CAPACITY = "Its size is {capacity}."
_STATES = "When it was used most, {evictable} more were cache that goes on demand and {available} were empty."
_STATES_INSIDE = "Over the incident, on average {used} were used, {evictable} evictable and {available} empty."
_STATES_UNKNOWN = "Nothing in this capture tells cached from empty tokens, so how much of the rest was cache is unknown."


def answer(case: Case) -> Answered:
    q = questions()["l1_full"]
    r = case.row("l1_full")
    if r["usage_max"] is None:
        return no_reports(case, "l1_full") or q.answer(
            case.instance, "cannot_tell", "No report carries KV usage.", missing=q.missing(case.engine)
        )
    top = {"usage": say.share(r["usage_max"]), "clock": say.clock(r["usage_max_ts"])}
    if r["usage_max"] < case.limits["full_usage"]:
        return q.answer(case.instance, "no", " ".join([_NEVER.format(**top), *_more(r)]), _evidence(case))
    if not case.queue_broke or not r["full_waiting_s"]:
        return q.answer(case.instance, "partly", " ".join([_NO_INCIDENT.format(**top), *_more(r)]), _evidence(case))
    sentence = _FULL.format(
        **top, median=say.share(r["usage_waiting_p50"]), full=say.seconds(r["full_waiting_s"]), waiting=say.seconds(r["waiting_s"])
    )
    return q.answer(case.instance, "yes", " ".join([sentence, *_more(r)]), _evidence(case))


def _evidence(case: Case) -> tuple[Evidence, ...]:
    r, window = case.row("l1_full"), case.window
    inside = (window.start, window.end)
    return (
        Evidence("KV usage, highest", rounded(r["usage_max"]), "share", r["usage_max_ts"], r["usage_max_ts"], r["usage_max_source"] or ""),
        Evidence("the fullest pool", r["fullest_pool"], ""),
        Evidence("usage of the full-attention pool, highest", rounded(r["kv_usage_max"]), "share"),
        Evidence("usage of the sliding-window pool, highest", rounded(r["swa_usage_max"]), "share"),
        Evidence("usage of the mamba pool, highest", rounded(r["mamba_usage_max"]), "share"),
        Evidence("KV usage while requests waited, median", rounded(r["usage_waiting_p50"]), "share", *inside),
        Evidence("KV usage while requests waited, 10th percentile", rounded(r["usage_waiting_p10"]), "share", *inside),
        Evidence("time at or above the full mark", rounded(r["full_s"] or 0.0), "s"),
        Evidence("capacity", whole(r["capacity_tokens"]), "tokens", source=r["capacity_source"] or ""),
        Evidence("used, highest", whole(r["used_at_max_tokens"]), "tokens"),
        Evidence("evictable when used most", whole(r["evictable_at_max_tokens"]), "tokens"),
        Evidence("available when used most", whole(r["available_at_max_tokens"]), "tokens"),
        Evidence("used in the incident, mean", whole(r["used_mean_tokens"]), "tokens", *inside),
        Evidence("evictable in the incident, mean", whole(r["evictable_mean_tokens"]), "tokens", *inside),
        Evidence("available in the incident, mean", whole(r["available_mean_tokens"]), "tokens", *inside),
    )


def _more(r: Row) -> list[str]:
    """Which pool, how large it is, and what its unused part held, as far as that is known."""
    said = []
    if r["fullest_pool"] not in (None, "full attention"):
        said.append(_OF_POOL.format(pool=r["fullest_pool"], full=say.share(r["kv_usage_max"])))
    if r["capacity_tokens"]:
        said.append(_CAPACITY.format(capacity=say.count(r["capacity_tokens"], "token")))
    evictable, available = r["evictable_at_max_tokens"], r["available_at_max_tokens"]
    if evictable is None or available is None:
        return [*said, _STATES_UNKNOWN]
    said.append(_STATES.format(evictable=say.count(evictable, "token"), available=say.count(available)))
    if r["used_mean_tokens"] is not None:
        said.append(
            _STATES_INSIDE.format(
                used=say.count(r["used_mean_tokens"], "token"),
                evictable=say.count(r["evictable_mean_tokens"]),
                available=say.count(r["available_mean_tokens"]),
            )
        )
    return said
