"""How the host's speed moved while the incident was recorded: the seconds that steps took against those that the model gives them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyzer.replay.fit.pauses import Pause
from analyzer.replay.fit.work import Work, joined, matrix
from analyzer.replay.step_time import Pace, StepTime

# A piece holds this many steps, or this many of the lumps in which work is told: fewer would turn chance into pace.
_LEAST_STEPS = 20.0
_LEAST_LUMPS = 10.0
# Within these bounds a piece's speed is the model's own.
_STEADY = 0.15
_STEADY_SHARE = 0.9
_FASTEST = 0.2
# What is left of a pause below this is no pause.
_LEAST_PAUSE_S = 0.05


def seconds_of(step_time: StepTime, rows: Sequence[Work]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """What the model gives each row."""
    s = step_time
    found = matrix(rows) @ np.array([s.base_s, s.token_s, s.request_s, s.prefill_s, s.attended_s, s.kv_token_s])
    return np.asarray(found, dtype=np.float64)


def pace_of(step_time: StepTime, rows: Sequence[Work], pauses: Sequence[Pause]) -> Pace:
    """The pace that makes each piece of the replay take as long as it took. Where the speed hardly moved, the model's own.

    What is told too late by one row and made up for by the next is one piece, so that the work done by each boundary is what was counted.
    Of `pauses` only as much is the engine's as its own counters leave room for: the rest stopped what its clients saw, and not the engine.
    """
    pieces = _pieces(rows)
    model = seconds_of(step_time, pieces)
    at, factors, kept = [0.0], [1.0], []
    off = 0.0
    for piece, seconds in zip(pieces, model, strict=True):
        inside = [(max(p, piece.start_s), min(p + s, piece.end_s)) for p, s in pauses if p < piece.end_s and p + s > piece.start_s]
        still = sum(end - start for start, end in inside)
        share = min(1.0, max(0.0, piece.seconds - float(seconds)) / still) if still else 0.0
        kept += [(start, (end - start) * share) for start, end in inside]
        factor = max(_FASTEST, (piece.seconds - still * share) / max(float(seconds), 1e-9))
        off += seconds if abs(factor - 1.0) > _STEADY else 0.0
        if piece.start_s <= at[-1]:
            factors[-1] = factor
        else:
            at.append(piece.start_s)
            factors.append(factor)
    for start, length in pauses:
        kept += [(a, b - a) for a, b in _outside(start, start + length, pieces)]
    stood = tuple(p for p in _apart(kept) if p[1] >= _LEAST_PAUSE_S)
    if off <= (1.0 - _STEADY_SHARE) * float(np.sum(model)):
        return Pace(pauses=stood)
    # what comes after the capture runs at the model's speed
    return Pace((*at, pieces[-1].end_s), (*factors, 1.0), stood)


def _outside(start: float, end: float, pieces: Sequence[Work]) -> list[tuple[float, float]]:
    """What of a stretch lies in none of the pieces."""
    out = []
    for piece in pieces:
        if piece.end_s <= start or piece.start_s >= end:
            continue
        if piece.start_s > start:
            out.append((start, piece.start_s))
        start = max(start, piece.end_s)
    return [*out, (start, end)] if end > start else out


def _apart(pauses: Sequence[Pause]) -> list[Pause]:
    """In order; those that touch are one, the sum of both long."""
    out: list[Pause] = []
    for start, length in sorted(pauses):
        if out and start <= out[-1][0] + out[-1][1] + 1e-6:
            begin, before = out[-1]
            out[-1] = (begin, before + length)
        else:
            out.append((start, length))
    return out


def slowed_share(pace: Pace, end_s: float, times: float) -> float:
    """Share of the time up to `end_s` at which steps took more than `times` as long as the model says, pauses among it."""
    if end_s <= 0:
        return 0.0
    edges = [*pace.at_s[1:], max(end_s, pace.at_s[-1])]
    slow = sum(
        max(0.0, min(end, end_s) - max(0.0, start)) - _overlap(pace.pauses, max(0.0, start), min(end, end_s))
        for start, end, factor in zip(pace.at_s, edges, pace.slower, strict=True)
        if factor > times and end > max(0.0, start)
    )
    return (slow + _overlap(pace.pauses, 0.0, end_s)) / end_s


def _pieces(rows: Sequence[Work]) -> list[Work]:
    out: list[Work] = []
    open_rows: list[Work] = []
    for row in rows:
        open_rows.append(row)
        whole = joined(open_rows)
        if whole.steps >= max(_LEAST_STEPS, _LEAST_LUMPS * whole.lump):
            out.append(whole)
            open_rows = []
    if open_rows:
        if out:
            out[-1] = joined([out[-1], *open_rows])
        else:
            out = [joined(open_rows)]
    return out


def _overlap(pauses: Sequence[Pause], start_s: float, end_s: float) -> float:
    return sum(max(0.0, min(end_s, p + s) - max(start_s, p)) for p, s in pauses)
