"""The seconds of a step, fitted to what the same capture tells, and how the host's speed moved in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median

import duckdb
import numpy as np

from analyzer.language import _
from analyzer.replay.fit.felt import felt_work
from analyzer.replay.fit.lines import Printed, printed_work
from analyzer.replay.fit.observed import curves, retractions
from analyzer.replay.fit.pace import pace_of, seconds_of
from analyzer.replay.fit.pauses import Pauses, find_pauses
from analyzer.replay.fit.prefill import with_prefill
from analyzer.replay.fit.reads import ReadTwice, as_read
from analyzer.replay.fit.regression import fit
from analyzer.replay.fit.said import batches_said, pace_said, untold
from analyzer.replay.fit.scrapes import scraped_work
from analyzer.replay.fit.seen import Seen, Spans, in_flight, seen, spans_of_decoding
from analyzer.replay.fit.tuned import tuned
from analyzer.replay.fit.work import Work, joined, matrix
from analyzer.replay.model import FittedStepTime, NoReplay
from analyzer.replay.result import Replayed
from analyzer.replay.settings import Settings, Sglang
from analyzer.replay.step_time import StepTime
from analyzer.replay.workload import Workload

# Columns of `matrix`.
_STEPS, _TOKENS, _REQUESTS, _PREFILLS, _ATTENDED, _KV_TOKENS = range(6)
# Fewer rows than this tell nothing.
_LEAST_ROWS = 3
# A source that fits better than this is good enough for no other one to be asked.
_GOOD = 0.5
# With less left over than this by the fit, the host was even.
_STEADY = 0.05
# What is left over may hold the cost of prefill tokens, unless it is more than this: then it is the host's.
_EVEN = 0.1
_LEAST_EVEN = 10
# Lines hold enough of the time from this share on.
_COVERED = 0.4
# Steps of one size: what the step itself costs and what its tokens cost is not told apart.
_ONE_SIZE = 0.03
# So many of the lumps in which work is told make a row.
_ROW_LUMPS = 8.0


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows and what they are, in words."""

    rows: list[Work]
    said: str
    sure: bool  # steps or their time were told, not estimated


