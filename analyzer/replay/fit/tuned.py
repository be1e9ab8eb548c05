"""The pace put right by a replay: what the replayed engine had done by each scrape against what the recorded one had counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from analyzer.replay.fit.pace import seconds_of
from analyzer.replay.fit.reads import ReadTwice
from analyzer.replay.fit.seen import spans_of_decoding
from analyzer.replay.fit.work import Work
from analyzer.replay.result import Replayed
from analyzer.replay.run import replay
from analyzer.replay.settings import Settings, Sglang, Vllm
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.workload import Workload

Numbers = NDArray[np.float64]

_ROUNDS = 4
# Larger replays take longer than the last few per cent are worth.
_MOST_REQUESTS = 5000
# Under light load a replay does a piece's work a little sooner or later than the server did; to make each piece's come out exactly would
# give it a pace that no host had.
_FURTHEST = 2.0


def tuned(
    pace: Pace, step_time: StepTime, workload: Workload, settings: Settings, rows: Sequence[Work], end_s: float
) -> tuple[Pace, Replayed | None]:
    """The pace with which a replay comes nearest to the work counted by each boundary, and that replay; None where none was made.

    A step takes the pace at its own start, and the engine may stand idle at other moments than it did: both shift what follows, and a shift
    stays as long as there is a queue. No TTFT is looked at.
    """
    if len(workload.requests) > _MOST_REQUESTS:
        return pace, None
    best, made = pace, replay(workload, settings, step_time, pace=pace, until_s=end_s)
    if len(pace.at_s) < 3 or step_time.attended_s:
        return best, made
    # vLLM's counters and throughputs tell of a prompt once; lines of single steps, and SGLang's, tell all that was computed
    once = isinstance(settings, Vllm) and any(r.steps != 1 for r in rows)
    prompts = {r.id: r.prompt_tokens for r in workload.requests} if once else {}
    edges = np.array(pace.at_s[1:])
    counted = _counted(step_time, rows, edges)
    now, least = best, made
    done_by = partial(work_done, step_time, edges, prompts, workload, settings)
    off = _off(done := done_by(made), counted)
    for _round in range(_ROUNDS):
        now = _nearer(now, done, counted, pace)
        made = replay(workload, settings, step_time, pace=now, until_s=end_s)
        done = done_by(made)
        if _off(done, counted) < off:
            best, least, off = now, made, _off(done, counted)
    return best, least


def _nearer(pace: Pace, done: Numbers, counted: Numbers, measured: Pace) -> Pace:
    """Each piece as much faster as it did too little, but no further from what was measured in it than a shift explains."""
    factors, read = np.array(pace.slower), np.array(measured.slower)
    did, should = np.diff(done, prepend=0.0), np.diff(counted, prepend=0.0)
    ratio = np.where((did > 0) & (should > 0), did / np.where(should > 0, should, 1.0), 1.0)
    # the last piece is what comes after the capture
    factors[:-1] = np.clip(factors[:-1] * ratio, read[:-1] / _FURTHEST, read[:-1] * _FURTHEST)
    return Pace(pace.at_s, tuple(float(f) for f in factors), pace.pauses)


def _off(done: Numbers, counted: Numbers) -> float:
    return float(np.mean(np.abs(done - counted)))


def _counted(step_time: StepTime, rows: Sequence[Work], edges: Numbers) -> Numbers:
    """Seconds of work, at the model's speed, that were counted by each edge."""
    ends = np.array([r.end_s for r in rows])
    whole = np.cumsum(seconds_of(step_time, rows))
    index = np.searchsorted(ends, edges + 1e-6, side="right") - 1
    return np.where(index >= 0, whole[np.maximum(index, 0)], 0.0)


def work_done(
    step_time: StepTime, edges: Numbers, prompts: Mapping[str, int], workload: Workload, settings: Settings, replayed: Replayed
) -> Numbers:
    """Seconds of work, at the model's speed, that a replay had done by each edge; the step that runs at one is not done.

    With `prompts` (their tokens, by request) each counts once.
    """
    c = replayed.curves
    if not c.start_s:
        return np.zeros(len(edges))
    starts, ends, steps = np.array(c.start_s), np.array(c.end_s), np.array(c.steps, dtype=np.float64)
    # what is computed again after a preemption was not counted
    again = replayed.retractions and prompts
    prefilled = _first_time(replayed, prompts) if again else np.array(c.prefill_tokens, dtype=np.float64)
    tokens = prefilled + np.array(c.decode_tokens)
    work = (
        step_time.base_s * np.where(tokens > 0, steps, 0.0)
        + step_time.token_s * tokens
        + step_time.request_s * _batches(replayed, settings)
        + step_time.prefill_s * np.where(np.array(c.prefill_tokens) > 0, steps, 0.0)
        + step_time.kv_token_s * _read(replayed, workload, settings)
    )
    index = np.searchsorted(starts, edges, side="right") - 1
    held = np.maximum(index, 0)
    part = np.clip((edges - starts[held]) / np.maximum(ends[held] - starts[held], 1e-12), 0.0, 1.0)
    part = np.floor(part * steps[held] + 1e-9) / np.maximum(steps[held], 1.0)
    before = np.concatenate(([0.0], np.cumsum(work)))[held]
    return np.where(index >= 0, before + part * work[held], 0.0)


def _batches(replayed: Replayed, settings: Settings) -> Numbers:
    """Requests in the batch, summed over each run of steps. SGLang prefills apart from those that decode: its batch are the new ones."""
    c = replayed.curves
    if not isinstance(settings, Sglang):
        batches: Numbers = np.array(c.running, dtype=np.float64) * np.array(c.steps)
        return batches
    prefills = np.array(c.prefill_tokens) > 0
    begun = np.sort([r.first_scheduled_s for r in replayed.requests if r.first_scheduled_s is not None])
    # they may have been taken while the step before still ran
    so_far = np.searchsorted(begun, np.array(c.start_s)[prefills] + 1e-9, side="right")
    batches = np.array(c.decode_tokens, dtype=np.float64)
    # a prompt that goes on is in the batch too
    batches[prefills] = np.maximum(1, np.diff(so_far, prepend=0))
    return batches


def _read(replayed: Replayed, workload: Workload, settings: Settings) -> Numbers:
    """KV tokens that decoding requests read, summed over each run of steps; none in SGLang's prefill steps."""
    c = replayed.curves
    twice = ReadTwice(workload.requests, spans_of_decoding(replayed.requests, replayed.end_s), settings)
    used = (np.array(c.used_tokens_start) + np.array(c.used_tokens_end)) / 2 + twice.mean(np.array(c.start_s), np.array(c.end_s))
    read: Numbers = used * np.array(c.steps)
    return np.where(np.array(c.prefill_tokens) > 0, 0.0, read) if isinstance(settings, Sglang) else read


def _first_time(replayed: Replayed, prompts: Mapping[str, int]) -> Numbers:
    """Prompt tokens computed for the first time, by run of steps: all of a prompt's in the run that ends with its first token."""
    found = np.zeros(len(replayed.curves.end_s))
    for r in replayed.requests:
        if r.first_token_s is not None:
            at = int(np.searchsorted(replayed.curves.end_s, r.first_token_s - 1e-9))
            found[min(at, len(found) - 1)] += prompts[r.id] - r.cached_tokens
    return found
