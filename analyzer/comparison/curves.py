"""The aligned charts: A and B as two curves over one axis of time since each side's start, or since its incident's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from analyzer.comparison.side import Side
from analyzer.diagnosis.diagnose import rows
from analyzer.language import _
from analyzer.report import fmt, words
from analyzer.report.buckets import Bucket, breaks, read_buckets
from analyzer.report.charts import Lane, Mark, Panel, Segment, Series, TimeAxis, Unit, element, segments

Align = Literal["start", "incident"]
# Two curves over each other can be read up to here; more points are only noise.
MAX_STEPS = 150
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_TICKS = 8
MAX_MARKS = 40


@dataclass(frozen=True, slots=True)
class DrawnPanel:
    """A panel, and in words what it shows."""

    panel: Panel
    description: str


@dataclass(frozen=True, slots=True)
class Figure:
    """All panels over one axis in seconds since the moment that `align` names; `step_s` is how long one value stands for."""

    axis: TimeAxis
    align: Align
    step_s: float
    panels: tuple[DrawnPanel, ...]
    lanes: tuple[Lane, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Track:
    """One side's buckets, and the epoch second that is 0 on the axis."""

    letter: Literal["A", "B"]
    side: Side
    buckets: list[Bucket]
    origin: float

    @property
    def start(self) -> float:
        return self.buckets[0].start - self.origin

    @property
    def end(self) -> float:
        return max(b.end for b in self.buckets) - self.origin


def figure(a: Side, b: Side, align: Align = "start") -> Figure | None:
    """The charts of both; None where neither has anything over time. Without an incident a side is aligned by its start."""
    notes: list[str] = []
    tracks = [t for t in (_track("A", a, align, notes), _track("B", b, align, notes)) if t is not None]
    if not tracks:
        return None
    start, end = min(t.start for t in tracks), max(t.end for t in tracks)
    finest = max(b.end - b.start for t in tracks for b in t.buckets)
    step = next((s for s in _STEPS_S if s >= finest and (end - start) / s <= MAX_STEPS), (end - start) / MAX_STEPS)
    drawn = []
    for panel in _panels(tracks, step):
        series = tuple(s for s in panel.series if s.segments)
        if not series:
            notes.append(_("{panel}: reported by neither side.", panel=panel.title))
            continue
        whole = Panel(panel.key, panel.title, panel.unit, series, panel.top, panel.height, panel.note)
        drawn.append(DrawnPanel(whole, _describe(whole)))
    return Figure(TimeAxis(start, end), align, float(step), tuple(drawn), tuple(_incidents(t) for t in tracks), tuple(notes))


def _track(letter: Literal["A", "B"], side: Side, align: Align, notes: list[str]) -> _Track | None:
    buckets = read_buckets(side.trace.con, side.instance.instance)
    if not buckets:
        notes.append(_("{side} has nothing over time.", side=letter))
        return None
    origin = buckets[0].start
    if align == "incident":
        window = side.instance.incidents[0].window if side.instance.incidents else None
        if window and window.start:
            origin = window.start.timestamp()
        else:
            notes.append(_("{side} has no incident: it is drawn from its start.", side=letter))
    return _Track(letter, side, buckets, origin)


