"""Question 6: did the engine retract or preempt?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

_BY_LINES = N_("{retractions} threw {requests} out {when}; their tokens were computed again.")
_BY_COUNTER = N_("{requests} were retracted {when}, by the engine's counter; their tokens were computed again.")
_PREEMPTED_BY_COUNTER = N_(
    "{preemptions} happened {when}, by the engine's counter; it moves when the request goes on, not when it is thrown out."
)
_PREEMPTED_BY_LINES = N_("At least {preemptions} happened by the engine's own running count, which it prints at every fiftieth.")
_BY_GAUGE = N_(
    "At least {requests} were retracted in one go: the gauge is overwritten by each retraction and reset by each report, so it proves some "
    "and counts none."
)
_NONE_BY_COUNTER = N_("None: the engine's counter did not move.")
_NONE_BY_LINES = N_("None: this engine prints every retraction, and there is none.")
_SGLANG_UNKNOWN = N_(
    "Neither a counter of retractions nor the log's own lines are in the capture; the gauge between two scrapes proves nothing."
)
_V1_UNKNOWN = N_("vLLM V1 prints no preemption, so the log's silence proves nothing.")
_V0_UNKNOWN = N_("vLLM V0 prints only every fiftieth preemption, and none of those is in the log: there may have been up to 49.")
_THRASH = N_("In the incident that went round in circles: {cycles} with less than {seconds} between, and requests taken in meanwhile.")
_REFILLED = N_("After {refilled} of {moments} the pool was full again within {seconds}: throwing out did not help for long.")
_AGAIN = N_("{requests} were thrown out more than once.")
_RECOMPUTED = N_("About {tokens} had to be computed again, {share} of the prompt tokens computed in the incident.")
_RECOMPUTED_ESTIMATE = N_("Up to {tokens} had to be computed again, {share} of the prompt tokens computed in the incident (estimate).")


def answer(case: Case) -> Answered:
    q = questions()["retracted"]
    nothing = no_reports(case, "retracted")
    r = case.row("retracted")
    if nothing and not (r["retraction_events"] or r["preemptions"]):
        return nothing
    said = _happened(r)
    if said:
        missing = q.missing(case.engine) if not (r["retraction_events"] or r["retracted_requests"] or r["preemptions"]) else ()
        return q.answer(case.instance, "yes", say.sentences([said, *_how_badly(case, r)]), _evidence(r), missing)
    if r["visible"] == "counter":
        return q.answer(case.instance, "no", _(_NONE_BY_COUNTER), _evidence(r))
    if r["visible"] == "each":
        return q.answer(case.instance, "no", _(_NONE_BY_LINES), _evidence(r))
    if case.engine == "sglang" or r["visible"] == "gauge":
        return q.answer(case.instance, "cannot_tell", _(_SGLANG_UNKNOWN), (), q.missing(case.engine))
    text = _(_V1_UNKNOWN) if r["visible"] == "never" else _(_V0_UNKNOWN)
    return q.answer(case.instance, "cannot_tell", text, (), q.missing(case.engine))


def _happened(r: Row) -> str:
    when = say.span(r["first_ts"], r["last_ts"])
    if r["retraction_events"]:
        retractions, requests = say.count(r["retraction_events"], "retraction"), say.count(r["retracted_requests"], "request")
        return _(_BY_LINES, retractions=retractions, requests=requests, when=when)
    if r["visible"] == "counter" and r["retracted_requests"]:
        return _(_BY_COUNTER, requests=say.count(r["retracted_requests"], "request"), when=when)
    if r["preemptions"]:
        template = _PREEMPTED_BY_COUNTER if r["visible"] == "counter" else _PREEMPTED_BY_LINES
        return _(template, preemptions=say.count(r["preemptions"], "preemption"), when=when)
    return _(_BY_GAUGE, requests=say.count(r["gauge_max"], "request")) if r["gauge_max"] else ""


def _how_badly(case: Case, r: Row) -> list[str]:
    """Thrash, a pool that did not recover, requests thrown out again, and what all that cost."""
    said = []
    if (r["cycles"] or 0) >= case.limits["thrash_cycles"]:
        said.append(_(_THRASH, cycles=say.count(r["cycles"], "time"), seconds=say.seconds(case.limits["thrash_s"])))
    if (r["refilled"] or 0) >= case.limits["thrash_cycles"]:
        moments = say.count(r["moments"], "such moment")
        said.append(_(_REFILLED, refilled=say.count(r["refilled"]), moments=moments, seconds=say.seconds(case.limits["refill_s"])))
    if r["thrown_again"]:
        said.append(_(_AGAIN, requests=say.count(r["thrown_again"], "request")))
    if r["recomputed_tokens"] and r["recompute_share"] is not None:
        template = _RECOMPUTED_ESTIMATE if r["recompute_by"] == "estimate" else _RECOMPUTED
        said.append(_(template, tokens=say.count(r["recomputed_tokens"], "token"), share=say.share(r["recompute_share"])))
    return said


def _evidence(r: Row) -> tuple[Evidence, ...]:
    when = (r["first_ts"], r["last_ts"])
    return (
        Evidence(_("retraction events"), r["retraction_events"], "events", *when, r["source"] or ""),
        Evidence(_("retracted requests"), r["retracted_requests"], "requests", *when),
        Evidence(_("preemptions"), r["preemptions"], "", *when),
        Evidence(_("gauge, highest"), whole(r["gauge_max"]), "requests"),
        Evidence(_("new_token_ratio, lowest before"), rounded(r["ratio_min"]), ""),
        Evidence(_("new_token_ratio, highest after"), rounded(r["ratio_max"]), ""),
        Evidence(_("cycles of throwing out and taking in, in the incident"), r["cycles"], ""),
        Evidence(_("times the pool was full again soon, in the incident"), r["refilled"], ""),
        Evidence(_("requests thrown out more than once"), r["thrown_again"], "requests"),
        Evidence(_("tokens computed again, in the incident"), r["recomputed_tokens"], "tokens"),
        Evidence(_("their part of the prompt tokens computed"), rounded(r["recompute_share"]), "share"),
    )
