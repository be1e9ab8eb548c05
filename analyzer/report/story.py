"""The one picture of the first screen, and the small charts of the questions: parts of a timeline, drawn small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analyzer.report.charts import Panel, Timeline

# What tells the story: how long users waited, what stood in line, and what held it.
_PANELS = ("ttft", "requests", "kv")
_LANES = ("retracted", "preempted", "failure")
_HEIGHT = 84


def story(timeline: Timeline) -> Timeline:
    """TTFT, load and L1 over each other, with retractions and failures; what each was read from is told elsewhere."""
    drawn = excerpt(timeline, f"{timeline.uid}-story", _PANELS, _LANES, height=_HEIGHT)
    return replace(
        drawn, panels=tuple(replace(p, note="") for p in drawn.panels), lanes=tuple(replace(lane, note="") for lane in drawn.lanes)
    )


def excerpt(
    timeline: Timeline, uid: str, panels: Sequence[str], lanes: Sequence[str] = (), *, height: int, extra: Sequence[Panel] = ()
) -> Timeline:
    """The panels and lanes of those keys, in that order, on the same axis; `extra` panels come after them."""
    drawn = {p.key: p for p in timeline.panels}
    marked = {lane.key: lane for lane in timeline.lanes}
    return replace(
        timeline,
        uid=uid,
        panels=tuple(replace(p, height=height) for p in (*(drawn[k] for k in panels if k in drawn), *extra)),
        lanes=tuple(marked[k] for k in lanes if k in marked),
        notes=(),
    )
