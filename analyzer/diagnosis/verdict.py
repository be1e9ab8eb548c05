"""From the findings of each family to those of one instance, ranked."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import PRECEDENCE, at_most
from analyzer.diagnosis.causes.process import crashes, hangs, restarts
from analyzer.diagnosis.causes.queue import queue_held
from analyzer.diagnosis.causes.quiet import no_queue
from analyzer.diagnosis.causes.unknown import nothing_known
from analyzer.diagnosis.model import Finding


def findings(case: Case, ends: list[Row], silences: list[Row], slow: Row | None, covered: bool) -> tuple[Finding, ...]:
    """All findings of one instance, the verdict first. Never empty."""
    process = sorted(
        [*crashes(case, ends), *hangs(case, ends, silences), *restarts(case, ends)],
        key=lambda f: (
            f.window.start or datetime.max.replace(tzinfo=None).astimezone(),
            PRECEDENCE.index(f.cause),
        ),
    )
    enough = case.waiting_reports >= case.limits["min_reports"]
    queue = queue_held(case) if case.broke and enough else no_queue(case, slow, ends) if enough else []
    if any(f.cause == "hang" for f in process):
        queue = [f for f in queue if f.cause != "hang"]
    found = [*process, *queue]
    if not enough:
        # a planned restart proves itself, but not that it was the incident
        nothing = nothing_known(case, [f.cause for f in process])
        found = [
            *[f for f in process if f.cause != "restart"],
            nothing,
            *[f for f in process if f.cause == "restart"],
        ]
        if any(f.cause in ("crash", "hang") for f in found):
            found = [f for f in found if f.cause != "insufficient_data"]
    elif process:
        found = [f for f in found if f.cause != "none"]
    if not covered:
        found = [replace(f, confidence=at_most(f.confidence, "medium")) for f in found]
    return tuple(found)
