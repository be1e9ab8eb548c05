"""Question 4: was the queue waiting on the pool, or on its reservation?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

_PARTS = (
    ("l1", N_("waiting time with L1 full")),
    ("gap", N_("waiting time with room, but the next request did not fit")),
    ("reservation", N_("waiting time on the reservation, with room in the pool")),
    ("cap", N_("waiting time at the cap")),
    ("plateau", N_("waiting time with running standing still as at a cap")),
    ("prefill", N_("waiting time with prefill saturated")),
    ("unexplained", N_("waiting time unexplained")),
)
_NO_QUEUE = N_("No queue broke, so nothing waited on L1.")
_TOO_FEW = N_("Requests waited, but too few reports tell what for.")
_POOL = N_("For {share} of the time in which the queue was held, the pool had no room for the next request.")
_RESERVED = N_(
    "The reservation held it: for {share} of the time the next request would have fitted (usage {usage} at the median), but the admission "
    "budget was spent."
)
_POOL_TOO = N_("For another {share} of the time the pool itself was full.")
_PARTLY = N_("L1 or its reservation held the queue for {share} of the time; the rest had other reasons.")
_UNKNOWN = N_("The pool had room by the reports, and no other reason shows either.")
_ROOM = N_("The pool had room for the next request while the queue was held.")
_BOUNDS = N_(
    "Of {free} free or evictable tokens admission had between {low} and {high} left (estimate: new_token_ratio between {ratio_low} and "
    "{ratio_high}), and a usual request asks for {need_low} to {need_high}."
)


def answer(case: Case) -> Answered:
    q = questions()["queue_on_l1"]
    nothing = no_reports(case, "queue_on_l1")
    if nothing:
        return nothing
    r = case.row("queue_on_l1")
    if not case.queue_broke:
        return q.answer(case.instance, "no", _(_NO_QUEUE))
    shares = case.queue_shares()
    evidence = _evidence(r)
    if not shares:
        return q.answer(case.instance, "cannot_tell", _(_TOO_FEW), evidence, q.missing(case.engine))
    on_l1, reserved = shares["l1"] + shares["gap"], shares["reservation"]
    dominant = case.limits["dominant_share"]
    if on_l1 >= dominant:
        return q.answer(case.instance, "yes", _(_POOL, share=say.share(on_l1)), evidence)
    if on_l1 + reserved >= dominant and reserved > 0:
        said = [_(_RESERVED, share=say.share(reserved), usage=say.share(r["usage_reservation_p50"])), *_bounds(r)]
        if on_l1 >= 0.05:
            said.append(_(_POOL_TOO, share=say.share(on_l1)))
        return q.answer(case.instance, "yes", say.sentences(said), evidence)
    if on_l1 + reserved >= dominant / 2:
        return q.answer(case.instance, "partly", _(_PARTLY, share=say.share(on_l1 + reserved)), evidence)
    if shares["unexplained"] + shares["stalled"] >= dominant:
        return q.answer(case.instance, "cannot_tell", _(_UNKNOWN), evidence, q.missing(case.engine))
    return q.answer(case.instance, "no", _(_ROOM), evidence)


def _evidence(r: Row) -> tuple[Evidence, ...]:
    inside = (r["start_ts"], r["end_ts"])
    return (
        *(Evidence(_(name), rounded(r[f"{state}_s"]), "s", *inside) for state, name in _PARTS),
        Evidence(_("usual prompt"), whole(r["usual_prompt_tokens"]), "tokens"),
        Evidence(_("free or evictable tokens while waiting, median"), whole(r["free_tokens_p50"]), "tokens", *inside),
        Evidence(_("reserved tokens, at least (estimate)"), whole(r["reserved_low_tokens"]), "tokens", *inside),
        Evidence(_("reserved tokens, at most (estimate)"), whole(r["reserved_high_tokens"]), "tokens", *inside),
        Evidence(_("left for admission, at least (estimate)"), whole(r["left_low_tokens"]), "tokens", *inside),
        Evidence(_("left for admission, at most (estimate)"), whole(r["left_high_tokens"]), "tokens", *inside),
        Evidence(_("new_token_ratio, at least (estimate)"), rounded(r["ratio_low"]), "", *inside),
        Evidence(_("new_token_ratio, at most (estimate)"), rounded(r["ratio_high"]), "", *inside),
    )


def _bounds(r: Row) -> list[str]:
    """What SGLang's admission formula had left, where the capture bounds it."""
    if None in (r["free_tokens_p50"], r["left_low_tokens"], r["ratio_low"], r["need_low_tokens"]):
        return []
    ratio_low, ratio_high = (f"{r[name]:.2f}" for name in ("ratio_low", "ratio_high"))
    return [
        _(
            _BOUNDS,
            free=say.count(r["free_tokens_p50"]),
            low=say.count(r["left_low_tokens"]),
            high=say.count(r["left_high_tokens"]),
            ratio_low=ratio_low,
            ratio_high=ratio_high,
            need_low=say.count(r["need_low_tokens"]),
            need_high=say.count(r["need_high_tokens"]),
        )
    ]
