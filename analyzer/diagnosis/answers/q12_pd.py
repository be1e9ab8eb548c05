"""Question 12: which side of a disaggregated server held requests?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

# By the column that tells it: the queue, and the name of its number.
_QUEUES = {
    "bootstrap_max": (N_("bootstrap"), N_("bootstrap queue, highest")),
    "inflight_max": (N_("in flight"), N_("in flight queue, highest")),
    "prealloc_max": (N_("preallocation"), N_("preallocation queue, highest")),
    "transfer_max": (N_("transfer"), N_("transfer queue, highest")),
    "kv_fetch_max": (N_("KV fetch"), N_("KV fetch queue, highest")),
}
_LONGEST = {
    "prefill": N_("The prefill side's longest queue was {queue}, with up to {requests}."),
    "decode": N_("The decode side's longest queue was {queue}, with up to {requests}."),
    None: N_("The reporting side's longest queue was {queue}, with up to {requests}."),
}
_OTHER = {
    "prefill": N_("The prefill side is in the capture too: its pool was used to at most {usage}, and its longest queue held {requests}."),
    "decode": N_("The decode side is in the capture too: its pool was used to at most {usage}, and its longest queue held {requests}."),
}


def answer(case: Case) -> Answered:
    q = questions()["pd_queues"]
    nothing = no_reports(case, "pd_queues")
    if nothing:
        return nothing
    r = case.row("pd_queues")
    seen = {column: r[column] for column in _QUEUES if r[column] is not None}
    if not r["pd_reports"] and not seen:
        text = _("No report carries a queue of prefill/decode disaggregation: it was not in use.")
        return q.answer(case.instance, "no", text)
    longest = max(seen, key=lambda column: seen[column]) if seen else None
    evidence = (
        *(Evidence(_(_QUEUES[column][1]), most, "requests") for column, most in seen.items()),
        Evidence(_("one transfer, while they were long"), rounded(r["transfer_held_s"]), "s"),
        Evidence(_("one transfer, at its fastest"), rounded(r["transfer_usual_s"]), "s"),
        Evidence(_("failed transfers and handshakes"), whole(r["transfer_failures"]), ""),
        Evidence(_("other side's usage, highest"), rounded(r["other_usage_max"]), "share"),
    )
    if longest is None or not seen[longest]:
        return q.answer(case.instance, "no", _("Disaggregated, and none of its queues held a request."), evidence)
    held = _(
        _LONGEST.get(r["role"], _LONGEST[None]),
        queue=_(_QUEUES[longest][0]), requests=say.count(seen[longest], "request"),
    )  # fmt: skip
    return q.answer(case.instance, "partly", say.sentences((held, _transfers(r), _other(r))), evidence, q.missing(case.engine))


def _transfers(r: Row) -> str:
    if r["transfer_held_s"] is None or r["transfer_usual_s"] is None:
        return ""
    return _(
        "A transfer took {mean} on average then, and {fastest} at its fastest.",
        mean=say.seconds(r["transfer_held_s"]), fastest=say.seconds(r["transfer_usual_s"]),
    )  # fmt: skip


def _other(r: Row) -> str:
    if r["other_instance"] is None:
        return ""
    longest = max(r["other_prealloc_max"] or 0, r["other_transfer_max"] or 0, r["other_inflight_max"] or 0)
    return _(_OTHER[r["other_role"]], usage=say.share(r["other_usage_max"]), requests=say.count(longest, "request"))