def fit_step_time(
    con: duckdb.DuckDBPyConnection, instance: str, run_id: str, workload: Workload, settings: Settings, start: datetime | None, end_s: float
) -> FittedStepTime | NoReplay:
    """The step time of a process run by the best source in the capture, with its pace, from `start` to `end_s` seconds later.

    The pace and the pauses are read off the capture: they are inputs of a replay and stay the same when something is changed in it.
    """
    requests = seen(con, instance, run_id, start, end_s)
    flight = in_flight(requests, end_s) if requests else None
    printed = printed_work(con, instance, run_id, start, end_s, settings, flight)
    scraped, counted = scraped_work(con, instance, run_id, start, end_s, settings, requests)
    twice = ReadTwice(workload.requests, spans_of_decoding(requests, end_s), settings)
    printed = Printed(as_read(printed.exact, twice, settings), as_read(printed.all, twice, settings))
    scraped = as_read(scraped, twice, settings)
    thrown = start is not None and bool(retractions(con, instance, run_id, start, end_s))
    felt = felt_work(requests, settings, end_s)
    sources = _in_order(settings, printed.exact, scraped, felt, counted=counted, covered=_covered(printed.all, flight))
    fitted = [(s, f) for s in sources if (f := _fit(s.rows)) is not None]
    if not fitted:
        return untold(instance, settings, scraped=bool(scraped))
    sure = [pair for pair in fitted if pair[0].sure and pair[1].residual_share <= _GOOD]
    source, found = sure[0] if sure else min(fitted, key=lambda pair: pair[1].residual_share)
    if not found.step_time.token_s and found.residual_share <= _EVEN and found.samples >= _LEAST_EVEN and not thrown:
        found = replace(found, step_time=with_prefill(found.step_time, felt))
    paced = printed.all if isinstance(settings, Sglang) and printed.all else scraped or printed.all
    pauses = _pauses(con, instance, run_id, settings, found.step_time, requests, paced, start, end_s, thrown)
    if not (counted if paced is scraped else isinstance(settings, Sglang) or any(r.steps == 1 for r in paced)):
        # steps that were estimated may only tell of a host that the fit itself finds uneven
        paced = _evened(found.step_time, paced) if found.residual_share > _STEADY else []
    pace, unchanged = tuned(pace_of(found.step_time, paced, pauses.pauses), found.step_time, workload, settings, paced, end_s)
    return FittedStepTime(
        step_time=found.step_time,
        pace=pace,
        residual_share=found.residual_share,
        samples=found.samples,
        basis=" ".join((source.said, found.said, *pace_said(pace, pauses.stalls, end_s))),
        overhead_s=_overhead_s(pauses, unchanged),
        stalls=pauses.stalls,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    step_time: StepTime
    residual_share: float
    samples: int
    said: str


def _covered(rows: Sequence[Work], flight: Spans | None) -> bool:
    """Whether the rows hold much of the time at which requests were there; unknown times count as held."""
    if not rows or flight is None:
        return bool(rows)
    there = flight.any(min(0.0, rows[0].start_s), rows[-1].end_s)
    return sum(r.seconds for r in rows) >= _COVERED * there


def _in_order(
    settings: Settings, printed: list[Work], scraped: list[Work], felt: list[Work], *, counted: bool, covered: bool
) -> list[_Source]:  # fmt: skip
    """What can be fitted to, the best first."""
    exact = covered if isinstance(settings, Sglang) else any(r.steps == 1 for r in printed)
    lines = _Source(printed, _("Fitted to the lines of the log."), exact)
    if counted:
        metrics = _Source(scraped, _("Fitted to the steps and tokens that the engine counted between scrapes."), True)
    else:
        metrics = _Source(scraped, _("Fitted to the tokens that the engine counted between scrapes."), False)
    clients = _Source(felt, _("Fitted to the time that requests took from their first token to their last."), False)
    return [lines, metrics, clients] if exact else [metrics, clients, lines]


def _evened(step_time: StepTime, rows: Sequence[Work]) -> list[Work]:
    """Rows of estimated steps, so that on the whole they say what the step time says."""
    ratio = median(r.seconds / s for r, s in zip(rows, seconds_of(step_time, rows), strict=True) if s > 0) if rows else 1.0
    return [
        replace(r, steps=r.steps * ratio, tokens=r.tokens * ratio, requests=r.requests * ratio, prefills=r.prefills * ratio,
                attended=r.attended * ratio, kv_tokens=r.kv_tokens * ratio)
        for r in rows
    ]  # fmt: skip


def _fit(rows: Sequence[Work]) -> _Found | None:
    """Robust, with as many terms as the rows can tell apart."""
    used = _whole_lumps([r for r in rows if r.fits and r.seconds > 0 and r.steps > 0])
    if len(used) < _LEAST_ROWS:
        return None
    terms = matrix(used)
    seconds = np.array([r.seconds for r in used])
    per_step = terms[:, _TOKENS] / terms[:, _STEPS]
    first, further = _STEPS, [_REQUESTS, _TOKENS, _PREFILLS, _ATTENDED, _KV_TOKENS]
    if np.std(per_step) <= _ONE_SIZE * np.mean(per_step) and np.sum(terms[:, _TOKENS]) > 4 * np.sum(terms[:, _REQUESTS]):
        # all steps full of prefill: that their time is that of their tokens is the safer guess, for a larger budget then buys nothing
        first, further = _TOKENS, [_ATTENDED, _KV_TOKENS]
    found = fit(terms, seconds, first, further)
    if found is None:
        return None
    batch = terms[:, _REQUESTS] / terms[:, _STEPS]
    return _Found(
        StepTime(*(float(c) for c in found.coefficients)),
        found.residual_share,
        len(used),
        batches_said(float(np.min(batch)), float(np.max(batch))),
    )


def _whole_lumps(rows: Sequence[Work]) -> list[Work]:
    out: list[Work] = []
    held: list[Work] = []
    for row in rows:
        held.append(row)
        whole = joined(held)
        if whole.steps >= _ROW_LUMPS * whole.lump or whole.steps == 1:
            out.append(whole)
            held = []
    return out


def _pauses(
    con: duckdb.DuckDBPyConnection, instance: str, run_id: str, settings: Settings, step: StepTime, requests: Sequence[Seen],
    rows: Sequence[Work],
    start: datetime | None, end_s: float, thrown: bool,
) -> Pauses:  # fmt: skip
    if start is None or not requests:
        return Pauses((), (), 0.0)
    _running, waiting, usage = curves(con, instance, run_id, start, end_s)
    chunk = settings.chunked_prefill_tokens or settings.max_prefill_tokens if isinstance(settings, Sglang) else settings.step_tokens
    batch = sum(r.requests for r in rows) / max(1.0, sum(r.steps for r in rows))

    def expected(request: Seen, tokens: int) -> float:
        steps = max(1, math.ceil(tokens / chunk))
        attended = request.prompt_tokens * request.prompt_tokens / 2
        # besides its own steps it waits for half of the one that runs when it comes
        own = step.seconds(tokens, steps, attended=attended) + (steps - 1) * step.base_s + steps * step.prefill_s
        return own + 0.5 * step.seconds(math.ceil(batch), math.ceil(batch))

    return find_pauses(
        requests,
        expected,
        step.seconds(chunk + math.ceil(batch), math.ceil(batch) + 1, prefill=True),
        settings,
        waiting,
        usage,
        rows,
        thrown,
        end_s,
    )


def _overhead_s(pauses: Pauses, unchanged: Replayed | None) -> float:
    """What requests with nothing to wait for took beside the engine: the middle of their TTFTs less that of the replayed ones."""
    made = {r.id: r.first_token_s for r in unchanged.requests} if unchanged else {}
    both = [
        (wait, first - r.arrival_s)
        for r in pauses.unqueued
        if (wait := r.ttft_s) is not None
        and (first := made.get(r.id)) is not None
        and not any(at <= first < at + s for at, s in pauses.stalls)
    ]
    return max(0.0, median(w for w, _ in both) - median(m for _, m in both)) if both else pauses.overhead_s
