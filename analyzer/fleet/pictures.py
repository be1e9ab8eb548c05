"""The drawings of the index, as inline SVG: lanes of incidents and bars of counts."""

from __future__ import annotations

from markupsafe import Markup

from analyzer.fleet.periods import FleetLane
from analyzer.language import _
from analyzer.report.charts import TimeAxis, element
from analyzer.report.fmt import sentences

_LANE_HEIGHT = 22
_BAR_HEIGHT = 14
# The narrowest that is still seen, in per cent of the width.
_NARROWEST = 0.4


def render_fleet_lane(lane: FleetLane, axis: TimeAxis, *, uid: str) -> Markup:
    """One lane: a line where there is a capture, bars where there is an incident. `uid` is unique in the document."""
    middle = _LANE_HEIGHT / 2
    parts = [
        element("title", {"id": f"{uid}-t"}, _("Incidents of {capture}", capture=lane.name)),
        element("desc", {"id": f"{uid}-d"}, sentences([f"{bar.label}." for bar in lane.bars])),
        element("line", {"class": "grid", "x1": "0", "x2": "100%", "y1": middle, "y2": middle}),
        element(
            "line",
            {
                "class": "covered",
                "x1": _percent(axis.percent(lane.start)),
                "x2": _percent(axis.percent(lane.end)),
                "y1": middle,
                "y2": middle,
            },
        ),
    ]
    for bar in lane.bars:
        left, right = axis.percent(bar.start), axis.percent(bar.end)
        width = max(_NARROWEST, right - left)
        parts.append(
            element(
                "rect",
                {
                    "class": f"incident cause-{bar.cause}",
                    "x": _percent(min(left, 100 - width)),
                    "y": (_LANE_HEIGHT - _BAR_HEIGHT) / 2,
                    "width": _percent(width),
                    "height": _BAR_HEIGHT,
                },
                element("title", None, bar.label),
            )
        )
    attributes = {"class": "lane", "role": "img", "width": "100%", "height": _LANE_HEIGHT, "aria-labelledby": f"{uid}-t {uid}-d"}
    return element("svg", attributes, *parts)


def cause_swatch(cause: str) -> Markup:
    """The legend's sample of a cause."""
    box = element("rect", {"class": f"incident cause-{cause}", "x": 1, "y": 1, "width": 20, "height": 10})
    return element("svg", {"class": "swatch", "width": 22, "height": 12, "aria-hidden": "true"}, box)


def count_bar(cause: str, share: float) -> Markup:
    """The bar of a count, `share` of the longest one; the number stands beside it."""
    box = element(
        "rect", {"class": f"incident cause-{cause}", "x": 1, "y": 1, "width": _percent(max(_NARROWEST, share * 99)), "height": 14}
    )
    return element("svg", {"class": "count-bar", "width": "100%", "height": 16, "aria-hidden": "true"}, box)


def _percent(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{text}%"
