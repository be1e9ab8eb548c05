"""Inline SVG from plain data: time series panels and event lanes that share one time axis.

No scripts and no view box on the outside: x positions are percentages and text has a fixed size, so
a chart shrinks to a phone's width without shrinking its labels. Curves sit in a nested, horizontally
stretched `<svg>`, and their strokes do not stretch with it.

Everything goes through `element`, which escapes attributes and text; nothing here joins strings
into markup.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from markupsafe import Markup, escape

from analyzer.diagnosis.model import Window
from analyzer.language import _, ngettext
from analyzer.report import fmt
from analyzer.report.downsample import downsample

MAX_POINTS = 600
MAX_MARKS = 120
# The nested drawing is this many units wide, whatever its width on the screen.
DRAWING_WIDTH = 1000.0
DAY_S = 86400
_TIME_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_DAY_STEPS = (1, 2, 5, 10, 30, 90, 365, 1825, 3650)

Unit = Literal["share", "s", "requests", "tokens", "tokens/s", "ratio"]


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The shared x axis, in epoch seconds (UTC).

    `shade` is the incident window clipped to the axis, `others` those of further incidents; `rules` are (time, label) of
    vertical lines.
    """

    start: float
    end: float
    shade: tuple[float, float] | None = None
    rules: tuple[tuple[float, str], ...] = ()
    others: tuple[tuple[float, float], ...] = ()

    def percent(self, at: float) -> float:
        """Where a time lies, 0..100 from left to right."""
        return min(100.0, max(0.0, (at - self.start) / (self.end - self.start) * 100))


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch without gaps: `points` are (epoch s, low, high), each holding until the next.

    The last point holds until `end`. A line is drawn at `high`; a band is filled from `low` to `high`, and to the upper
    end of the axis where `high` is infinite.
    """

    points: tuple[tuple[float, float, float], ...]
    end: float


@dataclass(frozen=True, slots=True)
class Series:
    """One curve. `style` names a CSS class, which sets colour and dashes; what is `under` is drawn below the others."""

    name: str
    style: str
    segments: tuple[Segment, ...]
    band: bool = False
    filled: bool = False
    under: bool = False

    @property
    def peak(self) -> float | None:
        """The highest finite value, None without one."""
        return max((p[2] for s in self.segments for p in s.points if math.isfinite(p[2])), default=None)

    @property
    def peak_at(self) -> float | None:
        """When it was first reached, epoch seconds."""
        top = self.peak
        return next((p[0] for s in self.segments for p in s.points if p[2] == top), None)


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line that the curves are to be read against: a capacity, a cap."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes. `top` fixes the upper end of y; without it a round number is chosen."""

    key: str
    title: str
    unit: Unit
    series: tuple[Series, ...]
    top: float | None = None
    height: int = 120
    note: str = ""
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """Events between two epoch seconds (equal for one moment), already merged into one mark."""

    start: float
    end: float
    count: int
    label: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of marks. Bars grow with `count`, symbols do not."""

    key: str
    title: str
    symbol: Literal["bar", "cross", "triangle", "dot"]
    marks: tuple[Mark, ...]
    summary: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Charts over one time range. `uid` prefixes the ids of their parts."""

    uid: str
    title: str
    axis: TimeAxis
    bucket_s: float | None
    panels: tuple[Panel, ...]
    lanes: tuple[Lane, ...]
    notes: tuple[str, ...]

    @property
    def range(self) -> Window:
        """The drawn time range."""
        return Window(fmt.from_epoch(self.axis.start), fmt.from_epoch(self.axis.end))


def segments(
    times: Sequence[tuple[float, float]],
    values: Sequence[float | None],
    breaks: Sequence[int] = (),
    *,
    low: Sequence[float | None] | None = None,
    limit: int = MAX_POINTS,
) -> tuple[Segment, ...]:
    """Curves out of buckets, split where a value is None.

    `times` are (start, end) of each bucket in epoch seconds, in order; `breaks` are the sorted indices
    before which a curve must end even though both neighbours are known (a missing bucket, a restart).
    """
    # The first index after each kept one at which the curve may not go on.
    stops = sorted(set(breaks) | {i for i, v in enumerate(values) if v is None})
    found: list[Segment] = []
    points: list[tuple[float, float, float]] = []
    previous = -1
    for index in downsample(values, limit):
        if points:
            stop = _first_after(stops, previous)
            if stop <= index:
                found.append(Segment(tuple(points), times[stop - 1][1]))
                points = []
        high = values[index]
        base = low[index] if low is not None else 0.0
        assert high is not None
        points.append((times[index][0], base or 0.0, high))
        previous = index
    if points:
        last = min(_first_after(stops, previous), len(times)) - 1
        found.append(Segment(tuple(points), times[last][1]))
    return tuple(found)


