"""The charts of the explore section as Bokeh figures: what each draws, over one time axis and with one crosshair.

Figures hold no data and no colours. Their sources are empty and named; the page's script fills them with the chosen
instance's data, and colours every model by its tags ("line:c-red": its line has the colour of the CSS variable --c-red),
so that the page's light and dark are the charts' too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bokeh.models import (
    BasicTicker,
    BoxZoomTool,
    ColumnDataSource,
    DatetimeTicker,
    DatetimeTickFormatter,
    NumeralTickFormatter,
    PanTool,
    PrintfTickFormatter,
    Quad,
    Range1d,
    TickFormatter,
    VArea,
    VSpan,
    VStrip,
)
from bokeh.models import Line as LineGlyph
from bokeh.models.annotations import BoxAnnotation, Span
from bokeh.plotting import figure

from analyzer.language import N_, _
from analyzer.report.charts import Unit
from analyzer.report.explore.whole import Explore

# Room for the longest tick label, the same in every chart: only so do their time axes stand below each other.
LEFT_PX = 62
RIGHT_PX = 12
RULES = "rules"
OTHERS = "others"
"""The source of the vertical lines, one column `x`."""

Kind = Literal["line", "area", "band", "guide", "bars"]
Dash = Literal["solid", "dashed", "dotted", "dotdash"]


@dataclass(frozen=True, slots=True)
class Line:
    """One curve of a chart. An `area` is a line filled down to zero; a `band` is filled only, down to its lower edge; a
    `guide` is a bound to be compared with, which does not stretch the axis; `bars` are amounts per bucket.
    """

    key: str
    label: str
    colour: str
    kind: Kind = "line"
    dash: Dash = "solid"
    alpha: float = 0.4


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. `top` fixes the upper end of its y axis, `note` names the static panel whose note applies to it."""

    key: str
    title: str
    unit: Unit
    lines: tuple[Line, ...]
    height: int = 150
    top: float | None = None
    note: str = ""


