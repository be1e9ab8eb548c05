"""Question 3: was the KV pool in HBM full?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["l1_full"]
    r = case.row("l1_full")
    if r["usage_max"] is None:
        return no_reports(case, "l1_full") or q.answer(
            case.instance, "cannot_tell", "No report carries KV usage.", missing=q.missing(case.engine)
        )
    full = case.limits["full_usage"]
    evidence = (
        Evidence(
            "KV usage, highest",
            rounded(r["usage_max"]),
            "share",
            r["usage_max_ts"],
            r["usage_max_ts"],
            r["usage_max_source"] or "",
        ),
        Evidence("KV usage while requests waited, median", rounded(r["usage_waiting_p50"]), "share"),
        Evidence("KV usage while requests waited, 10th percentile", rounded(r["usage_waiting_p10"]), "share"),
        Evidence("time at or above the full mark", rounded(r["full_s"] or 0.0), "s"),
        Evidence("capacity", whole(r["capacity_tokens"]), "tokens", source=r["capacity_source"] or ""),
        Evidence("evictable when used most", whole(r["evictable_at_max_tokens"]), "tokens"),
        Evidence("available when used most", whole(r["available_at_max_tokens"]), "tokens"),
    )
    pool = f" of {say.count(r['capacity_tokens'])} tokens" if r["capacity_tokens"] else ""
    top = f"The pool{pool} was used to {say.share(r['usage_max'])} at {say.clock(r['usage_max_ts'])}"
    states = _rest_of_the_pool(r)
    if r["usage_max"] < full:
        return q.answer(case.instance, "no", f"{top}: never full.{states}", evidence)
    if not case.broke or not r["full_waiting_s"]:
        return q.answer(
            case.instance,
            "partly",
            f"{top}, but no queue to speak of formed: full without an incident.{states}",
            evidence,
        )
    return q.answer(
        case.instance,
        "yes",
        f"{top}; while requests waited, usage was {say.share(r['usage_waiting_p50'])} at the median, and full for "
        f"{say.seconds(r['full_waiting_s'])} of {say.seconds(r['waiting_s'])}.{states}",
        evidence,
    )


def _rest_of_the_pool(r: Row) -> str:
    """What the unused part of the pool held, where metrics tell."""
    evictable, available = r["evictable_at_max_tokens"], r["available_at_max_tokens"]
    if evictable is None or available is None:
        return " Nothing in this capture tells cached from empty tokens, so how much of the rest was cache is unknown."
    return f" Of the rest, {say.count(evictable)} tokens were cache that goes on demand and {say.count(available)} were empty at that time."
