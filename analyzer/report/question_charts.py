"""Which chart stands beside which question of the checklist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb

from analyzer.language import _
from analyzer.report import fmt, question_panels
from analyzer.report.charts import Level, Panel, Timeline
from analyzer.report.question_panels import Gauges
from analyzer.report.story import excerpt

_HEIGHT = 84
# Question: the timeline's panels and lanes that its answer is read from.
_FROM_TIMELINE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ttft_broke": (("ttft",), ()),
    "l1_full": (("kv",), ()),
    "queue_on_l1": (("requests", "kv"), ()),
    "queue_on_cap": (("requests",), ()),
    "retracted": ((), ("retracted", "preempted")),
    "l2_bottleneck": ((), ("loaded",)),
    "prefill_bottleneck": (("prompt",), ()),
    "outside_scheduler": (("gen",), ("failure", "process", "other")),
}
_NO_CHART = ("ttft_split", "config_asked_for_it")


class QuestionCharts:
    """The charts of one instance's questions, over the time range that its story is drawn over."""

    def __init__(self, con: duckdb.DuckDBPyConnection, instance: str, timeline: Timeline, uid: str) -> None:
        self._con = con
        self._instance = instance
        self._timeline = timeline
        self._uid = uid
        self._gauges: Gauges = question_panels.read_gauges(con, instance, timeline.axis, timeline.bucket_s)

    def of(self, question: str, number: int) -> Timeline | None:
        """The chart of a question; None where there is nothing to draw for it."""
        if question in _NO_CHART:
            return None
        panels, lanes = _FROM_TIMELINE.get(question, ((), ()))
        drawn = excerpt(self._timeline, f"{self._uid}-q{number:02d}", panels, lanes, height=_HEIGHT, extra=self._extra(question))
        if question == "queue_on_cap":
            drawn = replace(drawn, panels=self._with_cap(drawn.panels))
        return drawn if drawn.panels or drawn.lanes else None

    def _extra(self, question: str) -> Sequence[Panel]:
        if question == "retracted":
            return question_panels.admission_ratio(self._gauges)
        if question == "demand_over_ceiling":
            return question_panels.demand(self._gauges, question_panels.ceiling(self._con, self._instance))
        if question == "cache_stopped_helping":
            return question_panels.hit_rate(self._gauges)
        if question == "prefill_bottleneck":
            return question_panels.pending_tokens(self._gauges)
        if question == "load_skewed":
            return question_panels.ranks(self._con, self._instance, self._timeline.axis, self._timeline.bucket_s)
        if question == "pd_queues":
            return question_panels.pd_queues(self._gauges)
        return ()

    def _with_cap(self, panels: tuple[Panel, ...]) -> tuple[Panel, ...]:
        cap = question_panels.cap(self._con, self._instance)
        if cap is None:
            return panels
        level = Level(cap, _("the cap: {n} running", n=fmt.number(round(cap))))
        return tuple(replace(p, levels=(level,)) for p in panels)
