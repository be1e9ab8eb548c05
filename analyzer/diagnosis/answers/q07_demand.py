"""Question 7: was demand beyond the ceiling?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["demand_over_ceiling"]
    nothing = no_reports(case, "demand_over_ceiling")
    if nothing:
        return nothing
    r = case.row("demand_over_ceiling")
    if r["ceiling_requests"] is None:
        return q.answer(
            case.instance, "cannot_tell", "The pool's size, or what a request holds of it, is not in the capture.",
            missing=q.missing(case.engine),
        )  # fmt: skip
    evidence = (
        Evidence("tokens held by a running request, mean", whole(r["tokens_per_request"]), "tokens"),
        Evidence("capacity", whole(r["capacity_tokens"]), "tokens"),
        Evidence("ceiling", rounded(r["ceiling_requests"]), "requests"),
        Evidence("running and waiting, highest", r["demand_max"], "requests", r["demand_ts"], r["demand_ts"]),
    )
    if r["demand_share"] is None:
        return q.answer(
            case.instance, "cannot_tell", "Running and waiting requests are not both in the capture.", evidence, q.missing(case.engine)
        )
    over = r["demand_share"] > 1
    return q.answer(
        case.instance,
        "yes" if over else "no",
        f"The pool takes about {say.count(r['ceiling_requests'], 'request')} of {say.count(r['tokens_per_request'])} tokens; "
        f"up to {say.count(r['demand_max'])} were running and waiting at {say.clock(r['demand_ts'])}.",
        evidence,
    )
