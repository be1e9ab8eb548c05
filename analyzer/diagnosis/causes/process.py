"""What happened to the process: crash, hang, restart."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.model import Finding, Window
from analyzer.diagnosis.stored_words import stored
from analyzer.language import _, ngettext


def _in_hand(row: Row) -> str:
    running, waiting = row["running_last"], row["waiting_last"]
    if running is None and waiting is None:
        return _("What was in hand is not in the capture.")
    return _(
        "The last report before that showed {running} running and {waiting} waiting.",
        running=say.count(running, "request"), waiting=say.count(waiting),
    )  # fmt: skip


def _failed(row: Row) -> str:
    """What the records of requests say of that time."""
    return _("{requests} failed around it.", requests=say.count(row["failed_requests"], "request")) if row["failed_requests"] else ""


def crashes(case: Case) -> list[Finding]:
    """The processes that died."""
    return [
        _not_fatal(case, e)
        if _went_on(case, e)
        else finding(
            case, "crash", "high",
            say.sentences(
                [
                    _("The process died at {at} UTC ({why}).", at=say.clock(e["crash_ts"]), why=stored(e["crash_text"])),
                    _in_hand(e),
                    _("It was back at {at}.", at=say.clock(e["next_start_ts"])) if e["next_start_ts"] else "",
                    _failed(e),
                ]
            ),
            Window(e["crash_ts"], e["next_start_ts"] or e["last_ts"]), ("outside_scheduler",), (e["crash_source"] or "",),
        )
        for e in case.ends
        if e["crash_ts"] is not None
    ]  # fmt: skip


def _went_on(case: Case, e: Row) -> bool:
    """True when the process made progress long after the line that tells of its death."""
    return e["progress_ts"] is not None and (e["progress_ts"] - e["crash_ts"]).total_seconds() > case.limits["hang_silence_s"]


def _not_fatal(case: Case, e: Row) -> Finding:
    said = _(
        "The log tells of a crash at {at} UTC ({why}), but the same process went on reporting until {until}.",
        at=say.clock(e["crash_ts"]), why=stored(e["crash_text"]), until=say.clock(e["progress_ts"]),
    )  # fmt: skip
    return finding(case, "crash", "low", said, Window(e["crash_ts"], e["crash_ts"]), ("outside_scheduler",), (e["crash_source"] or "",))


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
        start = e["progress_ts"] or e["last_report_ts"] or e["watchdog_ts"]
        if e["watchdog_ts"] is not None:
            stuck = _(
                "The scheduler made no progress from {start} UTC on, and the watchdog fired at {at}.",
                start=say.clock(start), at=say.clock(e["watchdog_ts"]),
            )  # fmt: skip
        else:
            stuck = _(
                "The scheduler made no progress from {start} UTC on: nothing was reported for {silent} though the process went on.",
                start=say.clock(start), silent=say.seconds(e["silent_s"]),
            )  # fmt: skip
        found.append(
            finding(
                case, "hang", "high" if e["watchdog_ts"] is not None else "medium", say.sentences([stuck, _in_hand(e)]),
                Window(start, e["last_ts"]), ("outside_scheduler",), (e["watchdog_source"] or "",),
            )
        )  # fmt: skip
    for s in case.silences:
        fields = {
            "silent": say.seconds(s["silent_s"]), "start": say.clock(s["start_ts"]), "waiting": say.count(s["waiting"], "request"),
            "running": say.count(s["running"]),
        }  # fmt: skip
        if s["no_token"]:
            silence = _(
                "The scheduler was silent for {silent} from {start} UTC on, with {waiting} waiting, {running} running and not one token "
                "made; then it went on.",
                **fields,
            )
        else:
            silence = _(
                "The scheduler was silent for {silent} from {start} UTC on, with {waiting} waiting, {running} running; then it went on.",
                **fields,
            )
        found.append(finding(case, "hang", "medium", silence, Window(s["start_ts"], s["end_ts"]), ("outside_scheduler",)))
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
        if e["shutdown_ts"] is not None:
            ended = _(
                "The process was told to stop at {at} UTC and a new one started at {start}.",
                at=say.clock(e["shutdown_ts"]), start=say.clock(e["next_start_ts"]),
            )  # fmt: skip
        else:
            ended = _(
                "The process ended without a word after {at} UTC and a new one started at {start}.",
                at=say.clock(e["last_ts"]), start=say.clock(e["next_start_ts"]),
            )  # fmt: skip
        lost = e["aborted_at_shutdown"]
        aborted = (
            ngettext("{n} request in flight was aborted.", "{n} requests in flight were aborted.", lost, n=say.count(lost)) if lost else ""
        )
        found.append(
            finding(
                case, "restart", "high", say.sentences([ended, _in_hand(e), aborted, _failed(e)]),
                Window(e["shutdown_ts"] or e["last_ts"], e["next_start_ts"]), ("outside_scheduler",),
            )
        )  # fmt: skip
    return found
