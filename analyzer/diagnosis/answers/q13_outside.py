"""Question 13: was it outside the scheduler?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.model import Answered, Evidence
from analyzer.diagnosis.numbers import rounded
from analyzer.diagnosis.questions import questions


def answer(case: Case) -> Answered:
    q = questions()["outside_scheduler"]
    r = case.row("outside_scheduler")
    parts = []
    if r["crashes"]:
        parts.append(f"a crash at {say.clock(r['crash_ts'])} ({r['crash_text']})")
    if r["watchdogs"]:
        parts.append(f"{say.count(r['watchdogs'], 'watchdog alarm')}")
    if r["silence_max_s"]:
        parts.append(f"silence for {say.seconds(r['silence_max_s'])} with requests waiting")
    if r["runs"] > 1:
        parts.append(f"{say.count(r['runs'] - 1, 'restart')}")
    if r["stuck_s"] is not None:
        parts.append(f"nothing running for {say.seconds(r['stuck_s'])} with up to {say.count(r['stuck_waiting_max'], 'request')} waiting")
    if r["giants"]:
        parts.append(f"a prompt of {say.count(r['giant_tokens'])} tokens, more than the whole pool ({say.count(r['pool_tokens'])} tokens)")
    if r["refusals"]:
        parts.append(f"{say.count(r['refusals'], 'request')} refused or aborted because the pool could never hold them")
    evidence = (
        Evidence("process lifetimes", r["runs"], ""),
        Evidence("crashes", r["crashes"], "", r["crash_ts"], r["crash_ts"], r["crash_source"] or ""),
        Evidence("watchdog alarms", r["watchdogs"], ""),
        Evidence("longest silence with requests waiting", rounded(r["silence_max_s"]), "s"),
        Evidence("nothing running while requests waited", rounded(r["stuck_s"]), "s", r["stuck_from_ts"], r["stuck_until_ts"]),
        Evidence("longest prompt that got no token", r["giant_tokens"], "tokens", r["giant_ts"]),
        Evidence(
            "refused for their size", r["refusals"], "requests", r["refused_from_ts"], r["refused_until_ts"], r["refused_source"] or ""
        ),
        Evidence("rejections", r["rejections"], ""),
        Evidence("warnings", r["warnings"], ""),
    )
    if parts:
        return q.answer(case.instance, "yes", "The capture shows " + ", ".join(parts) + ".", evidence)
    if not case.reports:
        return q.answer(
            case.instance, "cannot_tell", "No crash, watchdog or restart in the capture; without reports a hang cannot be seen.", evidence,
            q.missing(case.engine),
        )  # fmt: skip
    if not case.has_log:
        return q.answer(
            case.instance, "cannot_tell", "No restart by the metrics; a crash or a watchdog alarm would be in a log, and none is in the "
            "capture.", evidence, q.missing(case.engine),
        )  # fmt: skip
    return q.answer(case.instance, "no", "No crash, watchdog, hang or restart in the log.", evidence)
