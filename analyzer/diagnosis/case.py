"""What the answers and the causes of one instance are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analyzer.diagnosis import say
from analyzer.diagnosis.model import Answered, MissingSignal
from analyzer.diagnosis.questions import questions

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """What the answers of one instance are made from: a row per view, and the thresholds.

    `open_ended`: requests were still waiting in the incident at the last report of the capture. `idle`: every report
    shows no running and no waiting request, and not one token was made. `has_log`: an engine's log is in the capture.
    """

    instance: str
    engine: str | None
    reports: int
    waiting_reports: int
    running_reports: int
    open_ended: bool
    idle: bool
    has_log: bool
    rows: dict[str, Row]
    limits: dict[str, float]

    def row(self, question: str) -> Row:
        """The row of the view behind a question."""
        return self.rows[questions()[question].view]

    @property
    def broke(self) -> bool:
        """True when the queue broke (see the view `incident`)."""
        return bool(self.row("ttft_broke")["queue_broke"])

    def when(self) -> str:
        """The incident in words."""
        q = self.row("ttft_broke")
        return say.span(q["start_ts"], q["end_ts"])

    def queue_shares(self) -> dict[str, float]:
        """Part of the judged waiting time of the incident in each queue state; empty without any."""
        q = self.row("queue_on_l1")
        judged = q["judged_s"] or 0.0
        if judged <= 0:
            # reports within one second of each other: count them as they are
            return {}
        return {
            name: float(q[f"{name}_s"] or 0.0) / judged for name in ("l1", "gap", "reservation", "cap", "prefill", "stalled", "unexplained")
        }


# Without the number of waiting requests these would answer "no" to a question nobody could have answered.
_ABOUT_WAITING = ("queue_on_l1", "queue_on_cap", "demand_over_ceiling", "prefill_bottleneck")


def no_reports(case: Case, question: str) -> Answered | None:
    q = questions()[question]
    if case.reports and not case.waiting_reports and question in _ABOUT_WAITING:
        return q.answer(
            case.instance, "cannot_tell", "No report tells how many requests were waiting.",
            missing=(MissingSignal("waiting requests", "`kvpm formats explain LINE` shows what was read of a scheduler line"),),
        )  # fmt: skip
    if 0 < case.reports < case.limits["min_reports"] and not case.broke:
        return q.answer(
            case.instance, "cannot_tell", f"The capture holds only {say.count(case.reports, 'scheduler report')} of this instance: "
            "a moment does not show whether a queue broke.", missing=q.missing(case.engine),
        )  # fmt: skip
    if case.reports:
        return None
    return q.answer(
        case.instance, "cannot_tell", "The capture holds no scheduler reports of this instance.",
        missing=q.missing(case.engine),
    )  # fmt: skip
