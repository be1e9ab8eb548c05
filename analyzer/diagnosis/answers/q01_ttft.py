"""Question 1: did TTFT break, when, and how badly?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import finite, rounded
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

# Who saw the requests of which TTFT is known.
_OBSERVERS = {"client": N_("client"), "frontend": N_("front end"), "engine": N_("engine")}


def answer(case: Case) -> Answered:
    q = questions()["ttft_broke"]
    r = case.row("ttft_broke")
    if r["ttft_n"]:
        return _ttft_known(case, r)
    if not case.reports:
        return q.answer(case.instance, "cannot_tell", _("Neither TTFT nor a queue was recorded."), missing=q.missing(case.engine))
    return q.answer(case.instance, "cannot_tell", _queue(case, r), _queue_evidence(r), q.missing(case.engine))


def _queue(case: Case, r: Row) -> str:
    """What the queue tells where TTFT was not recorded."""
    waited = say.count(r["waiting_peak"], "request")
    if case.queue_broke:
        if r["wait_est_peak_s"] is None:
            return _(
                "TTFT was not recorded. The queue broke {when}: up to {requests} waited; how long a request waited in it cannot be "
                "estimated.",
                when=case.when(), requests=waited,
            )  # fmt: skip
        return _(
            "TTFT was not recorded. The queue broke {when}: up to {requests} waited; a request that joined the queue waited an estimated "
            "{median} at the median and {worst} at worst (an estimate of queueing, not TTFT).",
            when=case.when(), requests=waited, median=say.seconds(r["wait_est_p50_s"]), worst=say.seconds(r["wait_est_peak_s"]),
        )  # fmt: skip
    if r["waiting_peak"] and case.reports < case.limits["min_reports"]:
        return _(
            "TTFT was not recorded. {requests} waited, and with {reports} nothing tells for how long.",
            requests=waited, reports=say.count(case.reports, "report"),
        )  # fmt: skip
    if r["waiting_peak"]:
        return _("TTFT was not recorded. The queue did not break: at most {requests} waited, and only for moments.", requests=waited)
    if r["throughput_broke"]:
        return _(
            "TTFT was not recorded, and no report tells how many requests were waiting. Generation throughput fell to less than {share} of "
            "the usual {when} while requests ran.",
            share=say.share(case.limits["throughput_fall"]), when=case.when(),
        )  # fmt: skip
    if not case.waiting_reports:
        return _("TTFT was not recorded, and no report tells how many requests were waiting.")
    return _("TTFT was not recorded. No report shows a waiting request, so no wait in the queue is in it.")


def _queue_evidence(r: Row) -> tuple[Evidence, ...]:
    if not r["waiting_peak"]:
        return ()
    inside = (r["start_ts"], r["end_ts"])
    return (
        Evidence(_("waiting, highest"), r["waiting_peak"], "requests", *inside, r["waiting_peak_source"] or ""),
        Evidence(_("estimated queue wait, highest"), rounded(r["wait_est_peak_s"]), "s", *inside),
        Evidence(_("estimated queue wait, median"), rounded(r["wait_est_p50_s"]), "s", *inside),
    )


def _ttft_known(case: Case, r: Row) -> Answered:
    q = questions()["ttft_broke"]
    inside, outside = finite(r["ttft_p99_inside_s"]), finite(r["ttft_p99_outside_s"])
    worst = inside if inside is not None else finite(r["ttft_p99_s"])
    evidence = _ttft_evidence(r)
    limit, factor = case.limits["ttft_s"], case.limits["ttft_factor"]
    before = outside if inside is not None else None
    at_least = finite(r["ttft_p99_at_least_s"])
    if worst is None:
        if not r["censored_n"]:
            text = _("The histograms rose by too little to read a percentile from.")
            return q.answer(case.instance, "cannot_tell", text, evidence, q.missing(case.engine))
        if at_least is None or at_least <= limit:
            text = _(
                "The P99 falls among the {requests} that were still pending at the end.", requests=say.count(r["censored_n"], "request")
            )
            return q.answer(case.instance, "cannot_tell", text, evidence, q.missing(case.engine))
        return q.answer(case.instance, "yes", say.sentences((_pending(r, at_least, before), _finished(r))), evidence)
    # a P99 that was bad before and after as well was bad all the time
    broke = worst > limit and (outside is None or outside > limit or worst > factor * outside)
    if before is None:
        text = _("P99 TTFT was {worst} ({source}).", worst=say.seconds(worst), source=_source(r))
    else:
        text = _(
            "P99 TTFT was {worst}, against {outside} before and after ({source}).",
            worst=say.seconds(worst), outside=say.seconds(before), source=_source(r),
        )  # fmt: skip
    return q.answer(case.instance, "yes" if broke else "no", text, evidence)


def _pending(r: Row, at_least: float, before: float | None) -> str:
    """The least that the P99 can be, where the request that it falls on was pending at the end."""
    pending, least = say.count(r["censored_n"], "request"), say.seconds(at_least)
    if before is None:
        return _(
            "P99 TTFT was at least {least}: it falls among the {requests} that were still pending at the end.",
            least=least, requests=pending,
        )  # fmt: skip
    return _(
        "P99 TTFT was at least {least}, against {outside} before and after: it falls among the {requests} that were still pending at the "
        "end.",
        least=least, outside=say.seconds(before), requests=pending,
    )  # fmt: skip


def _finished(r: Row) -> str:
    return _(
        "Of the {n} that got a first token, as the {observer} saw them, the median took {median} and the P99 {p99}.",
        n=say.count(r["ttft_n"]), observer=_observer(r), median=say.seconds(r["ttft_p50_finished_s"]),
        p99=say.seconds(r["ttft_p99_finished_s"]),
    )  # fmt: skip


def _source(r: Row) -> str:
    """What the P99 was read from, and how exact it is."""
    requests = say.count(r["ttft_n"], "request")
    if r["observer"] != "histogram":
        if r["censored_n"]:
            return _(
                "exact, from {requests} as the {observer} saw them, and {pending} still pending",
                requests=requests, observer=_observer(r), pending=say.count(r["censored_n"]),
            )  # fmt: skip
        return _("exact, from {requests} as the {observer} saw them", requests=requests, observer=_observer(r))
    low, high = say.seconds(r["ttft_p99_low_s"]), finite(r["ttft_p99_high_s"])
    if high is None:
        return _("from histograms of {requests}; it lies above {low}", requests=requests, low=low)
    return _("from histograms of {requests}; it lies between {low} and {high}", requests=requests, low=low, high=say.seconds(high))


def _observer(r: Row) -> str:
    observer: str = r["observer"]
    return _(_OBSERVERS.get(observer, observer))


def _ttft_evidence(r: Row) -> tuple[Evidence, ...]:
    by_histogram = r["observer"] == "histogram"
    return (
        Evidence(_("TTFT P99 in the incident"), rounded(finite(r["ttft_p99_inside_s"])), "s", r["start_ts"], r["end_ts"]),
        Evidence(_("TTFT P99 outside it"), rounded(finite(r["ttft_p99_outside_s"])), "s"),
        *(
            (
                Evidence(_("bucket of the P99, from"), rounded(r["ttft_p99_low_s"]), "s"),
                Evidence(_("bucket of the P99, to"), rounded(finite(r["ttft_p99_high_s"])), "s"),
            )
            if by_histogram
            else (
                Evidence(_("TTFT P50, finished requests only"), rounded(r["ttft_p50_finished_s"]), "s"),
                Evidence(_("TTFT P99, finished requests only"), rounded(r["ttft_p99_finished_s"]), "s"),
                Evidence(_("requests still pending"), r["censored_n"], "requests"),
            )
        ),
        Evidence(_("requests with TTFT"), r["ttft_n"], "requests"),
    )
