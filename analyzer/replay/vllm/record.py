"""What is told of the steps: rows in the oracle's columns, and the curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyzer.replay.result import Curves, StepSink
from analyzer.replay.vllm.schedule import Scheduler, Step


@dataclass(frozen=True, slots=True)
class Launched:
    """A step on its way: when it runs on the device, and the blocks used and evictable and all preemptions right after it was scheduled."""

    step: Step
    start_s: float
    end_s: float
    used: int
    evictable: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class Run:
    """Equal steps in a row: start and end of each, and the blocks used when it was scheduled and when its output was taken in."""

    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    used: NDArray[np.int64]
    used_end: NDArray[np.int64]


class Record:
    """Takes the steps in the order in which their output is taken in, with the scheduler as it is then."""

    def __init__(self, scheduler: Scheduler, sink: StepSink | None) -> None:
        self.curves = Curves()
        self.steps = 0
        self._scheduler = scheduler
        self._sink = sink

    def step(self, launched: Launched, used_end: int) -> None:
        """One step whose output has just been taken in, with `used_end` blocks used then."""
        self._curve(launched, launched.end_s, 1, launched.used)
        if self._sink:
            self._sink(self._row(launched, launched.start_s, launched.end_s, launched.used, used_end))
        self.steps += 1

    def run(self, like: Launched, run: Run) -> None:
        """Steps that differ from `like`, the first of them, in time and used blocks only."""
        self._curve(like, float(run.end_s[-1]), len(run.end_s), int(run.used[-1]))
        if not self._sink:
            self.steps += len(run.end_s)
            return
        for start, end, used, used_end in zip(
            run.start_s.tolist(), run.end_s.tolist(), run.used.tolist(), run.used_end.tolist(), strict=True
        ):
            self._sink(self._row(like, start, end, used, used_end))
            self.steps += 1

    def _curve(self, first: Launched, end_s: float, steps: int, used: int) -> None:
        step, curves, pool = first.step, self.curves, self._scheduler.pool
        curves.start_s.append(first.start_s)
        curves.end_s.append(end_s)
        curves.steps.append(steps)
        curves.running.append(step.running)
        curves.waiting.append(step.waiting)
        curves.used_tokens_start.append(float(first.used * pool.block_tokens))
        curves.used_tokens_end.append(float(used * pool.block_tokens))
        curves.evictable_tokens.append(float(first.evictable * pool.block_tokens))
        curves.retracted.append(len(step.preempted))
        curves.prefill_tokens.append(step.prefill_tokens * steps)
        curves.decode_tokens.append((step.tokens - step.prefill_tokens) * steps)

    def _row(self, launched: Launched, start_s: float, end_s: float, used: int, used_end: int) -> dict[str, object]:
        step, scheduler = launched.step, self._scheduler
        counts, total = scheduler.counts, scheduler.pool.total
        return {
            "step": self.steps,
            "t": round(start_s, 6),
            "t_end": round(end_s, 6),
            "scheduled_tokens": step.tokens,
            "prefill_tokens": step.prefill_tokens,
            "running": step.running,
            "waiting": step.waiting,
            "kv_usage": _usage(used, total),
            "running_end": len(scheduler.running),
            "waiting_end": len(scheduler.waiting),
            "kv_usage_end": _usage(used_end, total),
            "preempted": sorted(step.preempted),
            "preemptions": launched.preemptions,
            "prefix_queries": counts.prefix_queries,
            "prefix_hits": counts.prefix_hits,
            "preempted_queries": counts.preempted_queries,
            "preempted_hits": counts.preempted_hits,
        }


def _usage(used: int, total: int) -> float:
    return round(1.0 - (total - used) / total, 6) if total else 0
