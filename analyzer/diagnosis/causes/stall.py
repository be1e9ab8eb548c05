"""Work in hand and no token, although the process reports."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.model import Finding, Window
from analyzer.language import _


def stood_still(case: Case) -> list[Finding]:
    """Spells in which vLLM reported running requests and made not one token."""
    return [
        finding(
            case, "hang", "high" if s["still_s"] > case.limits["long_prefill_s"] else "medium",
            _(
                "The scheduler made not one token for {still}, {when}, with {running} running and {waiting} waiting: it went on reporting.",
                still=say.seconds(s["still_s"]), when=say.span(s["start_ts"], s["end_ts"]), running=say.count(s["running"], "request"),
                waiting=say.count(s["waiting"]),
            ),
            Window(s["start_ts"], s["end_ts"]), ("outside_scheduler",),
        )
        for s in case.stalls
    ]  # fmt: skip


def ends_without_a_token(case: Case) -> list[Finding]:
    """The last thing that vLLM told is a report with work in hand and no token: it may have hung then. SGLang's gauges go stale."""
    last = case.ends[-1] if case.ends else None
    if case.engine != "vllm" or last is None or not last["no_token"]:
        return []
    return [
        finding(
            case, "insufficient_data", "low",
            _(
                "The last report, at {moment} UTC, shows {running} running and not one token made; whether the scheduler hung then or the "
                "capture just ends is not in it.",
                moment=say.clock(last["last_report_ts"]), running=say.count(last["running_last"], "request"),
            ),
            Window(last["last_report_ts"], None), ("outside_scheduler",),
        )
    ]  # fmt: skip
