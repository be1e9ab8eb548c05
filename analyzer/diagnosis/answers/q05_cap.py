"""Question 5: was it waiting on a cap?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["queue_on_cap"]
    nothing = no_reports(case, "queue_on_cap")
    if nothing:
        return nothing
    r = case.row("queue_on_cap")
    if not case.broke:
        return q.answer(case.instance, "no", "No queue broke, so no cap held anything back.")
    shares = case.queue_shares()
    evidence = (
        Evidence("cap", whole(r["cap"]), "requests", source=r["cap_source"] or ""),
        Evidence("running while requests waited, highest", whole(r["running_max"]), "requests"),
        Evidence("waiting time at the cap with room in the pool", rounded(r["cap_s"] or 0.0), "s"),
    )
    if r["cap"] is None:
        if (r["plateau_share"] or 0) >= case.limits["plateau_share"] and (r["running_max"] or 0) >= 2 and r["reports"] >= 5:
            return q.answer(
                case.instance, "cannot_tell",
                f"The cap is not in the capture, but running stood at exactly {r['running_max']} in "
                f"{say.share(r['plateau_share'])} of the waiting reports, as it does at a cap.", evidence, q.missing(case.engine),
            )  # fmt: skip
        return q.answer(
            case.instance,
            "cannot_tell",
            "The capture does not tell the cap on running requests.",
            evidence,
            q.missing(case.engine),
        )
    at_cap = shares.get("cap", 0.0)
    if at_cap >= case.limits["dominant_share"]:
        return q.answer(
            case.instance, "yes",
            f"Running stood at the cap of {say.count(r['cap'])} for {say.share(at_cap)} of the time in which the queue was held, "
            f"with the pool used to at most {say.share(r['usage_max'])}.", evidence,
        )  # fmt: skip
    if at_cap >= case.limits["dominant_share"] / 2:
        text = f"Running was at the cap of {say.count(r['cap'])} for {say.share(at_cap)} of the time."
        return q.answer(case.instance, "partly", text, evidence)
    return q.answer(
        case.instance, "no", f"Running reached {say.count(r['running_max'])} while requests waited; the cap is {say.count(r['cap'])}.",
        evidence,
    )  # fmt: skip
