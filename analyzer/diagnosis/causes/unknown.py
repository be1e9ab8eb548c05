"""Captures that cannot tell."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.causes.words import worst_ttft
from analyzer.diagnosis.model import Cause, Finding, Window
from analyzer.language import _


def nothing_known(case: Case, process: list[Cause]) -> Finding:
    q = case.row("outside_scheduler")
    if q["stats_off"]:
        why = "the server's stats lines were switched off (more than one API server)"
    elif case.reports and not case.waiting_reports:
        why = "none of its scheduler reports tells how many requests were waiting"
    elif case.reports:
        why = f"it holds only {say.count(case.reports, 'scheduler report')}"
    else:
        why = "it holds no scheduler reports: neither running, waiting nor KV usage"
    more = " It does show a restart." if "restart" in process else ""
    worst = worst_ttft(case.row("ttft_broke"))
    if worst is not None:
        more += f" What is known: P99 TTFT was {worst[1]}."
    if case.row("ttft_broke")["throughput_broke"]:
        more += _(
            " What is known: generation throughput fell to less than {share} of the usual {when}, with requests running.",
            share=say.share(case.limits["throughput_fall"]), when=case.when(),
        )  # fmt: skip
    return finding(
        case, "insufficient_data", "low", f"This capture cannot tell what happened: {why}.{more}",
        case.window if case.row("ttft_broke")["throughput_broke"] else Window(None, None),
        ("ttft_broke", "l1_full", "queue_on_l1", "outside_scheduler"),
    )  # fmt: skip
