"""No queue broke: retractions, slow decode, or nothing."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.disaggregation import disaggregated_queues
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.causes.words import thrown_out, worst_ttft
from analyzer.diagnosis.model import Confidence, Finding, Window


def no_queue(case: Case, slow: Row | None, ends: list[Row]) -> list[Finding]:
    """No queue broke: retractions, slow decode, or nothing."""
    if case.idle and not case.row("ttft_broke")["ttft_n"]:
        return [
            finding(
                case, "insufficient_data", "low",
                "This capture cannot tell what happened: nothing was running or waiting in any of its "
                f"{say.count(case.reports, 'report')}, so the load was over, or had not begun.",
                Window(None, None), ("ttft_broke", "queue_on_l1"),
            )
        ]  # fmt: skip
    found = []
    r = case.row("retracted")
    if r["retraction_events"] or r["retracted_requests"] or r["preemptions"]:
        found.append(
            finding(
                case, "l1_bound", "medium",
                f"The KV pool in HBM (L1) overflowed{thrown_out(case)}, though no queue to speak of formed.",
                Window(r["first_ts"], r["last_ts"]), ("retracted", "l1_full"),
            )
        )  # fmt: skip
    if slow is not None and (slow["slow_s"] or 0) >= case.limits["decode_min_s"]:
        found.append(
            finding(
                case, "decode_bound", "medium",
                f"Nothing waited and the pool had room, but {say.span(slow['start_ts'], slow['end_ts'])} each token took "
                f"{slow['token_slow_s'] * 1000:.0f} ms against {slow['token_base_s'] * 1000:.0f} ms at best, with "
                f"{say.count(slow['running_slow'], 'request')} running.",
                Window(slow["start_ts"], slow["end_ts"]), ("queue_on_l1", "l1_full"),
            )
        )  # fmt: skip
    found += disaggregated_queues(case)
    ttft = case.row("ttft_broke")
    skew = case.row("load_skewed")
    worst = worst_ttft(ttft)
    if not found and worst is not None and worst[0] > case.limits["ttft_s"]:
        return [
            finding(
                case, "insufficient_data", "low",
                f"P99 TTFT was {worst[1]} although no queue broke: the capture does not tell where the time went.",
                Window(None, None), ("ttft_broke", "ttft_split"),
            )
        ]  # fmt: skip
    left = ends[-1]["waiting_last"] if ends else None
    if not found and (left or 0) >= case.limits["open_queue"]:
        return [
            finding(
                case, "insufficient_data", "low",
                f"The capture ends with {say.count(left, 'request')} waiting; whether that queue broke is not in it.",
                Window(ttft["start_ts"], None), ("ttft_broke", "queue_on_l1"),
            )
        ]  # fmt: skip
    failed = ttft["errors_n"]
    if not found and failed >= 3 and failed >= case.limits["failed_share"] * ttft["requests_n"]:
        return [
            finding(
                case, "insufficient_data", "low",
                f"No queue broke, but {say.count(failed)} of {say.count(ttft['requests_n'], 'request')} failed, and the capture does not "
                "tell why" + ("." if case.has_log else ": the server's log would."),
                Window(None, None), ("ttft_broke", "outside_scheduler"),
            )
        ]  # fmt: skip
    if not found:
        known = "TTFT was not recorded" if not ttft["ttft_n"] else "TTFT did not break either"
        peak = case.row("l1_full")["usage_max"]
        running = (ends[-1]["running_last"] or 0) if ends and not case.has_log else 0
        confidence: Confidence = "low" if running or peak is None or not case.running_reports else "high" if ttft["ttft_n"] else "medium"
        found.append(
            finding(
                case, "none", confidence,
                f"No queue broke: {_at_most_waited(ttft['waiting_peak'])}, KV usage peaked at "
                f"{say.share(peak)}; {known}."
                + (f" {skew['ranks']} ranks reported." if (skew["ranks"] or 0) > 1 else "")
                + (f" The capture ends with {say.count(running)} running: only a log would show a crash then." if running else ""),
                Window(None, None), ("ttft_broke", "l1_full", "outside_scheduler"),
            )
        )  # fmt: skip
    return found


def _at_most_waited(peak: int | None) -> str:
    return f"at most {say.count(peak, 'request')} waited" if peak else "no request waited"
