"""Incidents of a fleet over time: one lane a capture on a shared axis, and a new axis after a long time without captures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from analyzer.diagnosis.model import Cause, Window
from analyzer.fleet.model import Incident, Record
from analyzer.report import fmt, words
from analyzer.report.charts import TimeAxis

MAX_LANES = 60
# Captures of different days on one axis are dots; those of one outage belong on one.
_APART_S = 3600.0
_APART_LENGTHS = 2.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One incident on its lane, epoch seconds."""

    start: float
    end: float
    cause: Cause
    label: str


@dataclass(frozen=True, slots=True)
class FleetLane:
    """One capture: from when to when it tells anything, and its incidents."""

    name: str
    href: str
    start: float
    end: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Period:
    """Captures that overlap or follow each other closely, in the order they were given, and their axis."""

    axis: TimeAxis
    lanes: tuple[FleetLane, ...]

    @property
    def range(self) -> Window:
        """The time that the axis shows."""
        return Window(fmt.from_epoch(self.axis.start), fmt.from_epoch(self.axis.end))


def periods(records: Sequence[tuple[Record, str]]) -> tuple[Period, ...]:
    """The periods of captures with incidents, each given with the address of its report; the earliest first."""
    lanes = [lane for record, href in records if (lane := _lane(record, href)) is not None]
    groups: list[list[FleetLane]] = []
    end = start = 0.0
    for lane in sorted(lanes, key=lambda x: (x.start, x.end, x.name)):
        if not groups or lane.start - end > max(_APART_S, _APART_LENGTHS * (end - start)):
            groups.append([])
            start, end = lane.start, lane.end
        groups[-1].append(lane)
        end = max(end, lane.end)
    return tuple(_period(group, lanes) for group in groups)


def _period(group: Sequence[FleetLane], order: Sequence[FleetLane]) -> Period:
    start, end = min(lane.start for lane in group), max(lane.end for lane in group)
    # a moment still needs a width to stand in
    axis = TimeAxis(start, end if end > start else start + 1.0)
    return Period(axis, tuple(lane for lane in order if lane in group))


def _lane(record: Record, href: str) -> FleetLane | None:
    s = record.summary
    known = [t.timestamp() for i in s.incidents for t in (i.start, i.end) if t is not None]
    covered = [t.timestamp() for t in (s.covers.start, s.covers.end) if t is not None]
    if not known:
        return None
    start, end = min(known + covered), max(known + covered)
    return FleetLane(record.name, href, start, end, tuple(_bar(i, start, end, s.instances > 1) for i in s.incidents))


def _bar(incident: Incident, start: float, end: float, several: bool) -> Bar:
    """An incident without a known beginning or end reaches to that of its capture."""
    short = words.cause_words(incident.cause)[1]
    when = fmt.span(incident.start, incident.end)
    who = [incident.instance] if several and incident.instance else []
    return Bar(
        start=_epoch(incident.start, start), end=_epoch(incident.end, end), cause=incident.cause, label=fmt.clauses((short, *who, when))
    )


def _epoch(moment: datetime | None, otherwise: float) -> float:
    return otherwise if moment is None else moment.timestamp()
