"""Question 1: did TTFT break, when, and how badly?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import finite, rounded
from analyzer.diagnosis.questions import questions
from analyzer.language import _


def answer(case: Case) -> Answered:
    q = questions()["ttft_broke"]
    r = case.row("ttft_broke")
    if r["ttft_n"]:
        return _ttft_known(case, r)
    evidence: tuple[Evidence, ...] = ()
    if not case.reports:
        return q.answer(
            case.instance,
            "cannot_tell",
            "Neither TTFT nor a queue was recorded.",
            missing=q.missing(case.engine),
        )
    if r["waiting_peak"]:
        evidence = (
            Evidence(
                "waiting, highest",
                r["waiting_peak"],
                "requests",
                r["start_ts"],
                r["end_ts"],
                r["waiting_peak_source"] or "",
            ),
            Evidence("estimated queue wait, highest", rounded(r["wait_est_peak_s"]), "s", r["start_ts"], r["end_ts"]),
            Evidence("estimated queue wait, median", rounded(r["wait_est_p50_s"]), "s", r["start_ts"], r["end_ts"]),
        )
    if case.queue_broke:
        wait = r["wait_est_peak_s"]
        estimate = (
            f"a request that joined the queue waited an estimated {say.seconds(r['wait_est_p50_s'])} at the median and "
            f"{say.seconds(wait)} at worst"
            if wait is not None
            else "how long a request waited in it cannot be estimated"
        )
        text = (
            f"TTFT was not recorded. The queue broke {case.when()}: up to {say.count(r['waiting_peak'], 'request')} waited; "
            f"{estimate} (an estimate of queueing, not TTFT)."
        )
    elif r["waiting_peak"] and case.reports < case.limits["min_reports"]:
        text = (
            f"TTFT was not recorded. {say.count(r['waiting_peak'], 'request')} waited, and with {say.count(case.reports, 'report')} "
            "nothing tells for how long."
        )
    elif r["waiting_peak"]:
        text = (
            f"TTFT was not recorded. The queue did not break: at most {say.count(r['waiting_peak'], 'request')} waited, "
            "and only for moments."
        )
    elif r["throughput_broke"]:
        text = _(
            "TTFT was not recorded, and no report tells how many requests were waiting. Generation throughput fell to less than {share} of "
            "the usual {when} while requests ran.",
            share=say.share(case.limits["throughput_fall"]), when=case.when(),
        )  # fmt: skip
    elif not case.waiting_reports:
        text = "TTFT was not recorded, and no report tells how many requests were waiting."
    else:
        text = "TTFT was not recorded. No report shows a waiting request, so no wait in the queue is in it."
    return q.answer(case.instance, "cannot_tell", text, evidence, q.missing(case.engine))


def _ttft_known(case: Case, r: Row) -> Answered:
    q = questions()["ttft_broke"]
    inside, outside = finite(r["ttft_p99_inside_s"]), finite(r["ttft_p99_outside_s"])
    worst = inside if inside is not None else finite(r["ttft_p99_s"])
    by_histogram = r["observer"] == "histogram"
    evidence = (
        Evidence("TTFT P99 in the incident", rounded(inside), "s", r["start_ts"], r["end_ts"]),
        Evidence("TTFT P99 outside it", rounded(outside), "s"),
        *(
            (
                Evidence("bucket of the P99, from", rounded(r["ttft_p99_low_s"]), "s"),
                Evidence("bucket of the P99, to", rounded(finite(r["ttft_p99_high_s"])), "s"),
            )
            if by_histogram
            else (
                Evidence("TTFT P50, finished requests only", rounded(r["ttft_p50_finished_s"]), "s"),
                Evidence("TTFT P99, finished requests only", rounded(r["ttft_p99_finished_s"]), "s"),
                Evidence("requests still pending", r["censored_n"], "requests"),
            )
        ),
        Evidence("requests with TTFT", r["ttft_n"], "requests"),
    )
    limit, factor = case.limits["ttft_s"], case.limits["ttft_factor"]
    against = f", against {say.seconds(outside)} before and after" if outside and inside is not None else ""
    if by_histogram:
        source = f"from histograms of {say.count(r['ttft_n'], 'request')}; it lies {_band(r)}"
    else:
        source = f"exact, from {say.count(r['ttft_n'], 'request')} as the {r['observer']} saw them"
        if r["censored_n"]:
            source += f", and {say.count(r['censored_n'])} still pending"
    at_least = finite(r["ttft_p99_at_least_s"])
    if worst is None:
        if not r["censored_n"]:
            text = "The histograms rose by too little to read a percentile from."
            return q.answer(case.instance, "cannot_tell", text, evidence, q.missing(case.engine))
        if at_least is None or at_least <= limit:
            return q.answer(
                case.instance, "cannot_tell",
                f"The P99 falls among the {say.count(r['censored_n'], 'request')} that were still pending at the end.", evidence,
                q.missing(case.engine),
            )  # fmt: skip
        text = (
            f"P99 TTFT was at least {say.seconds(at_least)}{against}: it falls among the {say.count(r['censored_n'], 'request')} that were "
            f"still pending at the end. Of the {say.count(r['ttft_n'])} that got a first token, as the {r['observer']} saw them, the "
            f"median took {say.seconds(r['ttft_p50_finished_s'])} and the P99 {say.seconds(r['ttft_p99_finished_s'])}."
        )
        return q.answer(case.instance, "yes", text, evidence)
    # a P99 that was bad before and after as well was bad all the time
    broke = worst > limit and (outside is None or outside > limit or worst > factor * outside)
    return q.answer(case.instance, "yes" if broke else "no", f"P99 TTFT was {say.seconds(worst)}{against} ({source}).", evidence)


def _band(r: Row) -> str:
    low, high = r["ttft_p99_low_s"], finite(r["ttft_p99_high_s"])
    return f"above {say.seconds(low)}" if high is None else f"between {say.seconds(low)} and {say.seconds(high)}"