def _first_after(stops: Sequence[int], index: int) -> int:
    at = bisect_right(stops, index)
    return stops[at] if at < len(stops) else 2**62


def nice_ticks(top: float, *, integer: bool = False, about: int = 4) -> tuple[float, ...]:
    """Round tick values from 0 to at least `top`, in steps of 1, 2, 2.5 or 5 times a power of ten."""
    if not math.isfinite(top) or top <= 0:
        return (0.0, 1.0)
    raw = top / about
    power = 10.0 ** math.floor(math.log10(raw))
    # The slack keeps 0.30000000000000004 from asking for a bigger step than 0.3 does.
    step = next((m * power for m in (1, 2, 2.5, 5, 10) if raw <= m * power * (1 + 1e-9)), 10 * power)
    if integer:
        step = max(1.0, step if step >= 5 else round(step + 1e-9))
    count = max(1, math.ceil(top / step - 1e-9))
    return tuple(round(i * step, 12) for i in range(count + 1))


def time_ticks(start: float, end: float, about: int = 8) -> tuple[tuple[float, str], ...]:
    """(epoch second, label) of round UTC times within the range; at midnight the label is the date."""
    span = end - start
    step: float
    step = next((s for s in _TIME_STEPS_S if span / s <= about), 0)
    if not step:
        days = span / DAY_S
        step = next((d for d in _DAY_STEPS if days / d <= about), _DAY_STEPS[-1]) * DAY_S
        # Absurd ranges (a broken clock) still end in a bounded number of ticks.
        step = max(step, math.ceil(days / about) * DAY_S) if days / _DAY_STEPS[-1] > about else step
    ticks: list[tuple[float, str]] = []
    at = math.ceil(start / step) * step
    while at <= end and len(ticks) <= 2 * about:
        ticks.append((at, _time_label(at, step)))
        at += step
    return tuple(ticks)


def _time_label(at: float, step: float) -> str:
    moment = fmt.from_epoch(at)
    if moment is None:
        return "?"
    if at % DAY_S == 0:
        month = _(fmt.MONTHS[moment.month - 1])
        if step < 90 * DAY_S:
            return _("{day} {month}", day=moment.day, month=month)
        return _("{day} {month} {year}", day=moment.day, month=month, year=moment.year)
    return moment.strftime("%H:%M:%S" if step < 60 else "%H:%M")


def axis_label(value: float, unit: Unit) -> str:
    """One tick label of a y axis."""
    if unit == "share":
        return f"{value * 100:.4g}%"
    if unit == "s":
        return f"{fmt.compact(value)} s" if value else "0"
    return fmt.compact(value)


def element(name: str, attributes: Mapping[str, object] | None = None, *children: str) -> Markup:
    """An SVG element. Plain strings are escaped, `Markup` is taken as it is; None attributes are left out."""
    attrs = Markup("").join(Markup(' {}="{}"').format(key, _plain(value)) for key, value in (attributes or {}).items() if value is not None)
    inside = Markup("").join(escape(c) for c in children)
    if not children:
        return Markup("<{}{}/>").format(name, attrs)
    return Markup("<{}{}>{}</{}>").format(name, attrs, inside, name)


def _plain(value: object) -> str:
    if isinstance(value, float):
        # Two decimals are a fifth of a pixel at most; "-0" would make equal drawings differ.
        text = f"{value:.2f}".rstrip("0").rstrip(".")
        return "0" if text in ("-0", "") else text
    return str(value)


def _pct(value: float) -> str:
    return _plain(value) + "%"


def definitions() -> Markup:
    """The symbols that marks refer to; stands once in the document, before any chart."""
    return element(
        "svg",
        {"class": "defs", "width": 0, "height": 0, "aria-hidden": "true", "focusable": "false"},
        element(
            "defs",
            None,
            element("path", {"id": "mark-cross", "d": "M-4-4L4 4M-4 4L4-4"}),
            element("path", {"id": "mark-triangle", "d": "M0-5L5 4H-5Z"}),
            element("circle", {"id": "mark-dot", "r": 3.5}),
        ),
    )


