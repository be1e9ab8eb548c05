"""Question 3: was the KV pool in HBM full?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

_NEVER = N_("The pool was used to {usage} at {clock}: never full.")
_NO_INCIDENT = N_("The pool was used to {usage} at {clock}, but no queue to speak of formed: full without an incident.")
_FULL = N_(
    "The pool was used to {usage} at {clock}; while requests waited, usage was {median} at the median, and full for {full} of {waiting}."
)
_OF_POOL = N_("The fullest pool was the {pool} one; that of full attention was used to at most {full}.")
_CAPACITY = N_("Its size is {capacity}.")
_STATES = N_("When it was used most, {evictable} more were cache that goes on demand and {available} were empty.")
_STATES_INSIDE = N_("Over the incident, on average {used} were used, {evictable} evictable and {available} empty.")
_STATES_UNKNOWN = N_("Nothing in this capture tells cached from empty tokens, so how much of the rest was cache is unknown.")


def answer(case: Case) -> Answered:
    q = questions()["l1_full"]
    r = case.row("l1_full")
    if r["usage_max"] is None:
        return no_reports(case, "l1_full") or q.answer(
            case.instance, "cannot_tell", _("No report carries KV usage."), missing=q.missing(case.engine)
        )
    top = {"usage": say.share(r["usage_max"]), "clock": say.clock(r["usage_max_ts"])}
    if r["usage_max"] < case.limits["full_usage"] and (few := no_reports(case, "l1_full")):
        # A moment with room in the pool does not show that there always was.
        return few
    if r["usage_max"] < case.limits["full_usage"]:
        return q.answer(case.instance, "no", say.sentences([_(_NEVER, **top), *_more(r)]), _evidence(case))
    if not case.queue_broke or not r["full_waiting_s"]:
        return q.answer(case.instance, "partly", say.sentences([_(_NO_INCIDENT, **top), *_more(r)]), _evidence(case))
    sentence = _(
        _FULL, **top, median=say.share(r["usage_waiting_p50"]), full=say.seconds(r["full_waiting_s"]), waiting=say.seconds(r["waiting_s"])
    )
    return q.answer(case.instance, "yes", say.sentences([sentence, *_more(r)]), _evidence(case))


def _evidence(case: Case) -> tuple[Evidence, ...]:
    r, window = case.row("l1_full"), case.window
    inside = (window.start, window.end)
    return (
        Evidence(
            _("KV usage, highest"), rounded(r["usage_max"]), "share", r["usage_max_ts"], r["usage_max_ts"], r["usage_max_source"] or ""
        ),
        Evidence(_("the fullest pool"), say.pool(r["fullest_pool"]), ""),
        Evidence(_("usage of the full-attention pool, highest"), rounded(r["kv_usage_max"]), "share"),
        Evidence(_("usage of the sliding-window pool, highest"), rounded(r["swa_usage_max"]), "share"),
        Evidence(_("usage of the mamba pool, highest"), rounded(r["mamba_usage_max"]), "share"),
        Evidence(_("KV usage while requests waited, median"), rounded(r["usage_waiting_p50"]), "share", *inside),
        Evidence(_("KV usage while requests waited, 10th percentile"), rounded(r["usage_waiting_p10"]), "share", *inside),
        Evidence(_("time at or above the full mark"), rounded(r["full_s"] or 0.0), "s"),
        Evidence(_("capacity"), whole(r["capacity_tokens"]), "tokens", source=r["capacity_source"] or ""),
        Evidence(_("used, highest"), whole(r["used_at_max_tokens"]), "tokens"),
        Evidence(_("evictable when used most"), whole(r["evictable_at_max_tokens"]), "tokens"),
        Evidence(_("available when used most"), whole(r["available_at_max_tokens"]), "tokens"),
        Evidence(_("used in the incident, mean"), whole(r["used_mean_tokens"]), "tokens", *inside),
        Evidence(_("evictable in the incident, mean"), whole(r["evictable_mean_tokens"]), "tokens", *inside),
        Evidence(_("available in the incident, mean"), whole(r["available_mean_tokens"]), "tokens", *inside),
    )


def _more(r: Row) -> list[str]:
    """Which pool, how large it is, and what its unused part held, as far as that is known."""
    said = []
    if r["fullest_pool"] not in (None, "full attention"):
        said.append(_(_OF_POOL, pool=say.pool(r["fullest_pool"]), full=say.share(r["kv_usage_max"])))
    if r["capacity_tokens"]:
        said.append(_(_CAPACITY, capacity=say.count(r["capacity_tokens"], "token")))
    evictable, available = r["evictable_at_max_tokens"], r["available_at_max_tokens"]
    if evictable is None or available is None:
        return [*said, _(_STATES_UNKNOWN)]
    said.append(_(_STATES, evictable=say.count(evictable, "token"), available=say.count(available)))
    if r["used_mean_tokens"] is not None:
        said.append(
            _(
                _STATES_INSIDE,
                used=say.count(r["used_mean_tokens"], "token"),
                evictable=say.count(r["evictable_mean_tokens"]),
                available=say.count(r["available_mean_tokens"]),
            )
        )
    return said
