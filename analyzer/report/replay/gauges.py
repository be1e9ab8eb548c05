"""The server's gauges as observed and as replayed, over each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from analyzer.diagnosis.model import Window
from analyzer.language import _
from analyzer.replay.model import Case, ObservedCurve, Study
from analyzer.replay.result import Replayed
from analyzer.report import fmt
from analyzer.report.charts import Panel, Series, TimeAxis, Timeline, Unit, segments

UID = "replay"
_HEIGHT = 96
# Two curves over each other can be read up to here.
_BUCKETS = 180
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
# A gauge holds until its next sample, for at most three times its usual interval; then nothing is known.
_HOLD_INTERVALS = 3

Numbers = NDArray[np.float64]


def gauges(study: Study, window: Window) -> Timeline | None:
    """Waiting, running and KV usage where the capture tells them; `window` is the incident. None where it tells none, or no time passed."""
    case, replayed = study.case, study.calibration.unchanged
    end_s = min(case.end_s, replayed.end_s)
    if end_s <= 0:
        return None
    step = next((float(s) for s in _STEPS_S if end_s / s <= _BUCKETS), end_s / _BUCKETS)
    edges = np.append(np.arange(0.0, end_s, step), end_s)
    start = case.start.timestamp() if case.start else 0.0
    waiting, running, usage = _replayed(replayed, edges)
    panels = [
        _panel("waiting", _("Requests waiting"), "requests", start, edges, case.observed.waiting, waiting),
        _panel("running", _("Requests running"), "requests", start, edges, case.observed.running, running),
        _panel("kv", _("KV usage"), "share", start, edges, case.observed.kv_usage, usage),
    ]
    drawn = tuple(p for p in panels if p is not None)
    if not drawn:
        return None
    notes = (_("Means over {step}.", step=fmt.duration(step)),) if case.start else (
        _("Means over {step}.", step=fmt.duration(step)), _("Times count from the beginning of the replay."),
    )  # fmt: skip
    title = _("Observed and replayed")
    return Timeline(UID, title, TimeAxis(start, start + end_s, shade=_shade(case, window, end_s)), step, drawn, (), notes)


def _shade(case: Case, window: Window, end_s: float) -> tuple[float, float] | None:
    """The incident as far as it was replayed."""
    if case.start is None or window.start is None:
        return None
    begin, end = case.start.timestamp(), case.start.timestamp() + end_s
    first = max(begin, window.start.timestamp())
    last = min(end, window.end.timestamp() if window.end else end)
    return (first, last) if first < last else None


def _panel(
    key: str, title: str, unit: Unit, start: float, edges: Numbers, observed: ObservedCurve | None, replayed: Sequence[float | None]
) -> Panel | None:
    if observed is None or not observed.at_s:
        return None
    times = [(start + float(a), start + float(b)) for a, b in pairwise(edges)]
    return Panel(
        key,
        title,
        unit,
        (
            Series(_("observed"), "observed", segments(times, _observed(observed, edges))),
            Series(_("replayed"), "replayed", segments(times, replayed)),
        ),
        top=1.0 if unit == "share" else None,
        height=_HEIGHT,
        note=_("Observed: {source}.", source=fmt.clean(observed.source, 200)) if observed.source else "",
    )


def _observed(curve: ObservedCurve, edges: Numbers) -> list[float | None]:
    """Means of the buckets, each sample held until the next one; None where nothing was reported."""
    at = np.asarray(curve.at_s, dtype=np.float64)
    values = np.asarray(curve.values, dtype=np.float64)
    usual = float(np.median(np.diff(at))) if len(at) > 1 else float(edges[-1])
    ends = np.minimum(np.append(at[1:], np.inf), at + _HOLD_INTERVALS * usual)
    known = np.isfinite(values)
    return means(edges, at[known], ends[known], values[known], values[known])


def _replayed(replayed: Replayed, edges: Numbers) -> tuple[list[float | None], list[float | None], list[float | None]]:
    """Waiting, running and usage; between two stretches of steps the server is idle, which is 0 and known."""
    curves = replayed.curves
    starts, ends = np.asarray(curves.start_s, dtype=np.float64), np.asarray(curves.end_s, dtype=np.float64)

    def of(first: Sequence[float], last: Sequence[float]) -> list[float | None]:
        told = means(edges, starts, ends, np.asarray(first, dtype=np.float64), np.asarray(last, dtype=np.float64), idle=0.0)
        return list(told)

    used_from = [v / replayed.l1_tokens for v in curves.used_tokens_start]
    used_to = [v / replayed.l1_tokens for v in curves.used_tokens_end]
    return of(curves.waiting, curves.waiting), of(curves.running, curves.running), of(used_from, used_to)


def means(
    edges: Numbers, starts: Numbers, ends: Numbers, first: Numbers, last: Numbers, *, idle: float | None = None
) -> list[float | None]:
    """The time-weighted mean between each edge and the next of what moves evenly from `first` to `last` over each stretch.

    Stretches are in order and do not overlap. Where there is none the value is `idle`, and with None not known and not counted.
    """
    if not len(starts):
        return [idle] * (len(edges) - 1)
    covered = _up_to(edges, starts, ends, np.ones(len(starts)), np.ones(len(starts)))
    summed = _up_to(edges, starts, ends, first, last)
    seconds, sums = np.diff(covered), np.diff(summed)
    if idle is not None:
        whole = np.diff(edges)
        sums = sums + idle * (whole - seconds)
        seconds = whole
    return [float(total / length) if length > 1e-9 else None for total, length in zip(sums, seconds, strict=True)]


def _up_to(at: Numbers, starts: Numbers, ends: Numbers, first: Numbers, last: Numbers) -> Numbers:
    """The integral over all stretches from the beginning to each moment."""
    lengths = np.maximum(ends - starts, 0.0)
    before = np.concatenate(([0.0], np.cumsum(lengths * (first + last) / 2)))
    index = np.maximum(np.searchsorted(starts, at, side="right") - 1, 0)
    into = np.clip(at - starts[index], 0.0, lengths[index])
    slope = np.divide(last - first, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return before[index] + into * (first[index] + slope[index] * into / 2)
