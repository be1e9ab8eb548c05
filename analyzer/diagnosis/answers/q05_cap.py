"""Question 5: was it waiting on a cap?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

_NO_QUEUE = N_("No queue broke, so no cap held anything back.")
_BELOW_DEFAULT = N_(
    "Running reached {running} while requests waited. The arguments set no cap, and the engine's default is at least {default}: it was not "
    "reached."
)
_PLATEAU = N_(
    "The cap is not in the capture, but running stood at {running}, or one below, in {share} of the waiting reports, as it does at a cap."
)
_UNKNOWN = N_("The capture does not tell the cap on running requests.")
_AT_CAP = N_(
    "Running stood at the cap of {cap} for {share} of the time in which the queue was held, with the pool used to at most {usage}."
)
_PARTLY = N_("Running was at the cap of {cap} for {share} of the time.")
_BELOW = N_("Running reached {running} while requests waited; the cap is {cap}.")


def answer(case: Case) -> Answered:
    q = questions()["queue_on_cap"]
    nothing = no_reports(case, "queue_on_cap")
    if nothing:
        return nothing
    r = case.row("queue_on_cap")
    if not case.queue_broke:
        return q.answer(case.instance, "no", _(_NO_QUEUE))
    limits = case.limits
    window = (case.window.start, case.window.end)
    evidence = (
        Evidence(_("cap"), whole(r["cap"]), "requests", source=r["cap_source"] or ""),
        Evidence(_("lowest default of the cap"), whole(r["cap_at_least"]), "requests"),
        Evidence(_("running while requests waited, highest"), whole(r["running_max"]), "requests", *window),
        Evidence(_("waiting reports with running at its highest, or one below"), rounded(r["plateau_share"]), "share", *window),
        Evidence(_("waiting time at the cap with room in the pool"), rounded(r["cap_s"] or 0.0), "s", *window),
    )
    if r["cap"] is None and r["cap_at_least"] is not None and (r["running_max"] or 0) < r["cap_at_least"]:
        sentence = _(_BELOW_DEFAULT, running=say.count(r["running_max"]), default=say.count(r["cap_at_least"]))
        return q.answer(case.instance, "no", sentence, evidence)
    if r["cap"] is None:
        still = (r["plateau_share"] or 0) >= limits["plateau_share"] and r["running_max"] >= 2 and r["reports"] >= limits["few_reports"]
        sentence = _(_PLATEAU, running=say.count(r["running_max"]), share=say.share(r["plateau_share"])) if still else _(_UNKNOWN)
        return q.answer(case.instance, "cannot_tell", sentence, evidence, q.missing(case.engine))
    at_cap = case.queue_shares().get("cap", 0.0)
    if at_cap >= limits["dominant_share"]:
        sentence = _(_AT_CAP, cap=say.count(r["cap"]), share=say.share(at_cap), usage=say.share(r["usage_max"]))
        return q.answer(case.instance, "yes", sentence, evidence)
    if at_cap >= limits["dominant_share"] / 2:
        return q.answer(case.instance, "partly", _(_PARTLY, cap=say.count(r["cap"]), share=say.share(at_cap)), evidence)
    return q.answer(case.instance, "no", _(_BELOW, running=say.count(r["running_max"]), cap=say.count(r["cap"])), evidence)
