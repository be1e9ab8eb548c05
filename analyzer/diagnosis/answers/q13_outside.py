"""Question 13: was it outside the scheduler?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded
from analyzer.diagnosis.questions import questions
from analyzer.diagnosis.stored_words import stored
from analyzer.language import _


def answer(case: Case) -> Answered:
    q = questions()["outside_scheduler"]
    r = case.row("outside_scheduler")
    parts = []
    if r["crashes"]:
        parts.append(_("a crash at {clock} ({text})", clock=say.clock(r["crash_ts"]), text=stored(r["crash_text"])))
    if r["watchdogs"]:
        parts.append(say.count(r["watchdogs"], "watchdog alarm"))
    if r["silence_max_s"]:
        parts.append(_("silence for {seconds} with requests waiting", seconds=say.seconds(r["silence_max_s"])))
    if r["runs"] > 1:
        parts.append(say.count(r["runs"] - 1, "restart"))
    if r["stuck_s"] is not None:
        stuck, waiting = say.seconds(r["stuck_s"]), say.count(r["stuck_waiting_max"], "request")
        parts.append(_("nothing running for {seconds} with up to {requests} waiting", seconds=stuck, requests=waiting))
    if r["giants"]:
        giant, pool = say.count(r["giant_tokens"], "token"), say.count(r["pool_tokens"], "token")
        parts.append(_("a prompt of {giant}, more than the whole pool ({pool})", giant=giant, pool=pool))
    if r["refusals"]:
        refused = say.count(r["refusals"], "request")
        parts.append(_("{requests} refused or aborted because the pool could never hold them", requests=refused))
    evidence = (
        Evidence(_("process lifetimes"), r["runs"], ""),
        Evidence(_("crashes"), r["crashes"], "", r["crash_ts"], r["crash_ts"], r["crash_source"] or ""),
        Evidence(_("watchdog alarms"), r["watchdogs"], ""),
        Evidence(_("longest silence with requests waiting"), rounded(r["silence_max_s"]), "s"),
        Evidence(_("nothing running while requests waited"), rounded(r["stuck_s"]), "s", r["stuck_from_ts"], r["stuck_until_ts"]),
        Evidence(_("longest prompt that got no token"), r["giant_tokens"], "tokens", r["giant_ts"]),
        Evidence(
            _("refused for their size"), r["refusals"], "requests", r["refused_from_ts"], r["refused_until_ts"], r["refused_source"] or ""
        ),
        Evidence(_("rejections"), r["rejections"], ""),
        Evidence(_("warnings"), r["warnings"], ""),
    )
    if parts:
        return q.answer(case.instance, "yes", _("The capture shows {parts}.", parts=say.listed(parts)), evidence)
    if not case.reports:
        return q.answer(
            case.instance, "cannot_tell", _("No crash, watchdog or restart in the capture; without reports a hang cannot be seen."),
            evidence, q.missing(case.engine),
        )  # fmt: skip
    if not case.has_log:
        return q.answer(
            case.instance, "cannot_tell",
            _("No restart by the metrics; a crash or a watchdog alarm would be in a log, and none is in the capture."), evidence,
            q.missing(case.engine),
        )  # fmt: skip
    return q.answer(case.instance, "no", _("No crash, watchdog, hang or restart in the log."), evidence)
