"""Question 11: was load skewed between ranks?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.skew import is_skewed, replicas_beside
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["load_skewed"]
    r = case.row("load_skewed")
    ranks = r["ranks"] or 0
    if ranks == 0:
        return q.answer(
            case.instance,
            "cannot_tell",
            "The capture holds no scheduler reports.",
            missing=q.missing(case.engine),
        )
    if ranks == 1:
        return q.answer(
            case.instance,
            "no",
            " ".join(
                filter(
                    None, ("Only one data-parallel rank reports: there is nothing to compare within this instance.", replicas_beside(case))
                )
            ),
        )
    evidence = (
        Evidence("fullest rank, mean usage", rounded(r["usage_fullest"]), "share"),
        Evidence("emptiest rank, mean usage", rounded(r["usage_emptiest"]), "share"),
        Evidence("longest mean queue", rounded(r["waiting_longest"]), "requests"),
        Evidence("shortest mean queue", rounded(r["waiting_shortest"]), "requests"),
        Evidence("usage of each rank if shared alike", rounded(r["usage_even"]), "share"),
    )
    if r["usage_fullest"] is None or r["usage_emptiest"] is None:
        return q.answer(case.instance, "no", f"{ranks} ranks, and no incident in which they could differ.", evidence)
    apart = r["usage_fullest"] - r["usage_emptiest"]
    skewed = is_skewed(case) or (apart > case.limits["skew_usage"] and (r["waiting_longest"] or 0) > 1)
    even = f" Shared alike, each would have been used to about {say.share(r['usage_even'])}." if r["usage_even"] is not None else ""
    told = r["ranks_told"]
    silent = f" {told} ranks were asked for, and {ranks} of them reported." if told is not None and told > ranks else ""
    return q.answer(
        case.instance,
        "yes" if skewed else "no",
        f"Over the incident rank {r['fullest_rank']} was used to {say.share(r['usage_fullest'])} and rank {r['emptiest_rank']} to "
        f"{say.share(r['usage_emptiest'])} on average.{even if skewed else ''}{silent}",
        evidence,
    )
