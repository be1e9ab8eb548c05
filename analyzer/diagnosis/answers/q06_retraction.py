"""Question 6: did the engine retract or preempt?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["retracted"]
    nothing = no_reports(case, "retracted")
    r = case.row("retracted")
    if nothing and not (r["retraction_events"] or r["preemptions"]):
        return nothing
    evidence = (
        Evidence(
            "retraction events",
            r["retraction_events"],
            "events",
            r["first_ts"],
            r["last_ts"],
            r["source"] or "",
        ),
        Evidence("retracted requests", r["retracted_requests"], "requests"),
        Evidence("preemptions", r["preemptions"], "", r["first_ts"], r["last_ts"]),
        Evidence("new_token_ratio, lowest before", rounded(r["ratio_min"]), ""),
        Evidence("new_token_ratio, highest after", rounded(r["ratio_max"]), ""),
    )
    if r["retraction_events"]:
        return q.answer(
            case.instance, "yes",
            f"{say.count(r['retraction_events'], 'retraction')} threw {say.count(r['retracted_requests'], 'request')} out "
            f"{say.span(r['first_ts'], r['last_ts'])}; their tokens were computed again.", evidence,
        )  # fmt: skip
    if r["visible"] == "counter" and r["retracted_requests"]:
        return q.answer(
            case.instance, "yes",
            f"{say.count(r['retracted_requests'], 'request')} were retracted {say.span(r['first_ts'], r['last_ts'])}, by the engine's "
            "counter; their tokens were computed again.", evidence,
        )  # fmt: skip
    if r["visible"] == "counter" and r["preemptions"]:
        return q.answer(
            case.instance, "yes",
            f"{say.count(r['preemptions'], 'preemption')} {say.span(r['first_ts'], r['last_ts'])}, by the engine's counter; it moves when "
            "the request goes on, not when it is thrown out.", evidence,
        )  # fmt: skip
    if r["preemptions"]:
        return q.answer(
            case.instance, "yes",
            f"At least {say.count(r['preemptions'], 'preemption')} by the engine's own running count, which it prints at every fiftieth.",
            evidence,
        )  # fmt: skip
    if r["gauge_max"]:
        return q.answer(
            case.instance, "yes",
            f"At least {say.count(r['gauge_max'], 'request')} in one go: the gauge is overwritten by each retraction and reset by each "
            "report, so it proves some and counts none.", (*evidence, Evidence("gauge, highest", whole(r["gauge_max"]), "requests")),
            q.missing(case.engine),
        )  # fmt: skip
    if r["visible"] == "counter":
        return q.answer(case.instance, "no", "None: the engine's counter did not move.", evidence)
    if r["visible"] == "each":
        return q.answer(case.instance, "no", "None: this engine prints every retraction, and there is none.", evidence)
    if case.engine == "sglang" or r["visible"] == "gauge":
        why = "Neither a counter of retractions nor the log's own lines are in the capture; the gauge between two scrapes proves nothing."
        return q.answer(case.instance, "cannot_tell", why, (), q.missing(case.engine))
    why = (
        "vLLM V1 prints no preemption, so the log's silence proves nothing."
        if r["visible"] == "never"
        else "vLLM V0 prints only every fiftieth preemption, and none of those is in the log: there may have been up to 49."
    )
    return q.answer(case.instance, "cannot_tell", why, (), q.missing(case.engine))
