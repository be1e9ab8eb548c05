"""No cause was found: an all-clear, or what stands in its way."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.causes.words import worst_ttft
from analyzer.diagnosis.model import Cause, Confidence, Finding, Window
from analyzer.diagnosis.numbers import finite
from analyzer.language import _


def nothing_broke(case: Case) -> list[Finding]:
    """What is left where no cause was found: an all-clear, or what stands in its way."""
    if case.idle and not case.row("ttft_broke")["ttft_n"]:
        return [
            finding(
                case, "insufficient_data", "low",
                _(
                    "This capture cannot tell what happened: nothing was running or waiting in any of its {reports}, so the load was over, "
                    "or had not begun.",
                    reports=say.count(case.reports, "report"),
                ),
                Window(None, None), ("ttft_broke", "queue_on_l1"),
            )
        ]  # fmt: skip
    ttft = case.row("ttft_broke")
    skew = case.row("load_skewed")
    worst = worst_ttft(ttft)
    if case.ttft_broke or (worst is not None and worst[0] > case.limits["ttft_s"]):
        return [_slow_without_queue(case)]
    left = case.ends[-1]["waiting_last"] if case.ends else None
    if (left or 0) >= case.limits["open_queue"]:
        return [
            finding(
                case, "insufficient_data", "low",
                _("The capture ends with {requests} waiting; whether that queue broke is not in it.", requests=say.count(left, "request")),
                Window(ttft["start_ts"], None), ("ttft_broke", "queue_on_l1"),
            )
        ]  # fmt: skip
    failed = ttft["errors_n"]
    if failed >= 3 and failed >= case.limits["failed_share"] * ttft["requests_n"]:
        fields = {"failed": say.count(failed), "requests": say.count(ttft["requests_n"], "request")}
        if case.has_log:
            sentence = _("No queue broke, but {failed} of {requests} failed, and the capture does not tell why.", **fields)
        else:
            sentence = _(
                "No queue broke, but {failed} of {requests} failed, and the capture does not tell why: the server's log would.", **fields
            )
        return [finding(case, "insufficient_data", "low", sentence, Window(None, None), ("ttft_broke", "outside_scheduler"))]
    peak = case.row("l1_full")["usage_max"]
    left_running = (case.ends[-1]["running_last"] or 0) if case.ends and case.ends[-1]["shutdown_ts"] is None else 0
    running = 0 if case.has_log else left_running
    # slow for most of the capture: nothing in it tells whether that is usual for this server
    token_s = (case.slow_decode or {}).get("token_median_s") or 0.0
    slow_mostly = token_s >= case.limits["decode_token_s"]
    unsure = running or slow_mostly or peak is None or not case.running_reports
    confidence: Confidence = "low" if unsure else "high" if ttft["ttft_n"] else "medium"
    said = [
        _how_quiet(ttft, say.share(peak)),
        _("{ranks} reported.", ranks=say.count(skew["ranks"], "rank")) if (skew["ranks"] or 0) > 1 else "",
        _("The capture ends with {running} running: only a log would show a crash then.", running=say.count(running)) if running else "",
        _(
            "The log ends with {running} running: a process that is killed (kill -9, OOM) writes no last line.",
            running=say.count(left_running),
        )
        if left_running and case.has_log and case.engine == "vllm"  # SGLang prints nothing when the last request has ended
        else "",
        _("At the median a token took {token}: whether that is usual for this server is not in the capture.", token=say.seconds(token_s))
        if slow_mostly
        else "",
    ]
    return [finding(case, "none", confidence, say.sentences(said), Window(None, None), ("ttft_broke", "l1_full", "outside_scheduler"))]


def _how_quiet(ttft: Row, peak: str) -> str:
    """That nothing broke, as far as queue and TTFT tell."""
    if not ttft["waiting_peak"]:
        if ttft["ttft_n"]:
            return _("No queue broke: no request waited, KV usage peaked at {peak}; TTFT did not break either.", peak=peak)
        return _("No queue broke: no request waited, KV usage peaked at {peak}; TTFT was not recorded.", peak=peak)
    waited = say.count(ttft["waiting_peak"], "request")
    if ttft["ttft_n"]:
        return _(
            "No queue broke: at most {requests} waited, KV usage peaked at {peak}; TTFT did not break either.", requests=waited, peak=peak
        )
    return _("No queue broke: at most {requests} waited, KV usage peaked at {peak}; TTFT was not recorded.", requests=waited, peak=peak)


def _slow_without_queue(case: Case) -> Finding:
    """First tokens that came late although no queue broke: what question 2 tells of where the time went."""
    split = case.row("ttft_split")
    measured = split["prefill_source"] in ("requests", "histograms")
    prefill, queue = split["prefill_share"] or 0.0, split["queue_share"] or 0.0
    dominant = case.limits["dominant_share"]
    cause: Cause = "insufficient_data"
    confidence: Confidence = "low"
    if measured and dominant <= prefill <= 1.0:
        cause = "prefill_bound"
        confidence = "medium" if prefill >= case.limits["high_share"] else "low"
        where = _(
            "{part} of the mean of {mean} went into prefill: prompts were long, or prefill was slow.",
            part=say.share(prefill), mean=say.seconds(split["ttft_mean_s"]),
        )  # fmt: skip
    elif split["split_source"] in ("requests", "histograms") and dominant <= queue <= 1.0:
        where = _(
            "{part} of the mean of {mean} was spent in the queue, in waits too short for the reports to show.",
            part=say.share(queue), mean=say.seconds(split["ttft_mean_s"]),
        )  # fmt: skip
    elif measured and queue + prefill <= 1.0 - dominant:
        where = _(
            "Queue and prefill were only {part} of the mean of {mean}: the rest went by outside the scheduler.",
            part=say.share(queue + prefill), mean=say.seconds(split["ttft_mean_s"]),
        )  # fmt: skip
    else:
        where = _("The capture does not tell where the time went.")
    return finding(case, cause, confidence, say.sentences([_how_slow(case), where]), case.window, ("ttft_broke", "ttft_split"))


def _how_slow(case: Case) -> str:
    """How bad it was: against the usual, and for how many."""
    ttft = case.row("ttft_broke")
    inside = finite(ttft["ttft_p99_inside_s"]) if case.ttft_broke else None
    worst = worst_ttft(ttft)
    took = say.seconds(inside) if inside is not None else worst[1] if worst is not None else _("over what is usual")
    if not case.ttft_broke:
        return _("P99 TTFT was {took} although no queue broke.", took=took)
    usual = ttft["ttft_usual_s"]
    if inside is not None and usual and inside >= case.limits["ttft_factor"] * usual:
        return _(
            "P99 TTFT was {took} {when} although no queue broke: {slow} came late, and the P99 was {times} times the usual {usual}.",
            took=took, when=case.when(), slow=say.count(ttft["slow_n"], "first token"), times=say.count(inside / usual),
            usual=say.seconds(usual),
        )  # fmt: skip
    return _(
        "P99 TTFT was {took} {when} although no queue broke: {slow} came late.",
        took=took, when=case.when(), slow=say.count(ttft["slow_n"], "first token"),
    )  # fmt: skip
