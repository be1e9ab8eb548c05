"""Captures that cannot tell."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.causes.words import worst_ttft
from analyzer.diagnosis.model import Cause, Finding, Window
from analyzer.language import _


def nothing_known(case: Case, process: list[Cause]) -> Finding:
    """What the capture lacks, and what it does show."""
    said = [_why(case)]
    if "restart" in process:
        said.append(_("It does show a restart."))
    ttft = case.row("ttft_broke")
    worst = worst_ttft(ttft)
    if worst is not None:
        said.append(_("What is known: P99 TTFT was {took}.", took=worst[1]))
    if ttft["errors_n"]:
        fields = {"failed": say.count(ttft["errors_n"]), "requests": say.count(ttft["requests_n"], "request")}
        said.append(_("What is known: {failed} of {requests} failed.", **fields))
    if ttft["throughput_broke"]:
        said.append(
            _(
                "What is known: generation throughput fell to less than {share} of the usual {when}, with requests running.",
                share=say.share(case.limits["throughput_fall"]), when=case.when(),
            )
        )  # fmt: skip
    return finding(
        case, "insufficient_data", "low", say.sentences(said),
        case.window if ttft["throughput_broke"] else Window(None, None),
        ("ttft_broke", "l1_full", "queue_on_l1", "outside_scheduler"),
    )  # fmt: skip


def _why(case: Case) -> str:
    if case.row("outside_scheduler")["stats_off"]:
        return _("This capture cannot tell what happened: the server's stats lines were switched off (more than one API server).")
    if case.reports and not case.waiting_reports:
        return _("This capture cannot tell what happened: none of its scheduler reports tells how many requests were waiting.")
    if case.reports:
        return _("This capture cannot tell what happened: it holds only {reports}.", reports=say.count(case.reports, "scheduler report"))
    return _("This capture cannot tell what happened: it holds no scheduler reports: neither running, waiting nor KV usage.")
