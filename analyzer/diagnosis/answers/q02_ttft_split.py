"""Question 2: where did TTFT go?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.model import Answer, Answered, Evidence
from analyzer.diagnosis.numbers import rounded, whole
from analyzer.diagnosis.questions import questions
from analyzer.language import N_, _

# From this part of the mean TTFT on, what is left over does not matter.
_ACCOUNTED = 0.9
_TOLD_BY = {"requests": N_("requests"), "histograms": N_("histograms"), "estimate": N_("estimate")}


def answer(case: Case) -> Answered:
    q = questions()["ttft_split"]
    r = case.row("ttft_split")
    if r["queue_s"] is None or (r["ttft_mean_s"] is None and not case.queue_broke):
        text = _("The capture has no per-request times, so TTFT cannot be taken apart.")
        return q.answer(case.instance, "cannot_tell", text, missing=q.missing(case.engine))
    # an estimate that is more than what was measured is no part of it
    if r["split_source"] == "estimate" and r["over_s"] and r["over_s"] > (1 - _ACCOUNTED) * r["ttft_mean_s"]:
        text = _(
            "The queue's part is estimated at {queue}, which is more than the mean TTFT of {ttft} of the requests that got a first token, "
            "so how it divides is not known.",
            queue=say.seconds(r["queue_s"]), ttft=say.seconds(r["ttft_mean_s"]),
        )  # fmt: skip
        return q.answer(case.instance, "cannot_tell", text, _evidence(case, r), q.missing(case.engine))
    sentences = [_told(r), _from(r), *_inside(r)]
    if r["split_source"] != "estimate" and r["over_s"]:
        sentences.append(
            _("These parts add up to {over} more than the mean TTFT, as they count other requests.", over=say.seconds(r["over_s"]))
        )
    known = r["split_source"] == "requests" and r["prefill_source"] == "requests" and r["rest_share"] is not None
    accounted = known or (r["rest_share"] is not None and r["rest_share"] <= 1 - _ACCOUNTED)
    told: Answer = "yes" if accounted else "partly"
    missing = () if accounted else q.missing(case.engine)
    return q.answer(case.instance, told, say.sentences(sentences), _evidence(case, r), missing)


def _told(r: Row) -> str:
    """The parts that follow each other, each with its share where TTFT is known."""
    estimated = r["prefill_source"] == "estimate"
    parts = [
        _part(N_("{seconds} in the queue"), N_("{seconds} in the queue ({share})"), r["queue_s"], r["queue_share"]),
        _part(N_("at most {seconds} in prefill"), N_("at most {seconds} in prefill ({share})"), r["prefill_s"], r["prefill_share"])
        if estimated
        else _part(N_("{seconds} in prefill"), N_("{seconds} in prefill ({share})"), r["prefill_s"], r["prefill_share"]),
        _part(N_("{seconds} in KV transfer"), N_("{seconds} in KV transfer ({share})"), r["transfer_s"], r["transfer_share"]),
    ]
    if r["rest_s"] and r["rest_share"] >= 0.005:
        parts.append(
            _part("", N_("{seconds} for the rest ({share})"), r["rest_s"], r["rest_share"])
            if r["prefill_s"] is not None
            else _part("", N_("{seconds} for prefill and the rest ({share})"), r["rest_s"], r["rest_share"])
        )
    listed = say.listed(parts)
    if r["ttft_mean_s"] is None:
        return _("TTFT was not recorded; of it went on average: {parts}.", parts=listed)
    return _("Of a mean TTFT of {ttft}: {parts}.", ttft=say.seconds(r["ttft_mean_s"]), parts=listed)


def _part(plain: str, with_share: str, seconds: float | None, share: float | None) -> str:
    if seconds is None:
        return ""
    return _(plain if share is None else with_share, seconds=say.seconds(seconds), share=_percent(share))


def _percent(share: float | None) -> str:
    """Whole percent: these are means of a whole incident."""
    if share is None:
        return ""
    return _("under 1 %") if 0 < share < 0.005 else f"{share * 100:.0f} %"


def _from(r: Row) -> str:
    n = say.count(r["requests_n"], "request")
    if r["split_source"] == "requests":
        return _("This is by the times of {requests}.", requests=n)
    if r["split_source"] == "histograms":
        return _("This is by histograms of {requests} that ended or got their first token then.", requests=n)
    return _("The queue's part is an estimate: all waiting together, over {requests} that were admitted.", requests=n)


def _inside(r: Row) -> list[str]:
    """Parts that lie inside the others."""
    sentences = []
    if r["l2_load_s"]:
        sentences.append(_("Loads from L2 took {seconds} of that for each request.", seconds=say.seconds(r["l2_load_s"])))
    if r["recompute_s"]:
        sentences.append(
            _(
                "Up to {tokens} computed again after retractions or preemptions took an estimated {seconds} of it for each request.",
                tokens=say.count(r["recomputed_tokens"], "token"), seconds=say.seconds(r["recompute_s"]),
            )
        )  # fmt: skip
    return sentences


def _evidence(case: Case, r: Row) -> tuple[Evidence, ...]:
    window = case.window
    seconds = (
        (_("TTFT, mean"), "ttft_mean_s"), (_("queue, mean"), "queue_s"), (_("queue, median"), "queue_p50_s"),
        (_("queue, P99"), "queue_p99_s"), (_("prefill, mean"), "prefill_s"), (_("KV transfer, mean"), "transfer_s"),
        (_("rest, mean"), "rest_s"), (_("L2 load, mean"), "l2_load_s"), (_("recompute, mean (estimate)"), "recompute_s"),
    )  # fmt: skip
    shares = (
        (_("queue, share of TTFT"), "queue_share"), (_("prefill, share of TTFT"), "prefill_share"),
        (_("rest, share of TTFT"), "rest_share"),
    )  # fmt: skip
    told = [Evidence(name, rounded(r[column]), "s", window.start, window.end) for name, column in seconds if r[column] is not None]
    told += [Evidence(name, rounded(r[column]), "share", window.start, window.end) for name, column in shares if r[column] is not None]
    return (
        Evidence(_("told by"), _(_TOLD_BY[r["split_source"]])),
        *told,
        Evidence(_("requests"), whole(r["requests_n"]), "requests", window.start, window.end),
    )
