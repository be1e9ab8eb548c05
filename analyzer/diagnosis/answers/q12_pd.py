"""Question 12: which side of a disaggregated server held requests?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["pd_queues"]
    nothing = no_reports(case, "pd_queues")
    if nothing:
        return nothing
    r = case.row("pd_queues")
    queues = {
        "bootstrap": r["bootstrap_max"],
        "in flight": r["inflight_max"],
        "preallocation": r["prealloc_max"],
        "transfer": r["transfer_max"],
        "KV fetch": r["kv_fetch_max"],
    }
    seen = {k: v for k, v in queues.items() if v is not None}
    if not r["pd_reports"] and not seen:
        return q.answer(
            case.instance,
            "no",
            "No report carries a queue of prefill/decode disaggregation: it was not in use.",
        )
    longest = max(seen, key=lambda k: seen[k]) if seen else None
    evidence = tuple(Evidence(f"{k} queue, highest", v, "requests") for k, v in seen.items())
    if longest is None or not seen[longest]:
        return q.answer(case.instance, "no", "Disaggregated, and none of its queues held a request.", evidence)
    return q.answer(
        case.instance, "partly",
        f"The {r['role'] or 'reporting'} side's longest queue was {longest}, with up to {say.count(seen[longest], 'request')}.", evidence,
        q.missing(case.engine),
    )  # fmt: skip
