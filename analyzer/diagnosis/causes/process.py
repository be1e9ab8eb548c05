"""What happened to the process: crash, hang, restart."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.model import Finding, Window


def _in_hand(row: Row) -> str:
    running, waiting = row["running_last"], row["waiting_last"]
    if running is None and waiting is None:
        return "what it had in hand is not in the capture"
    return f"{say.count(running, 'request')} running and {say.count(waiting)} waiting at its last report"


def _failed(row: Row) -> str:
    """What the records of requests say of that time."""
    return f" {say.count(row['failed_requests'], 'request')} failed around it." if row["failed_requests"] else ""


def crashes(case: Case) -> list[Finding]:
    """The processes that died."""
    return [
        finding(
            case, "crash", "high",
            f"The process died at {say.clock(e['crash_ts'])} UTC ({e['crash_text']}): {_in_hand(e)}"
            + (f"; it was back at {say.clock(e['next_start_ts'])}." if e["next_start_ts"] else ".")
            + _failed(e),
            Window(e["crash_ts"], e["next_start_ts"] or e["last_ts"]), ("outside_scheduler",), (e["crash_source"] or "",),
        )
        for e in case.ends
        if e["crash_ts"] is not None
    ]  # fmt: skip


def hangs(case: Case) -> list[Finding]:
    """Work in hand and no progress: a watchdog alarm, or silence."""
    found = []
    for e in case.ends:
        work = (e["waiting_last"] or 0) > 0
        limit = max(case.limits["hang_silence_s"], 3 * (e["hold_s"] or 0))
        silent = (work or e["no_token"]) and (e["silent_s"] or 0) > limit
        # an idle engine has no watchdog alarm: one is proof of work in hand
        if e["watchdog_ts"] is None and not silent:
            continue
        start = e["last_report_ts"] or e["watchdog_ts"]
        proof = (
            f"the watchdog fired at {say.clock(e['watchdog_ts'])}"
            if e["watchdog_ts"] is not None
            else f"nothing was reported for {say.seconds(e['silent_s'])} though the process went on"
        )
        found.append(
            finding(
                case, "hang", "high" if e["watchdog_ts"] is not None else "medium",
                f"The scheduler made no progress from {say.clock(start)} UTC on: {_in_hand(e)}, and {proof}.",
                Window(start, e["last_ts"]), ("outside_scheduler",), (e["watchdog_source"] or "",),
            )
        )  # fmt: skip
    for s in case.silences:
        token = " and not one token made" if s["no_token"] else ""
        found.append(
            finding(
                case, "hang", "medium",
                f"The scheduler was silent for {say.seconds(s['silent_s'])} from {say.clock(s['start_ts'])} UTC on, with "
                f"{say.count(s['waiting'], 'request')} waiting, {say.count(s['running'])} running{token}; then it went on.",
                Window(s["start_ts"], s["end_ts"]), ("outside_scheduler",),
            )
        )  # fmt: skip
    return found


def restarts(case: Case) -> list[Finding]:
    """Processes that ended and were followed by another one."""
    found = []
    for e in case.ends:
        if e["next_start_ts"] is None:
            continue
        gap = (e["next_start_ts"] - (e["shutdown_ts"] or e["last_ts"])).total_seconds()
        if gap > case.limits["restart_gap_s"]:
            continue
        told = (
            f"was told to stop at {say.clock(e['shutdown_ts'])} UTC"
            if e["shutdown_ts"] is not None
            else f"ended without a word after {say.clock(e['last_ts'])} UTC"
        )
        lost = f", {say.count(e['aborted_at_shutdown'], 'request')} in flight were aborted" if e["aborted_at_shutdown"] else ""
        found.append(
            finding(
                case, "restart", "high",
                f"The process {told} and a new one started at {say.clock(e['next_start_ts'])}: {_in_hand(e)}{lost}.{_failed(e)}",
                Window(e["shutdown_ts"] or e["last_ts"], e["next_start_ts"]), ("outside_scheduler",),
            )
        )  # fmt: skip
    return found
