"""Question 2: where did TTFT go?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["ttft_split"]
    r = case.row("ttft_split")
    if r["requests_with_queue"]:
        prefill = f", in prefill {say.seconds(r['prefill_p50_s'])} at the median" if r["prefill_p50_s"] is not None else ""
        return q.answer(
            case.instance,
            "partly",
            f"In the queue {say.seconds(r['queue_p50_s'])} at the median and {say.seconds(r['queue_p99_s'])} at P99{prefill}, by "
            f"{say.count(r['requests_with_queue'], 'request')}; recompute and loads are not told apart.",
            (
                Evidence("queue wait, median", rounded(r["queue_p50_s"]), "s"),
                Evidence("queue wait, P99", rounded(r["queue_p99_s"]), "s"),
                Evidence("prefill, median", rounded(r["prefill_p50_s"]), "s"),
                Evidence("requests", r["requests_with_queue"], "requests"),
            ),
            q.missing(case.engine),
        )
    if r["queue_mean_s"] is not None:
        return _stages(case, r)
    estimate = r["queue_est_p50_s"]
    text = "The capture has no per-request times, so TTFT cannot be taken apart."
    evidence: tuple[Evidence, ...] = ()
    if case.broke and estimate is not None:
        text += f" The queue's part alone is estimated at {say.seconds(estimate)} (median in the incident)."
        evidence = (Evidence("estimated queue wait, median", rounded(estimate), "s"),)
    return q.answer(case.instance, "cannot_tell", text, evidence, q.missing(case.engine))


def _stages(case: Case, r: Row) -> Answered:
    """Means by stage, from the sums and counts of histograms."""
    q = questions()["ttft_split"]
    parts = [f"in the queue {say.seconds(r['queue_mean_s'])}"]
    if r["prefill_mean_s"] is not None:
        parts.append(f"in prefill {say.seconds(r['prefill_mean_s'])}")
    if r["l2_load_mean_s"] is not None:
        parts.append(f"an L2 load {say.seconds(r['l2_load_mean_s'])}")
    of_all = f" of a mean TTFT of {say.seconds(r['ttft_mean_s'])}" if r["ttft_mean_s"] is not None else ""
    return q.answer(
        case.instance, "partly",
        f"On average {', '.join(parts)}{of_all}, by histograms of {say.count(r['histogram_n'], 'request')} that ended or got their first "
        "token in the incident; what a retraction or preemption added to the wait is in prefill.",
        (
            Evidence("queue wait, mean", rounded(r["queue_mean_s"]), "s"),
            Evidence("prefill, mean", rounded(r["prefill_mean_s"]), "s"),
            Evidence("TTFT, mean", rounded(r["ttft_mean_s"]), "s"),
            Evidence("L2 load, mean", rounded(r["l2_load_mean_s"]), "s"),
            Evidence("requests", whole(r["histogram_n"]), "requests"),
        ),
    )  # fmt: skip
