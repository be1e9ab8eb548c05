"""Question 11: was load skewed between ranks?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.skew import is_skewed, replicas_beside
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded
from analyzer.diagnosis.questions import questions
from analyzer.language import _


def answer(case: Case) -> Answered:
    q = questions()["load_skewed"]
    r = case.row("load_skewed")
    ranks = r["ranks"] or 0
    if ranks == 0:
        return q.answer(
            case.instance,
            "cannot_tell",
            _("The capture holds no scheduler reports."),
            missing=q.missing(case.engine),
        )
    if ranks == 1:
        return q.answer(
            case.instance,
            "no",
            say.sentences(
                (_("Only one data-parallel rank reports: there is nothing to compare within this instance."), replicas_beside(case))
            ),
        )
    evidence = (
        Evidence(_("fullest rank, mean usage"), rounded(r["usage_fullest"]), "share"),
        Evidence(_("emptiest rank, mean usage"), rounded(r["usage_emptiest"]), "share"),
        Evidence(_("longest mean queue"), rounded(r["waiting_longest"]), "requests"),
        Evidence(_("shortest mean queue"), rounded(r["waiting_shortest"]), "requests"),
        Evidence(_("usage of each rank if shared alike"), rounded(r["usage_even"]), "share"),
    )
    if r["usage_fullest"] is None or r["usage_emptiest"] is None:
        return q.answer(
            case.instance, "no", _("{ranks}, and no incident in which they could differ.", ranks=say.count(ranks, "rank")), evidence
        )
    apart = r["usage_fullest"] - r["usage_emptiest"]
    skewed = is_skewed(case) or (apart > case.limits["skew_usage"] and (r["waiting_longest"] or 0) > 1)
    said = [
        _(
            "Over the incident rank {fullest} was used to {most} and rank {emptiest} to {least} on average.",
            fullest=r["fullest_rank"], most=say.share(r["usage_fullest"]), emptiest=r["emptiest_rank"],
            least=say.share(r["usage_emptiest"]),
        )
    ]  # fmt: skip
    if skewed and r["usage_even"] is not None:
        said.append(_("Shared alike, each would have been used to about {share}.", share=say.share(r["usage_even"])))
    told = r["ranks_told"]
    if told is not None and told > ranks:
        said.append(_("{told} were asked for, and {ranks} of them reported.", told=say.count(told, "rank"), ranks=ranks))
    return q.answer(case.instance, "yes" if skewed else "no", say.sentences(said), evidence)