def swatch(series: Series) -> Markup:
    """The legend's sample of a curve: same colour, same dashes."""
    if series.band:
        sample = element("rect", {"class": f"band s-{series.style}", "y": 1, "width": 26, "height": 8})
    else:
        sample = element("path", {"class": f"line s-{series.style}", "d": "M1 5H25"})
    return element("svg", {"class": "swatch", "width": 26, "height": 10, "aria-hidden": "true"}, sample)


def render_axis(axis: TimeAxis, *, labels: bool = False) -> Markup:
    """A strip of time labels; with `labels` also the names of the window and of the vertical lines.

    Labels of class `alt` are those that narrow screens hide.
    """
    parts: list[Markup] = []
    y = 0
    if labels and axis.shade:
        y += 14
        parts.append(_anchored(_("incident"), sum(map(axis.percent, axis.shade)) / 2, y, "shade-name"))
    if labels and axis.rules:
        y += 14
        shown = wide = -100.0
        for at, label in axis.rules:
            x = axis.percent(at)
            # Names that would overprint are left out; the lines themselves are all there.
            if x - shown < 8:
                continue
            parts.append(_anchored(label, x, y, "rule-name alt" if x - wide < 24 else "rule-name"))
            shown = x
            if x - wide >= 24:
                wide = x
    y += 14
    for index, (at, label) in enumerate(time_ticks(axis.start, axis.end)):
        parts.append(_anchored(label, axis.percent(at), y, "tick alt" if index % 2 else "tick"))
    return element(
        "svg",
        {"class": "axis", "width": "100%", "height": y + 5, "aria-hidden": "true"},
        *(parts or [Markup("")]),
    )


def _anchored(text: str, x: float, y: float, css: str) -> Markup:
    anchor = "start" if x < 4 else "end" if x > 96 else "middle"
    return element("text", {"class": css, "x": _pct(x), "y": y, "text-anchor": anchor}, text)


def render_panel(panel: Panel, axis: TimeAxis, *, uid: str, description: str = "") -> Markup:
    """One panel. `uid` must be unique in the document; it names the title and the description (`describe` without one)."""
    peak = max([s.peak or 0.0 for s in panel.series] + [level.value for level in panel.levels], default=0.0)
    ticks = nice_ticks(
        panel.top if panel.top is not None else peak,
        integer=panel.unit in ("requests", "tokens", "tokens/s"),
        about=4 if panel.height >= 100 else 2,
    )
    top = ticks[-1]
    height = panel.height
    pad = 6  # keeps a curve at the top, and the label beside it, inside the picture
    # The name of a line at the top stands above it, clear of the curves.
    above = 15 if any(level.value >= top * 0.9 for level in panel.levels) else pad
    plot = height - pad - above

    def y(value: float) -> float:
        return above + plot * (1 - min(max(value, 0.0), top) / top)

    parts = [*_backdrop(axis, height)]
    for tick in ticks:
        at = round(y(tick), 2)
        parts.append(element("line", {"class": "grid", "x1": 0, "x2": "100%", "y1": at, "y2": at}))
        parts.append(
            element(
                "text",
                {"class": "tick", "x": -6, "y": at + 4, "text-anchor": "end"},
                axis_label(tick, panel.unit),
            )
        )
    curves = []
    for series in sorted(panel.series, key=lambda s: not s.under):
        if series.band or series.filled:
            d = "".join(_area(s, axis, y, to_zero=not series.band) for s in series.segments)
            curves.append(element("path", {"class": f"band s-{series.style}", "d": d}))
        if not series.band:
            d = "".join(_steps(s, axis, y) for s in series.segments)
            curves.append(element("path", {"class": f"line s-{series.style}", "d": d, "vector-effect": "non-scaling-stroke"}))
    parts.append(
        element(
            "svg",
            {
                "width": "100%",
                "height": height,
                "viewBox": f"0 0 {DRAWING_WIDTH:.0f} {height}",
                "preserveAspectRatio": "none",
            },
            *(curves or [Markup("")]),
        )
    )
    for level in panel.levels:
        at = round(y(level.value), 2)
        parts.append(element("line", {"class": "level", "x1": 0, "x2": "100%", "y1": at, "y2": at}))
        parts.append(element("text", {"class": "level-name", "x": "100%", "dx": -4, "y": at - 4, "text-anchor": "end"}, level.label))
    return _picture(uid, panel.title, description or describe(panel), height, parts)


