"""No cause was found: an all-clear, or what stands in its way."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
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
                "This capture cannot tell what happened: nothing was running or waiting in any of its "
                f"{say.count(case.reports, 'report')}, so the load was over, or had not begun.",
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
                f"The capture ends with {say.count(left, 'request')} waiting; whether that queue broke is not in it.",
                Window(ttft["start_ts"], None), ("ttft_broke", "queue_on_l1"),
            )
        ]  # fmt: skip
    failed = ttft["errors_n"]
    if failed >= 3 and failed >= case.limits["failed_share"] * ttft["requests_n"]:
        return [
            finding(
                case, "insufficient_data", "low",
                f"No queue broke, but {say.count(failed)} of {say.count(ttft['requests_n'], 'request')} failed, and the capture does not "
                "tell why" + ("." if case.has_log else ": the server's log would."),
                Window(None, None), ("ttft_broke", "outside_scheduler"),
            )
        ]  # fmt: skip
    known = "TTFT was not recorded" if not ttft["ttft_n"] else "TTFT did not break either"
    peak = case.row("l1_full")["usage_max"]
    running = (case.ends[-1]["running_last"] or 0) if case.ends and not case.has_log else 0
    confidence: Confidence = "low" if running or peak is None or not case.running_reports else "high" if ttft["ttft_n"] else "medium"
    return [
        finding(
            case, "none", confidence,
            f"No queue broke: {_at_most_waited(ttft['waiting_peak'])}, KV usage peaked at "
            f"{say.share(peak)}; {known}."
            + (f" {skew['ranks']} ranks reported." if (skew["ranks"] or 0) > 1 else "")
            + (f" The capture ends with {say.count(running)} running: only a log would show a crash then." if running else ""),
            Window(None, None), ("ttft_broke", "l1_full", "outside_scheduler"),
        )
    ]  # fmt: skip


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
    return finding(case, cause, confidence, f"{_how_slow(case)} {where}", case.window, ("ttft_broke", "ttft_split"))


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
            took=took, when=case.when(), slow=say.count(ttft["slow_n"], "first token"), times=f"{inside / usual:,.0f}",
            usual=say.seconds(usual),
        )  # fmt: skip
    return _(
        "P99 TTFT was {took} {when} although no queue broke: {slow} came late.",
        took=took, when=case.when(), slow=say.count(ttft["slow_n"], "first token"),
    )  # fmt: skip


def _at_most_waited(peak: int | None) -> str:
    return f"at most {say.count(peak, 'request')} waited" if peak else "no request waited"