CHARTS = (
    Chart(
        "ttft",
        N_("Time to first token"),
        "s",
        (
            Line("ttft-bounds", N_("bounds between which the P99 lies"), "c-amber", "band"),
            Line("ttft-estimate", N_("queue wait, estimated from waiting / admission rate (not TTFT)"), "muted", dash="dotdash"),
            Line("ttft-p99", "P99", "c-red"),
            Line("ttft-p95", "P95", "c-amber", dash="dashed"),
            Line("ttft-p50", "P50", "c-blue", dash="dotted"),
        ),
        height=190,
        note="ttft",
    ),
    Chart(
        "requests",
        N_("Requests waiting and running"),
        "requests",
        (
            Line("requests-waiting", N_("waiting"), "c-red", "area"),
            Line("requests-running", N_("running"), "c-blue", dash="dashed"),
            Line("requests-cap", N_("cap on running"), "muted", "guide", "dotdash"),
        ),
        height=170,
        note="requests",
    ),
    Chart(
        "l1",
        N_("L1 by state"),
        "tokens",
        (
            Line("l1-used", N_("used: locked by running requests"), "c-blue", "band"),
            Line("l1-evictable", N_("evictable: cached prefixes nobody holds"), "c-green", "band"),
            Line("l1-available", N_("available"), "muted", "band", alpha=0.12),
            Line("l1-capacity", N_("capacity"), "c-ink", "guide", "dashed"),
        ),
        height=160,
        note="kv",
    ),
    Chart(
        "kv",
        N_("KV usage"),
        "share",
        (
            Line("kv-usage", N_("KV usage, fullest rank"), "c-ink"),
            Line("kv-l2", N_("L2 used, of its own size"), "c-purple", dash="dashed"),
        ),
        height=130,
        top=1.0,
        note="kv",
    ),
    Chart(
        "retracted",
        N_("Retractions and preemptions"),
        "requests",
        (
            Line("retracted", N_("retracted"), "c-red", "bars"),
            Line("preempted", N_("preempted"), "c-purple", "bars"),
        ),
        height=110,
    ),
    Chart("prompt", N_("Prefill throughput"), "tokens/s", (Line("prompt-prompt", N_("prompt"), "c-green"),), height=110),
    Chart("gen", N_("Decode throughput"), "tokens/s", (Line("gen-gen", N_("generation"), "c-purple"),), height=110),
    Chart(
        "hit",
        N_("Prefix cache hits, share of prompt tokens"),
        "share",
        (Line("hit-share", N_("hit rate"), "c-green"),),
        height=100,
        top=1.0,
    ),
    Chart("ratio", "new_token_ratio", "ratio", (Line("ratio-now", "new_token_ratio", "c-purple"),), height=100, top=1.0),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """What all figures of the page share. The page's script moves the crosshair, in all of them at once."""

    x_range: Range1d
    crosshair: Span
    rules: ColumnDataSource
    others: ColumnDataSource


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure, and the key of its place on the page (the element `explore-{key}`)."""

    key: str
    root: figure


def new_frame() -> Frame:
    """The shared time axis (its ends are set by the page), crosshair, vertical lines, and further incidents."""
    return Frame(
        Range1d(start=0, end=1, name="x"),
        Span(name="crosshair", dimension="height", level="overlay", visible=False, line_width=1, tags=["line:muted"]),
        ColumnDataSource(name=RULES, data={"x": []}),
        ColumnDataSource(name=OTHERS, data={"x0": [], "x1": []}),
    )


def charts_of(explore: Explore) -> tuple[Chart, ...]:
    """The charts for which some instance has data, each with the lines that any instance has, in the language of the moment."""
    known = {key for one in explore.charted for key in (*one.curves, *one.bars)}
    found: list[Chart] = []
    for chart in CHARTS:
        lines = tuple(replace(line, label=_(line.label)) for line in chart.lines if line.key in known)
        if any(line.kind != "guide" for line in lines):
            # One note about the pool is enough, and stands below the first chart of it.
            note = chart.note if chart.note not in [before.note for before in found] else ""
            found.append(replace(chart, title=_(chart.title), lines=lines, note=note))
    return tuple(found)


def drawings(charts: Sequence[Chart], frame: Frame) -> tuple[Drawing, ...]:
    """The charts' figures, in their order."""
    return tuple(Drawing(chart.key, _draw(chart, frame)) for chart in charts)


def base_figure(frame: Frame, *, name: str, height: int, unit: Unit, y_range: Range1d | None = None, log: bool = False) -> figure:
    """An empty figure over the shared time axis: no toolbar, dragging zooms or moves along the time only."""
    zoom = BoxZoomTool(name="zoom", dimensions="width")
    zoom.overlay.update(fill_alpha=0.15, line_width=1, line_dash="solid", tags=["fill:c-blue", "line:c-blue"])
    fig = figure(
        name=f"chart:{name}",
        height=height,
        sizing_mode="stretch_width",
        x_range=frame.x_range,
        y_range=y_range or Range1d(start=0, end=1, name=f"y:{name}"),
        x_axis_type="datetime",
        y_axis_type="log" if log else "linear",
        toolbar_location=None,
        tools=[zoom, PanTool(name="pan", dimensions="width")],
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_left=LEFT_PX,
        min_border_right=RIGHT_PX,
        min_border_top=4,
        min_border_bottom=4,
    )
    fig.add_layout(BoxAnnotation(name="incident", left=0, right=0, visible=False, line_color=None, level="underlay", tags=["fill:shade"]))
    strips = VStrip(x0="x0", x1="x1", line_color=None, fill_alpha=0.5, tags=["fill:shade"])
    fig.add_glyph(frame.others, strips, level="underlay")
    fig.add_layout(frame.crosshair)
    fig.add_glyph(frame.rules, VSpan(x="x", line_width=1.25, line_dash=[2, 3], tags=["line:fg"]))
    for axis in (*fig.xaxis, *fig.yaxis):
        axis.major_label_text_font = "system-ui, sans-serif"
        axis.major_label_text_font_size = "11.5px"
        axis.axis_line_color = None
        axis.minor_tick_line_color = None
        axis.major_tick_line_color = None
        axis.major_label_standoff = 4
        axis.tags = ["major_label_text:muted"]
    for grid in fig.grid:
        grid.tags = ["grid_line:grid"]
    fig.xgrid.grid_line_color = None
    fig.yaxis.formatter = formatter(unit)
    if not log:
        smallest = 1 if unit in ("requests", "tokens") else 0
        fig.yaxis.ticker = BasicTicker(desired_num_ticks=4 if height >= 150 else 3, min_interval=smallest)
    fig.xaxis.formatter = DatetimeTickFormatter(
        milliseconds="%H:%M:%S.%3N",
        seconds="%H:%M:%S",
        minsec="%H:%M:%S",
        minutes="%H:%M",
        hourmin="%H:%M",
        hours="%H:%M",
        days="%m-%d",
        months="%Y-%m",
        years="%Y",
    )
    fig.xaxis.ticker = DatetimeTicker(desired_num_ticks=8)
    return fig


def formatter(unit: Unit) -> TickFormatter:
    """How the ticks of a y axis are written."""
    if unit == "share":
        return NumeralTickFormatter(format="0%")
    if unit == "s":
        return PrintfTickFormatter(format="%.4g s")
    return NumeralTickFormatter(format="0.[00]a")


def _draw(chart: Chart, frame: Frame) -> figure:
    fig = base_figure(frame, name=chart.key, height=chart.height, unit=chart.unit)
    for line in chart.lines:
        if line.kind == "bars":
            bars = ColumnDataSource(name=line.key, data={"left": [], "right": [], "count": []})
            # With an outline: a bar is seen however narrow it is.
            quad = Quad(left="left", right="right", bottom=0, top="count", line_width=1, tags=_tags(line.colour, "fill", "line"))
            fig.add_glyph(bars, quad)
            continue
        source = ColumnDataSource(name=line.key, data={"x": [], "low": [], "high": [], "y": []})
        if line.kind in ("area", "band"):
            alpha = 0.12 if line.kind == "area" else line.alpha
            fig.add_glyph(source, VArea(x="x", y1="low", y2="high", fill_alpha=alpha, tags=_tags(line.colour, "fill")))
        if line.kind != "band":
            # Square ends: a value of one bucket is a dot, where another end would leave nothing to see.
            curve = LineGlyph(x="x", y="y", line_width=1.75, line_dash=line.dash, line_cap="square", line_join="round")
            curve.tags = _tags(line.colour, "line")
            fig.add_glyph(source, curve)
    return fig


def _tags(colour: str, *parts: str) -> list[str]:
    return [f"{part}:{colour}" for part in parts]