def describe(panel: Panel) -> str:
    """The panel in words, for those who cannot see it."""
    words = []
    for series in panel.series:
        top = series.peak
        if top is None:
            words.append(_("{curve}: no values.", curve=series.name))
            continue
        when = fmt.clock(fmt.from_epoch(series.peak_at or 0.0))
        highest = fmt.measure(float(top), panel.unit)
        gaps = len(series.segments) - 1
        words.append(
            ngettext(
                "{curve}: highest bucket {highest} at {when}, {n} gap.",
                "{curve}: highest bucket {highest} at {when}, {n} gaps.",
                gaps,
                curve=series.name,
                highest=highest,
                when=when,
                n=fmt.number(gaps),
            )
            if gaps
            else _("{curve}: highest bucket {highest} at {when}.", curve=series.name, highest=highest, when=when)
        )
    words += [_("A line marks: {level}.", level=level.label) for level in panel.levels]
    return fmt.sentences(words)


def render_lane(lane: Lane, axis: TimeAxis, *, uid: str) -> Markup:
    """One row of event marks."""
    height = 26
    top = max((m.count for m in lane.marks), default=1)
    parts = [*_backdrop(axis, height)]
    parts.append(element("line", {"class": "grid", "x1": 0, "x2": "100%", "y1": height - 2, "y2": height - 2}))
    for mark in lane.marks:
        left, right = axis.percent(mark.start), axis.percent(mark.end)
        hint = element("title", None, mark.label)
        if lane.symbol == "bar":
            # A bar of one among hundreds still has to be seen.
            tall = max(5.0, (height - 6) * mark.count / top)
            parts.append(
                element(
                    "rect",
                    {
                        "class": f"mark m-{lane.key}",
                        "x": _pct(left),
                        "y": height - 2 - tall,
                        "width": _pct(max(0.35, right - left)),
                        "height": tall,
                    },
                    hint,
                )
            )
        else:
            parts.append(
                element(
                    "use",
                    {
                        "class": f"mark m-{lane.key}",
                        "href": f"#mark-{lane.symbol}",
                        "x": _pct((left + right) / 2),
                        "y": height / 2,
                    },
                    hint,
                )
            )
    return _picture(uid, lane.title, lane.summary, height, parts)


def _backdrop(axis: TimeAxis, height: int) -> list[Markup]:
    parts = []
    shades = [("shade", window) for window in ((axis.shade,) if axis.shade else ())] + [("shade other", window) for window in axis.others]
    for css, window in shades:
        left, right = axis.percent(window[0]), axis.percent(window[1])
        parts.append(element("rect", {"class": css, "x": _pct(left), "width": _pct(max(0.3, right - left)), "height": height}))
    for at, _label in axis.rules:
        x = _pct(axis.percent(at))
        parts.append(element("line", {"class": "rule", "x1": x, "x2": x, "y1": 0, "y2": height}))
    return parts


def _picture(uid: str, title: str, description: str, height: int, parts: Sequence[Markup]) -> Markup:
    return element(
        "svg",
        {
            "class": "plot",
            "role": "img",
            "width": "100%",
            "height": height,
            "aria-labelledby": f"{uid}-t {uid}-d",
        },
        element("title", {"id": f"{uid}-t"}, title),
        element("desc", {"id": f"{uid}-d"}, description or _("No marks.")),
        *parts,
    )


def _x(axis: TimeAxis, at: float) -> str:
    return _plain(axis.percent(at) / 100 * DRAWING_WIDTH)


def _steps(segment: Segment, axis: TimeAxis, y: Callable[[float], float]) -> str:
    first = segment.points[0]
    d = [f"M{_x(axis, first[0])} {_plain(y(first[2]))}"]
    for before, point in pairwise(segment.points):
        d.append(f"H{_x(axis, point[0])}")
        if point[2] != before[2]:
            d.append(f"V{_plain(y(point[2]))}")
    d.append(f"H{_x(axis, segment.end)}")
    return "".join(d)


def _area(segment: Segment, axis: TimeAxis, y: Callable[[float], float], *, to_zero: bool) -> str:
    d = [_steps(segment, axis, y)]
    ends = [p[0] for p in segment.points[1:]] + [segment.end]
    if to_zero:
        d.append(f"V{_plain(y(0.0))}H{_x(axis, segment.points[0][0])}Z")
        return "".join(d)
    # Back along the lower edge, from right to left.
    for point, end in zip(reversed(segment.points), reversed(ends), strict=True):
        d.append(f"L{_x(axis, end)} {_plain(y(point[1]))}H{_x(axis, point[0])}")
    d.append("Z")
    return "".join(d)
