"""A ladder as inline SVG, by the rules of `analyzer.report.charts`: places in per cent, text of a fixed size, all through `element`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup

from analyzer.language import _
from analyzer.report import fmt
from analyzer.report.charts import DRAWING_WIDTH, axis_label, element, nice_ticks
from analyzer.report.replay.ladder import round_times
from analyzer.report.replay.model import Ladder, Rung

HEIGHT = 170
_ABOVE, _BELOW = 14, 6
# A wait is written beside its mark where no other one stands there: pixels of a line and of a sign, on the narrowest of drawings that
# stand side by side.
_LINE, _SIGN, _NARROW = 13, 6.4, 290
# Two sizes under the axis are this far apart, in per cent of the width.
_GAP = 1.5
_MARGIN = 3.0
# Lines of a logarithmic grid.
_LINES = 8


def render_ladder(ladder: Ladder, *, uid: str) -> Markup:
    """The curve with its band, a mark for each size, and the present size as a vertical line. `uid` is unique in the document."""
    x, y = _places(ladder)
    parts = [*_grid(ladder, y)]
    for rung in ladder.rungs:
        if rung.now:
            at = f"{x(rung):.2f}%"
            parts.append(element("line", {"class": "rule", "x1": at, "x2": at, "y1": 0, "y2": HEIGHT}))
    box = {"width": "100%", "height": HEIGHT, "viewBox": f"0 0 {DRAWING_WIDTH:.0f} {HEIGHT}", "preserveAspectRatio": "none"}
    parts.append(element("svg", box, *(_curves(ladder, x, y) or [Markup("")])))
    parts += [_mark(rung, x(rung), y) for rung in ladder.rungs if rung.p99_s is not None]
    parts += _waits(ladder.rungs, x, y)
    names = {"role": "img", "aria-labelledby": f"{uid}-t {uid}-d"}
    picture = element(
        "svg",
        {"class": "plot", "width": "100%", "height": HEIGHT, **names},
        element("title", {"id": f"{uid}-t"}, ladder.title),
        element("desc", {"id": f"{uid}-d"}, fmt.sentences(_("{what}.", what=r.hint) for r in ladder.rungs)),
        *parts,
    )
    return picture + _labels(ladder.rungs, x)


def _places(ladder: Ladder) -> tuple[Callable[[Rung], float], Callable[[float], float]]:
    """Where a size lies, in per cent from left to right, and a wait, in pixels from the top; one without end lies at the top."""
    least, most = ladder.rungs[0].tokens, ladder.rungs[-1].tokens
    plot = HEIGHT - _ABOVE - _BELOW

    def x(rung: Rung) -> float:
        return _MARGIN + (100 - 2 * _MARGIN) * (rung.tokens - least) / (most - least)

    def y(seconds: float) -> float:
        if ladder.floor_s:
            decades = math.log10(ladder.top_s / ladder.floor_s)
            share = math.log10(max(seconds, ladder.floor_s) / ladder.floor_s) / decades if math.isfinite(seconds) else 1.0
        else:
            share = seconds / ladder.top_s
        return round(_ABOVE + plot * (1 - min(max(share, 0.0), 1.0)), 2)

    return x, y


def _grid(ladder: Ladder, y: Callable[[float], float]) -> Iterator[Markup]:
    for tick in _ticks(ladder):
        at = y(tick)
        yield element("line", {"class": "grid", "x1": 0, "x2": "100%", "y1": at, "y2": at})
        yield element("text", {"class": "tick", "x": -6, "y": at + 4, "text-anchor": "end"}, axis_label(tick, "s"))


def _ticks(ladder: Ladder) -> tuple[float, ...]:
    if not ladder.floor_s:
        return nice_ticks(ladder.top_s)
    every = round_times(ladder.floor_s, ladder.top_s)
    if len(every) <= _LINES:
        return every
    decades = [t for t in every if math.isclose(math.log10(t) % 1, 0.0, abs_tol=1e-9)]
    return tuple(decades[:: math.ceil(len(decades) / _LINES)])


def _curves(ladder: Ladder, x: Callable[[Rung], float], y: Callable[[float], float]) -> list[Markup]:
    """Line and band, cut where a wait is not known or has no end."""

    def across(rung: Rung) -> str:
        return f"{x(rung) / 100 * DRAWING_WIDTH:.2f}"

    lines, bands = [], []
    for run in _runs(ladder.rungs, lambda r: r.p99_s is not None and math.isfinite(r.p99_s)):
        lines.append("M" + "L".join(f"{across(r)} {y(r.p99_s or 0.0)}" for r in run))
        highs = [f"{across(r)} {y(r.p99_s or 0.0) if r.high_s is None else y(r.high_s)}" for r in run]
        lows = [f"{across(r)} {y(r.p99_s or 0.0) if r.low_s is None else y(r.low_s)}" for r in reversed(run)]
        if any(r.low_s is not None and r.high_s is not None for r in run):
            bands.append("M" + "L".join(highs + lows) + "Z")
    style = "doubtful" if not any(r.trusted for r in ladder.rungs) else ladder.key
    drawn = []
    if bands:
        drawn.append(element("path", {"class": f"band s-{style}", "d": "".join(bands)}))
    if lines:
        drawn.append(element("path", {"class": f"line s-{style}", "d": "".join(lines), "vector-effect": "non-scaling-stroke"}))
    return drawn


def _runs(rungs: Sequence[Rung], known: Callable[[Rung], bool]) -> Iterator[list[Rung]]:
    run: list[Rung] = []
    for rung in rungs:
        if known(rung):
            run.append(rung)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _mark(rung: Rung, x: float, y: Callable[[float], float]) -> Markup:
    """A dot, hollow where it is not trusted; a triangle at the top where some never get a first token."""
    assert rung.p99_s is not None
    endless = math.isinf(rung.p99_s)
    css = "rung" if rung.trusted else "rung doubtful"
    place = {"x": f"{x:.2f}%", "y": 6 if endless else y(rung.p99_s)}
    return element("use", {"class": css, "href": "#mark-triangle" if endless else "#mark-dot", **place}, element("title", None, rung.hint))


def _waits(rungs: Sequence[Rung], x: Callable[[Rung], float], y: Callable[[float], float]) -> Iterator[Markup]:
    """The waits beside their marks; the present one first, then the ends, then what has room. One without end is a triangle."""
    taken: list[tuple[float, float, float]] = []
    for rung in _by_weight(rungs):
        if rung.p99_s is None or not math.isfinite(rung.p99_s):
            continue
        at, mark = x(rung), y(rung.p99_s)
        width = _wide(rung.p99)
        anchor = _anchor(at, width)
        left = _left(at, width, anchor)
        for base in (mark - 8, mark + 16):
            if _LINE <= base <= HEIGHT and not any(
                left < end and left + width > begin and abs(base - other) < _LINE for begin, end, other in taken
            ):
                taken.append((left, left + width, base))
                place = {"x": f"{at:.2f}%", "y": round(base, 2), "text-anchor": anchor}
                yield element("text", {"class": "wait" if rung.trusted else "wait doubtful", **place}, rung.p99)
                break


def _by_weight(rungs: Sequence[Rung]) -> list[Rung]:
    return sorted(rungs, key=lambda r: (not r.now, r not in (rungs[0], rungs[-1])))


def _wide(text: str) -> float:
    """How wide a text is, in per cent of a narrow drawing."""
    return 100 * _SIGN * len(text) / _NARROW


def _left(at: float, width: float, anchor: str) -> float:
    return at - {"start": 0.0, "middle": width / 2, "end": width}[anchor]


def _anchor(at: float, width: float) -> str:
    """So that a text of `width` per cent stays inside."""
    return "start" if at < width / 2 else "end" if at + width / 2 > 100 else "middle"


def _labels(rungs: Sequence[Rung], x: Callable[[Rung], float]) -> Markup:
    """Factors, and below them tokens; the present size first, then the ends, then what has room."""
    taken: list[tuple[float, float]] = []
    parts = []
    for rung in _by_weight(rungs):
        at, lines = x(rung), (rung.label, fmt.compact(rung.tokens))
        width = _wide(max(lines, key=len))
        anchor = _anchor(at, width)
        left = _left(at, width, anchor)
        if any(left < end + _GAP and begin < left + width + _GAP for begin, end in taken):
            continue
        taken.append((left, left + width))
        for line, text in enumerate(lines):
            place = {"x": f"{at:.2f}%", "y": 14 + 14 * line, "text-anchor": anchor}
            parts.append(element("text", {"class": "rule-name" if rung.now else "tick", **place}, text))
    return element("svg", {"class": "axis", "width": "100%", "height": 33, "aria-hidden": "true"}, *parts)


def rung_swatch(css: str) -> Markup:
    """The legend's sample of a mark."""
    mark = element("use", {"class": css, "href": "#mark-dot", "x": 6, "y": 6})
    return element("svg", {"class": "swatch", "width": 12, "height": 12, "aria-hidden": "true"}, mark)
