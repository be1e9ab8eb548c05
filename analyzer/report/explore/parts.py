"""The figures beside the curves: requests as points, TTFT as a map, and the load of every rank, over the same time axis.

As in figures.py they hold no data and no colours; the page's script fills and paints them. Their hover boxes name values
with units, and what a capture does not tell is said in the box.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, Range1d
from bokeh.models.annotations.labels import Label
from bokeh.plotting import figure

from analyzer.language import _
from analyzer.report.explore import lanes, requests, ttft_map
from analyzer.report.explore.figures import Drawing, Frame, base_figure
from analyzer.report.explore.lanes import Lanes
from analyzer.report.explore.model import Column
from analyzer.report.explore.requests import TOLD, WHY, Requests
from analyzer.report.explore.ttft_map import TtftMap
from analyzer.report.explore.whole import Explore

SCATTER = "scatter"
MAP = "ttft-map"
LANES = "lanes"
EVERY_INSTANCE = ""
"""The anchor of tables that are the same whichever instance is chosen."""
_SCATTER_PX = 260
_MAP_PX = 220
# A longer label does not fit beside the axis and stands in its lane.
_SHORT_LABEL = 8
_TIME = "%F %H:%M:%S UTC"
Tooltips = list[tuple[str, str]]


def part_drawings(explore: Explore, frame: Frame) -> tuple[Drawing, ...]:
    """The figures of those parts that the trace has anything for."""
    drawn = []
    if explore.requests is not None:
        drawn.append(Drawing(SCATTER, _scatter(explore.requests, frame)))
    if explore.ttft_map is not None:
        drawn.append(Drawing(MAP, _map(explore.ttft_map, frame)))
    if explore.lanes is not None:
        drawn.append(Drawing(LANES, _lanes(explore.lanes, frame)))
    return tuple(drawn)


def part_tables(explore: Explore) -> dict[str, dict[str, Mapping[str, Column]]]:
    """Their data, by anchor and source; of the lanes under `EVERY_INSTANCE`."""
    found: dict[str, dict[str, Mapping[str, Column]]] = {}
    for part in (explore.requests, explore.ttft_map):
        for anchor, sources in part.tables().items() if part is not None else ():
            found.setdefault(anchor, {}).update(sources)
    if explore.lanes is not None:
        found[EVERY_INSTANCE] = dict(explore.lanes.tables())
    return found


def part_notes(explore: Explore, anchor: str) -> dict[str, str]:
    """What is said under the figures of one instance, by the key of the figure."""
    notes = {}
    if explore.requests is not None:
        notes[SCATTER] = explore.requests.note(anchor)
    if explore.ttft_map is not None:
        notes[MAP] = explore.ttft_map.note(anchor)
    return notes


def _scatter(asked: Requests, frame: Frame) -> figure:
    log = asked.logarithmic
    low, high = asked.bounds
    y_range = Range1d(start=low / 1.3 if log else 0.0, end=high * (1.3 if log else 1.06))
    fig = base_figure(frame, name=SCATTER, height=_SCATTER_PX, unit="s", y_range=y_range, log=log)
    renderers = []
    for why in asked.classes:
        columns = ("arrival", "shown", "first", "marker", "rid", "status", *sorted(asked.told))
        colour = WHY[why][1]
        drawn = fig.scatter(
            x="arrival",
            y="shown",
            marker="marker",
            source=_source(requests.source_name(why), columns),
            size=7,
            fill_alpha=0.5,
            line_alpha=0.9,
        )
        drawn.glyph.tags = [f"fill:{colour}", f"line:{colour}"]
        renderers.append(drawn)
    tooltips = [
        (_("Request"), "@rid"),
        (_("Arrival"), f"@arrival{{{_TIME}}}"),
        ("TTFT", "@first"),
        *((_(title), f"@{key}") for key, title, _unit in TOLD if key in asked.told),
        (_("Status"), "@status"),
    ]
    fig.add_tools(HoverTool(renderers=list(renderers), tooltips=tooltips, formatters=_formatted("arrival"), limit=1))
    return fig


def _map(asked: TtftMap, frame: Frame) -> figure:
    low, high = asked.bounds
    fig = base_figure(frame, name=MAP, height=_MAP_PX, unit="s", y_range=Range1d(start=low, end=high), log=True)
    cells = fig.quad(
        left="left",
        right="right",
        bottom="bottom",
        top="top",
        source=_source(ttft_map.SOURCE, ("left", "right", "bottom", "top", "shade", "count", "range")),
        fill_alpha="shade",
        line_color=None,
    )
    cells.glyph.tags = ["fill:c-blue"]
    tooltips = [(_("Requests"), "@count"), ("TTFT", "@range"), *_from_to()]
    fig.add_tools(HoverTool(renderers=[cells], tooltips=tooltips, formatters=_formatted("left", "right"), limit=1))
    return fig


def _lanes(asked: Lanes, frame: Frame) -> figure:
    count = len(asked.lanes)
    fig = base_figure(frame, name=LANES, height=asked.height, unit="ratio", y_range=Range1d(start=0, end=count))
    fig.ygrid.grid_line_color = None
    for number, (key, title, unit) in enumerate(asked.metrics):
        source = _source(lanes.source_name(key), ("left", "right", "bottom", "top", "roof", "value", "label"))
        name = f"{LANES}:{key}"
        blocks = fig.quad(
            name=name, left="left", right="right", bottom="bottom", top="top", source=source, fill_alpha=0.75, line_color=None,
            visible=number == 0,
        )  # fmt: skip
        blocks.glyph.tags = [f"fill:{lanes.COLOURS[key]}"]
        # Over the whole height of its lane, so that a low block is hit as easily as a high one.
        hit = fig.quad(
            name=name, left="left", right="right", bottom="bottom", top="roof", source=source, fill_alpha=0, line_color=None,
            visible=number == 0,
        )  # fmt: skip
        value = "@value{0.0%}" if unit == "share" else "@value{0,0}"
        tooltips = [(_("Lane"), "@label"), (_(title), value), *_from_to()]
        fig.add_tools(HoverTool(renderers=[hit], tooltips=tooltips, formatters=_formatted("left", "right"), limit=1))
    _name_lanes(fig, asked)
    return fig


def _name_lanes(fig: figure, asked: Lanes) -> None:
    labels = [lane.label for lane in asked.lanes]
    middles = [len(labels) - number - 0.5 for number in range(len(labels))]
    fig.yaxis.ticker = FixedTicker(ticks=middles)
    if max(map(len, labels)) <= _SHORT_LABEL:
        fig.yaxis.major_label_overrides = dict(zip(middles, labels, strict=True))
        return
    fig.yaxis.major_label_text_color = None
    fig.yaxis.tags = []
    for middle, label in zip(middles, labels, strict=True):
        fig.add_layout(
            Label(
                x=4, x_units="screen", y=middle, text=label, text_baseline="middle", text_font="system-ui, sans-serif",
                text_font_size="11px", background_fill_alpha=0.7, tags=["text:fg", "background_fill:bg"],
            )
        )  # fmt: skip


def _source(name: str, columns: Iterable[str]) -> ColumnDataSource:
    return ColumnDataSource(name=name, data={column: [] for column in columns})


def _from_to() -> Tooltips:
    return [(_("From"), f"@left{{{_TIME}}}"), (_("To"), f"@right{{{_TIME}}}")]


def _formatted(*columns: str) -> dict[str, Any]:
    return {f"@{column}": "datetime" for column in columns}
