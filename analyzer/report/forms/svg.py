"""A timeline as one SVG that stands alone: a picture for a ticket, a chat or a page of documentation.

The charts of the page lean on its styles and on its width. Here they get a fixed width, light colours on white, and plain
values where the page has CSS variables, which many viewers of pictures do not know. No script, and nothing from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from unicodedata import east_asian_width

from markupsafe import Markup

from analyzer.language import _
from analyzer.report import charts, fmt
from analyzer.report.charts import Lane, Panel, Series, TimeAxis, Timeline, element

WIDTH = 880
# Room for the labels of the y axes, and for half a label of the time axis.
_LEFT, _RIGHT = 64, 28
_GAP = 12
_LINE = 15
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", "Noto Sans CJK SC", sans-serif'
_INK, _MUTED, _RED, _BLUE, _AMBER, _GREEN, _PURPLE = "#1a1d21", "#56606b", "#c8501a", "#0a6ab8", "#b07800", "#0b7d5c", "#8b3fa0"
_BAD = "#b3261e"
# The page's curves, by their style: colour, dashes, how opaque their bands are.
CURVES: dict[str, tuple[str, str, float]] = {
    "waiting": (_RED, "", 0.22),
    "running": (_BLUE, "7 3", 0.22),
    "usage": ("#2b3036", "", 0.22),
    "used": (_BLUE, "", 0.38),
    "available": (_MUTED, "", 0.1),
    "evictable": (_GREEN, "", 0.22),
    "l2": (_PURPLE, "6 3", 0.22),
    "p99": (_RED, "", 0.22),
    "p95": (_AMBER, "7 3", 0.22),
    "p50": (_BLUE, "2 3", 0.22),
    "bounds": (_AMBER, "", 0.3),
    "estimate": (_MUTED, "8 3 2 3", 0.22),
    "prompt": (_GREEN, "", 0.22),
    "gen": (_PURPLE, "", 0.22),
}
# Bands in another colour than their line.
BANDS = {"usage": _BLUE}
# The page's marks, by the key of their lane.
MARKS = {
    "retracted": _RED,
    "preempted": _PURPLE,
    "loaded": _GREEN,
    "pending": _AMBER,
    "failure": _BAD,
    "process": _BLUE,
    "other": _AMBER,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG file's text, and its size in CSS pixels."""

    svg: str
    width: int
    height: int


def standalone_svg(timeline: Timeline, *, title: str = "") -> Picture:
    """The timeline as an SVG file, `WIDTH` pixels wide and as high as it needs.

    `title` replaces the timeline's own. The same timeline in the same language gives the same bytes.
    """
    heading = fmt.clean(title or timeline.title, 160)
    drawing = _Drawing()
    drawing.text(heading, size=15, bold=True)
    drawing.text(_range(timeline), colour=_MUTED)
    drawing.gap(4)
    drawing.chart(charts.render_axis(timeline.axis, labels=True), _axis_height(timeline.axis, labels=True))
    for panel in (p for p in timeline.panels if p.height >= 84):
        _panel(drawing, panel, timeline)
    for lane in timeline.lanes:
        _lane(drawing, lane, timeline)
    for panel in (p for p in timeline.panels if p.height < 84):
        _panel(drawing, panel, timeline)
    drawing.gap(2)
    drawing.chart(charts.render_axis(timeline.axis), _axis_height(timeline.axis, labels=False))
    for note in timeline.notes:
        drawing.text(note, size=11, colour=_MUTED)
    height = drawing.y + _GAP
    svg = element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": WIDTH,
            "height": height,
            "viewBox": f"0 0 {WIDTH} {height}",
            "role": "img",
            "aria-label": heading,
            "font-family": _FONT,
        },
        element("style", None, Markup(_styles())),
        element("rect", {"width": WIDTH, "height": height, "fill": "#ffffff"}),
        charts.definitions(),
        *drawing.parts,
    )
    return Picture(f"{svg}\n", WIDTH, height)


def _range(timeline: Timeline) -> str:
    span = fmt.span(timeline.range.start, timeline.range.end)
    if timeline.bucket_s is None:
        return _("{span} UTC", span=span)
    return _("{span} UTC, {duration} buckets", span=span, duration=fmt.duration(timeline.bucket_s))


def _axis_height(axis: TimeAxis, *, labels: bool) -> int:
    rows = 1 + (labels and axis.shade is not None) + (labels and bool(axis.rules))
    return 14 * rows + 5


