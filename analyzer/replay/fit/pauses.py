"""When the host stood still while it was recorded: first tokens that came late though nothing was in the way tell, and long gaps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from analyzer.replay.fit.seen import Seen
from analyzer.replay.fit.work import Work
from analyzer.replay.model import ObservedCurve
from analyzer.replay.settings import Settings
from analyzer.replay.step_time import Pace

Pause = tuple[float, float]

# Shorter ones are not told from a slow step.
_LEAST_S = 0.1
# A first token is late, and a gap between tokens long, from this many times what the model says on.
_TIMES = 4.0
# Fuller than this, the pool may have held a request back.
_ROOM = 0.8


@dataclass(frozen=True, slots=True)
class Pauses:
    """`pauses` in order and apart; `stalls` are those that late first tokens told of: no client got one in them, whatever the engine did.

    `overhead_s` is what a first token takes beside the engine, by the `unqueued` requests: those that had nothing to wait for.
    """

    pauses: tuple[Pause, ...]
    stalls: tuple[Pause, ...]
    overhead_s: float
    unqueued: tuple[Seen, ...] = ()


def find_pauses(
    requests: Sequence[Seen],
    expected: Callable[[Seen, int], float],
    slowest_step_s: float,
    settings: Settings,
    waiting: ObservedCurve | None,
    usage: ObservedCurve | None,
    rows: Sequence[Work],
    retracted: bool,
    end_s: float,
) -> Pauses:
    """`expected` gives the seconds to a first token with nothing in the way, from the request and the prompt tokens to compute until then.

    `retracted`: a gap between tokens may be that of a request thrown out, and tells nothing.
    """
    calm = _unqueued(requests, settings, waiting)
    times = [(r, expected(r, _prompt_tokens_until(r, requests))) for r in calm]
    beside = [first - r.arrival_s - s for r, s in times if (first := r.first_token_s) is not None]
    overhead = max(0.0, median(beside)) if beside else 0.0
    pauses: list[Pause] = []
    for r, seconds in times:
        first = r.first_token_s
        if first is None or (_most(usage, r.arrival_s, first) or 0.0) >= _ROOM:
            continue
        would = Pace(pauses=tuple(pauses)).end(r.arrival_s, seconds) + overhead
        if first - would <= max(_LEAST_S, _TIMES * (seconds + overhead)):
            continue
        # those before it had their first token by then: the host was up
        up = max((f for q in requests if (f := q.first_token_s) is not None and q.arrival_s <= r.arrival_s and f < first), default=0.0)
        start = max(r.arrival_s, up, max((p + s for p, s in pauses), default=0.0))
        if first - overhead - start > _LEAST_S:
            pauses.append((start, first - overhead - start))
    stalls = tuple(pauses)
    if not retracted:
        for pause in _gaps(requests, max(_LEAST_S, _TIMES * slowest_step_s), rows, pauses, end_s):
            pauses = _apart([*pauses, pause])
    return Pauses(tuple(pauses), stalls, overhead, tuple(calm))


def _unqueued(requests: Sequence[Seen], settings: Settings, waiting: ObservedCurve | None) -> list[Seen]:
    """Requests with a first token that had nothing to wait for: none waited before, during and after, and below the cap."""
    if waiting is None:
        return []
    flight = sorted([(r.arrival_s, 1) for r in requests] + [(r.finish_s, -1) for r in requests if r.finish_s is not None])
    found = []
    level, at = 0, 0
    for r in requests:
        while at < len(flight) and flight[at][0] <= r.arrival_s:
            level += flight[at][1]
            at += 1
        first = r.first_token_s
        if first is None or level > settings.max_running or r.retractions:
            continue
        if _most(waiting, r.arrival_s, first) == 0:
            found.append(r)
    return found


def _most(curve: ObservedCurve | None, start_s: float, end_s: float) -> float | None:
    """The highest value from the one before to the one after; None where there is none before. After the last one nothing more is known."""
    if curve is None:
        return None
    low, high = bisect_right(curve.at_s, start_s) - 1, bisect_left(curve.at_s, end_s)
    if low < 0:
        return None
    return max(curve.values[low : high + 1])


def _prompt_tokens_until(request: Seen, requests: Sequence[Seen]) -> int:
    """Prompt tokens that were computed while it waited, its own with them, those of others that were in the engine at the same time."""
    first = request.first_token_s
    if first is None:
        return request.prompt_tokens
    total = 0
    for q in requests:
        if q.arrival_s > first:
            break
        if q.first_token_s is not None and request.arrival_s < q.first_token_s <= first:
            total += q.prompt_tokens - q.cached_tokens
    return total


def _gaps(requests: Sequence[Seen], least_s: float, rows: Sequence[Work], known: Sequence[Pause], end_s: float) -> list[Pause]:
    """Pauses that the longest gaps between tokens tell of, placed where the engine's counters moved least."""
    told = sorted(
        (
            (r.itl_max_s, r.first_token_s, r.finish_s)
            for r in requests
            if r.itl_max_s is not None
            and r.itl_max_s > least_s
            and r.first_token_s is not None
            and r.finish_s is not None
            and not r.retractions
        ),
        key=lambda g: (-g[0], g[1]),
    )
    found: list[Pause] = []
    for length, first, finish in told:
        if any(min(finish, p + s) - max(first, p) > 0.6 * length for p, s in (*known, *found)):
            continue
        low, high = first, finish
        # others with a gap of the same length that were there too saw the same one
        for other, begin, end in told:
            if 0.8 * length <= other <= 1.25 * length and min(high, end) - max(low, begin) >= other:
                low, high = max(low, begin), min(high, end)
        start = _stillest(rows, low, max(low, high - length), length)
        if not any(start < p + s and p < start + length for p, s in (*known, *found)):
            found.append((start, length))
    return found


def _stillest(rows: Sequence[Work], low: float, high: float, length: float) -> float:
    """The start between `low` and `high` of the `length` seconds in which the fewest steps were counted, the middle of equals."""
    tries = 9
    starts = [low + (high - low) * k / (tries - 1) for k in range(tries)]
    done = [sum(_steps(row, s, s + length) for row in rows) for s in starts]
    least = [s for s, n in zip(starts, done, strict=True) if n <= min(done) + 0.5]
    return least[len(least) // 2]


def _steps(row: Work, start_s: float, end_s: float) -> float:
    shared = min(row.end_s, end_s) - max(row.start_s, start_s)
    return row.steps * shared / (row.end_s - row.start_s) if shared > 0 else 0.0


def _apart(pauses: Sequence[Pause]) -> list[Pause]:
    """In order; what overlaps is one."""
    out: list[Pause] = []
    for start, length in sorted(pauses):
        if out and start <= out[-1][0] + out[-1][1]:
            begin, before = out[-1]
            out[-1] = (begin, max(before, start + length - begin))
        else:
            out.append((start, length))
    return out
