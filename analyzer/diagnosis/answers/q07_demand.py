"""Question 7: was demand beyond the ceiling?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

_NO_CAPACITY = N_("The pool's size, or what a request holds of it, is not in the capture.")
_NO_DEMAND = N_("Running and waiting requests are not both in the capture.")
_DEMAND = N_("The pool takes about {ceiling} of {tokens}; up to {most} were running and waiting at {clock}, and {mean} on average.")
_BURST = N_("The average is below the ceiling, so that the peak was a burst that clears by itself.")


def answer(case: Case) -> Answered:
    q = questions()["demand_over_ceiling"]
    nothing = no_reports(case, "demand_over_ceiling")
    if nothing:
        return nothing
    r = case.row("demand_over_ceiling")
    if r["ceiling_requests"] is None:
        return q.answer(case.instance, "cannot_tell", _(_NO_CAPACITY), missing=q.missing(case.engine))
    evidence = (
        Evidence(_("tokens held by a running request, mean"), whole(r["tokens_per_request"]), "tokens"),
        Evidence(_("capacity"), whole(r["capacity_tokens"]), "tokens"),
        Evidence(_("ceiling"), rounded(r["ceiling_requests"]), "requests"),
        Evidence(_("running and waiting, highest"), r["demand_max"], "requests", r["demand_ts"], r["demand_ts"]),
        Evidence(_("running and waiting, mean"), rounded(r["demand_mean"]), "requests", case.window.start, case.window.end),
    )
    if r["demand_share"] is None:
        return q.answer(case.instance, "cannot_tell", _(_NO_DEMAND), evidence, q.missing(case.engine))
    said = [
        _(
            _DEMAND,
            ceiling=say.count(r["ceiling_requests"], "request"),
            tokens=say.count(r["tokens_per_request"], "token"),
            most=say.count(r["demand_max"]),
            clock=say.clock(r["demand_ts"]),
            mean=say.count(r["demand_mean"]),
        )
    ]
    over = r["demand_share"] > 1
    if over and r["demand_mean_share"] is not None and r["demand_mean_share"] <= 1:
        said.append(_(_BURST))
    return q.answer(case.instance, "yes" if over else "no", say.sentences(said), evidence)
