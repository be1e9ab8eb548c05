"""Question 12: which side of a disaggregated server held requests?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row, no_reports
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
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
    evidence = (
        *(Evidence(f"{k} queue, highest", v, "requests") for k, v in seen.items()),
        Evidence("one transfer, while they were long", rounded(r["transfer_held_s"]), "s"),
        Evidence("one transfer, at its fastest", rounded(r["transfer_usual_s"]), "s"),
        Evidence("failed transfers and handshakes", whole(r["transfer_failures"]), ""),
        Evidence("other side's usage, highest", rounded(r["other_usage_max"]), "share"),
    )
    if longest is None or not seen[longest]:
        return q.answer(case.instance, "no", "Disaggregated, and none of its queues held a request.", evidence)
    return q.answer(
        case.instance, "partly",
        f"The {r['role'] or 'reporting'} side's longest queue was {longest}, with up to {say.count(seen[longest], 'request')}."
        f"{_transfers(r)}{_other(r)}", evidence,
        q.missing(case.engine),
    )  # fmt: skip


def _transfers(r: Row) -> str:
    if r["transfer_held_s"] is None or r["transfer_usual_s"] is None:
        return ""
    return f" A transfer took {say.seconds(r['transfer_held_s'])} on average then, and {say.seconds(r['transfer_usual_s'])} at its fastest."


def _other(r: Row) -> str:
    if r["other_instance"] is None:
        return ""
    longest = max(r["other_prealloc_max"] or 0, r["other_transfer_max"] or 0, r["other_inflight_max"] or 0)
    return (
        f" The {r['other_role']} side is in the capture too: its pool was used to at most {say.share(r['other_usage_max'])}, and "
        f"its longest queue held {say.count(longest, 'request')}."
    )