@dataclass
class _Drawing:
    """Parts put below one another; `y` is where the next one begins."""

    parts: list[Markup] = field(default_factory=list)
    y: int = 8

    def gap(self, height: int) -> None:
        """Some room."""
        self.y += height

    def text(self, words: str, *, size: int = 12, bold: bool = False, colour: str = _INK, after: str = "") -> None:
        """A paragraph over the whole width; `after` follows in the same line, muted."""
        lines = wrapped(words, size, WIDTH - _LEFT - _RIGHT)
        for number, line in enumerate(lines):
            self.y += round(size * 1.35)
            attributes = {"x": _LEFT, "y": self.y, "font-size": size, "fill": colour, "font-weight": 600 if bold else None}
            more = [element("tspan", {"fill": _MUTED, "font-weight": 400}, " " + after)] if after and number == len(lines) - 1 else []
            self.parts.append(element("text", attributes, line, *more))
        self.y += 3

    def legend(self, series: Sequence[Series]) -> None:
        """A sample and a name for each curve, in as many lines as they need."""
        x = _LEFT
        for each in series:
            width = 26 + 6 + round(text_width(each.name, 11.5)) + 16
            if x > _LEFT and x + width > WIDTH - _RIGHT:
                x = _LEFT
                self.y += _LINE
            self.parts.append(element("svg", {"x": x, "y": self.y + 3, "width": 26, "height": 10}, charts.swatch(each)))
            self.parts.append(element("text", {"x": x + 32, "y": self.y + 12, "font-size": 11.5, "fill": _INK}, each.name))
            x += width
        self.y += _LINE + 2

    def chart(self, drawn: Markup, height: int) -> None:
        """One of the page's charts, in a frame that gives its percentages their width."""
        frame = {"x": _LEFT, "y": self.y, "width": WIDTH - _LEFT - _RIGHT, "height": height}
        self.parts.append(element("svg", frame, drawn))
        self.y += height


def _panel(drawing: _Drawing, panel: Panel, timeline: Timeline) -> None:
    unit = {"share": _("% of the pool"), "s": _("seconds"), "requests": "", "tokens/s": _("tokens/s")}[panel.unit]
    drawing.gap(_GAP)
    drawing.text(panel.title, bold=True, after=unit)
    if len(panel.series) > 1 or panel.unit in ("share", "s"):
        drawing.legend(panel.series)
    drawing.chart(charts.render_panel(panel, timeline.axis, uid=f"{timeline.uid}-{panel.key}"), panel.height)
    if panel.note:
        drawing.text(panel.note, size=11, colour=_MUTED)


def _lane(drawing: _Drawing, lane: Lane, timeline: Timeline) -> None:
    drawing.gap(_GAP)
    drawing.text(lane.title, bold=True, after=lane.summary)
    drawing.chart(charts.render_lane(lane, timeline.axis, uid=f"{timeline.uid}-{lane.key}"), 26)
    if lane.note:
        drawing.text(lane.note, size=11, colour=_MUTED)


def text_width(text: str, size: float) -> float:
    """About how wide a text is, in pixels: the fonts of the reader are not known."""
    return sum(size if east_asian_width(c) in "WF" else size * 0.56 for c in text)


def wrapped(text: str, size: int, width: int) -> list[str]:
    """Lines that fit; Chinese is broken anywhere, other text at its blanks."""
    lines = [""]
    for piece in _pieces(text):
        if lines[-1] and text_width(lines[-1] + piece.rstrip(), size) > width:
            lines.append("")
        lines[-1] += piece
    return [line.strip(" ") for line in lines]


def _pieces(text: str) -> Iterable[str]:
    word = ""
    for char in text:
        word += char
        if char == " " or east_asian_width(char) in "WF":
            yield word
            word = ""
    yield word


def _styles() -> str:
    """The rules that the page's charts need, with plain values. Our own text: no end tag, nothing from a trace."""
    rules = [
        "svg svg{overflow:visible}",
        f".tick{{font-size:11.5px;fill:{_MUTED};font-variant-numeric:tabular-nums}}",
        f".shade-name{{font-size:11.5px;fill:{_RED};font-weight:600}}",
        f".rule-name{{font-size:11.5px;fill:{_INK};font-weight:600}}",
        f".level-name{{font-size:11px;fill:{_INK};paint-order:stroke;stroke:#ffffff;stroke-width:3px}}",
        ".grid{stroke:#e4e8ec;stroke-width:1}",
        f".shade{{fill:{_RED};fill-opacity:.13}}",
        f".rule{{stroke:{_INK};stroke-width:1.25;stroke-dasharray:2 3}}",
        f".level{{stroke:{_INK};stroke-width:1.25}}",
        ".line{fill:none;stroke-width:1.75;stroke-linejoin:round}",
        ".band{stroke:none}",
    ]
    for style, (colour, dashes, opacity) in CURVES.items():
        dash = f";stroke-dasharray:{dashes}" if dashes else ""
        rules.append(f".line.s-{style}{{stroke:{colour}{dash}}}.band.s-{style}{{fill:{BANDS.get(style, colour)};fill-opacity:{opacity:g}}}")
    rules += [f".m-{key}{{fill:{colour}}}" for key, colour in MARKS.items()]
    rules.append(f".m-failure{{fill:none;stroke:{_BAD};stroke-width:2}}")
    return "".join(rules)
