"""What the answers and the causes of one instance are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from analyzer.diagnosis import say
from analyzer.diagnosis.model import Answered, MissingSignal, Window
from analyzer.diagnosis.questions import questions
from analyzer.language import _

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """What the answers and findings of one incident of one instance are made from: a row per view, and the thresholds.

    `incident` 1 is the worst (see the view `incident`); an instance without any has one case too, in which nothing broke.
    `open_ended`: requests were still waiting in the incident at the last report of the capture. `idle`: every report
    shows no running and no waiting request, and not one token was made. `has_log`: an engine's log is in the capture.
    `ends`, `silences`, `stalls` and `slow_decode` are rows of `_run_end`, `_silence`, `_stall` and `slow_decode`, of the whole instance.
    `facts` are rows of `fact` by key, of the run whose settings question 14 shows; `versions` the oldest and newest
    version that the engine may have, None where nothing bounds it.
    """

    instance: str
    incident: int
    engine: str | None
    reports: int
    waiting_reports: int
    running_reports: int
    open_ended: bool
    idle: bool
    has_log: bool
    rows: dict[str, Row]
    ends: tuple[Row, ...]
    silences: tuple[Row, ...]
    stalls: tuple[Row, ...]
    slow_decode: Row | None
    limits: dict[str, float]
    facts: dict[str, Row] = field(default_factory=dict)
    versions: tuple[str | None, str | None] = (None, None)

    def row(self, question: str) -> Row:
        """The row of the view behind a question."""
        return self.rows[questions()[question].view]

    @property
    def queue_broke(self) -> bool:
        """True when the queue broke (see the view `incident`)."""
        return bool(self.row("ttft_broke")["queue_broke"])

    @property
    def ttft_broke(self) -> bool:
        """True when first tokens were slow in it, as far as TTFT was recorded."""
        return bool(self.row("ttft_broke")["ttft_broke"])

    @property
    def adapters(self) -> bool:
        """True when the server's arguments switch LoRA adapters on: a slot for one can hold a request as long as the pool."""
        return any(key.startswith("arg.") and "lora" in key for key in self.facts)

    @property
    def enough(self) -> bool:
        """True when enough reports tell how many requests waited."""
        return self.waiting_reports >= self.limits["min_reports"]

    @property
    def window(self) -> Window:
        """The incident's time range; unknown where nothing broke."""
        row = self.row("ttft_broke")
        return Window(row["start_ts"], row["end_ts"]) if row["broke"] else Window(None, None)

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
            name: float(q[f"{name}_s"] or 0.0) / judged
            for name in ("l1", "gap", "reservation", "cap", "plateau", "prefill", "stalled", "unexplained")
        }


# Without the number of waiting requests these would answer "no" to a question nobody could have answered.
_ABOUT_WAITING = ("queue_on_l1", "queue_on_cap", "demand_over_ceiling", "prefill_bottleneck")


def no_reports(case: Case, question: str) -> Answered | None:
    q = questions()[question]
    if case.reports and not case.waiting_reports and question in _ABOUT_WAITING:
        return q.answer(
            case.instance, "cannot_tell", _("No report tells how many requests were waiting."),
            missing=(MissingSignal(_("waiting requests"), _("`kvpm formats explain LINE` shows what was read of a scheduler line")),),
        )  # fmt: skip
    if 0 < case.reports < case.limits["min_reports"] and not case.queue_broke:
        text = _(
            "The capture holds only {reports} of this instance: a moment does not show whether a queue broke.",
            reports=say.count(case.reports, "scheduler report"),
        )
        return q.answer(case.instance, "cannot_tell", text, missing=q.missing(case.engine))
    if case.reports:
        return None
    return q.answer(
        case.instance, "cannot_tell", _("The capture holds no scheduler reports of this instance."),
        missing=q.missing(case.engine),
    )  # fmt: skip