def _panels(tracks: Sequence[_Track], step: float) -> list[Panel]:
    def both(name: str, key: str, title: str, unit: Unit, of: Callable[[Sequence[float]], float], **more: object) -> Panel:
        top = more.get("top")
        return Panel(
            key,
            title,
            unit,
            tuple(_series(t, _values(t, name), step, of) for t in tracks),
            top=top if isinstance(top, float) else None,
            height=90,
            note=str(more.get("note", "")),
        )

    ttft = any(b.get("ttft_p99_s") is not None for t in tracks for b in t.buckets)
    first = (
        both("ttft_p99_s", "ttft", _("TTFT P99"), "s", max, note=_ttft_note(tracks))
        if ttft
        else both("wait_est_s", "ttft", _("Queue wait (estimate)"), "s", max, note=_("TTFT was recorded by neither side."))
    )
    return [
        first,
        both("waiting", "waiting", _("Requests waiting"), "requests", max),
        both("running", "running", _("Requests running"), "requests", max),
        both("kv_usage", "kv", _("KV usage"), "share", max, top=1.0),
        Panel(
            "thrown",
            _("Retracted or preempted"),
            "requests",
            tuple(_series(t, _thrown(t), step, sum) for t in tracks),
            height=90,
            note=_("Summed over each interval."),
        ),
        both("prompt_tps", "prefill", _("Prefill throughput"), "tokens/s", _mean, note=_("Mean of each interval.")),
        both("gen_tps", "decode", _("Decode throughput"), "tokens/s", _mean, note=_("Mean of each interval.")),
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _values(track: _Track, name: str) -> list[float | None]:
    return [b.get(name) for b in track.buckets]


def _thrown(track: _Track) -> list[float | None]:
    """Retractions and preemptions; a bucket that tells of none had none, where the engine shows them and anything was reported."""
    peaks = track.side.instance.peaks
    if (peaks.preemptions if track.side.instance.engine == "vllm" else peaks.retracted_requests) is None:
        return [None] * len(track.buckets)
    return [
        (b.get("retracted") or 0.0) + (b.get("preempted") or 0.0)
        if b.get("waiting") is not None or b.get("retracted") or b.get("preempted")
        else None
        for b in track.buckets
    ]


def _series(track: _Track, values: Sequence[float | None], step: float, of: Callable[[Sequence[float]], float]) -> Series:
    """One side's curve in intervals of `step` seconds; one in which nothing was told is a gap."""
    stops = set(breaks(track.buckets))
    known: dict[int, list[float]] = {}
    ended: set[int] = set()
    for at, (bucket, value) in enumerate(zip(track.buckets, values, strict=True)):
        index = math.floor((bucket.start - track.origin) / step + 1e-9)
        if at in stops:
            ended.add(index)
        if value is not None:
            known.setdefault(index, []).append(value)
    drawn: tuple[Segment, ...] = ()
    if known:
        indices = range(min(known), max(known) + 1)
        times = [(i * step, min((i + 1) * step, track.end)) for i in indices]
        told = [of(known[i]) if i in known else None for i in indices]
        drawn = segments(times, told, [n for n, i in enumerate(indices) if n and i in ended])
    return Series(f"{track.letter}: {fmt.clean(track.side.name, 60)}", f"side-{track.letter.lower()}", drawn)


def _ttft_note(tracks: Sequence[_Track]) -> str:
    """Where TTFT was read, for each side where they differ."""
    told = []
    for track in tracks:
        sources = sorted({words.ttft_source(b.ttft_source) for b in track.buckets if b.ttft_source})
        told.append((track.letter, fmt.listed(sources) or _("not recorded")))
    if len({t for _letter, t in told}) == 1:
        where = _("Read from {sources}.", sources=told[0][1])
    else:
        where = _("Read from: {sources}.", sources=fmt.listed(f"{letter}: {t}" for letter, t in told))
    return fmt.sentences((_("The highest P99 of each interval."), where))


def _incidents(track: _Track) -> Lane:
    """The incidents of one side, the longest where there are many."""
    found = rows(
        track.side.trace.con,
        "SELECT epoch_us(start_ts) / 1e6 AS first, epoch_us(end_ts) / 1e6 AS last FROM incident "
        "WHERE instance = ? AND broke AND start_ts IS NOT NULL ORDER BY end_ts - start_ts DESC, start_ts LIMIT ?",
        track.side.instance.instance,
        MAX_MARKS,
    )
    spans = sorted((r["first"] - track.origin, r["last"] - track.origin) for r in found)
    marks = tuple(Mark(first, last, 1, _("{start} to {end}", start=since(first), end=since(last))) for first, last in spans)
    return Lane(
        f"side-{track.letter.lower()}",
        _("Incidents of {side}", side=track.letter),
        "bar",
        marks,
        summary=_("none") if not marks else fmt.listed(m.label for m in marks[:3]),
    )


def since(seconds: float) -> str:
    """A moment of the axis: `+5 min`, `0 s`, `−30 s`."""
    text = fmt.duration(abs(seconds))
    return text if seconds == 0 else f"{'+' if seconds > 0 else '−'}{text}"


def _describe(panel: Panel) -> str:
    said = []
    for series in panel.series:
        top, at = series.peak, series.peak_at
        if top is None or at is None:
            said.append(_("{curve}: no values.", curve=series.name))
        else:
            said.append(
                _("{curve}: highest {highest} at {when}.", curve=series.name, highest=fmt.measure(float(top), panel.unit), when=since(at))
            )
    return fmt.sentences(said)


def ticks(axis: TimeAxis) -> tuple[float, ...]:
    """Round seconds on the axis, 0 among them."""
    span = axis.end - axis.start
    step = float(next((s for s in _STEPS_S if span / s <= _TICKS), 86400 * math.ceil(span / 86400 / _TICKS)))
    return tuple(i * step for i in range(math.ceil(axis.start / step), math.floor(axis.end / step) + 1))


def render_ticks(axis: TimeAxis) -> Markup:
    """A strip of labels: time since the moment that both sides are aligned by."""
    labels = []
    for n, at in enumerate(ticks(axis)):
        x = axis.percent(at)
        anchor = "start" if x < 4 else "end" if x > 96 else "middle"
        css = "tick alt" if n % 2 else "tick"
        labels.append(element("text", {"class": css, "x": f"{x:.2f}%", "y": 14, "text-anchor": anchor}, since(at)))
    return element("svg", {"class": "axis", "width": "100%", "height": 19, "aria-hidden": "true"}, *(labels or [Markup("")]))
