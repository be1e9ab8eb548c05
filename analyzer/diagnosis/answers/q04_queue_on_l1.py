"""Question 4: was the queue waiting on the pool, or on its reservation?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["queue_on_l1"]
    nothing = no_reports(case, "queue_on_l1")
    if nothing:
        return nothing
    r = case.row("queue_on_l1")
    if not case.broke:
        return q.answer(case.instance, "no", "No queue broke, so nothing waited on L1.")
    shares = case.queue_shares()
    parts = (
        ("l1", "with L1 full"),
        ("gap", "with room, but the next request did not fit"),
        ("reservation", "on the reservation, with room in the pool"),
        ("cap", "at the cap"),
        ("prefill", "with prefill saturated"),
        ("unexplained", "unexplained"),
    )
    evidence = (
        *(Evidence(f"waiting time {said}", rounded(r[f"{name}_s"]), "s", r["start_ts"], r["end_ts"]) for name, said in parts),
        Evidence("usual prompt", whole(r["usual_prompt_tokens"]), "tokens"),
        Evidence("free or evictable tokens while waiting, median", whole(r["free_tokens_p50"]), "tokens"),
    )
    if not shares:
        return q.answer(
            case.instance,
            "cannot_tell",
            "Requests waited, but too few reports tell what for.",
            evidence,
            q.missing(case.engine),
        )
    on_l1, reserved = shares["l1"] + shares["gap"], shares["reservation"]
    dominant = case.limits["dominant_share"]
    if on_l1 >= dominant:
        return q.answer(
            case.instance, "yes",
            f"For {say.share(on_l1)} of the time in which the queue was held, the pool had no room for the next request.", evidence,
        )  # fmt: skip
    if on_l1 + reserved >= dominant and reserved > 0:
        return q.answer(
            case.instance, "yes",
            f"The reservation held it: for {say.share(reserved)} of the time the next request would have fitted (usage "
            f"{say.share(r['usage_reservation_p50'])} at the median), but the admission budget was spent."
            + (f" For another {say.share(on_l1)} the pool itself was full." if on_l1 >= 0.05 else ""), evidence,
        )  # fmt: skip
    if on_l1 + reserved >= dominant / 2:
        return q.answer(
            case.instance,
            "partly",
            f"For {say.share(on_l1 + reserved)} of the time; the rest had other reasons.",
            evidence,
        )
    if shares["unexplained"] + shares["stalled"] >= dominant:
        return q.answer(
            case.instance, "cannot_tell", "The pool had room by the reports, and no other reason shows either.", evidence,
            q.missing(case.engine),
        )  # fmt: skip
    return q.answer(case.instance, "no", "The pool had room for the next request while the queue was held.", evidence)
