"""What is written down of each step: curves for all, and rows for who wants them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyzer.replay.result import Curves, StepSink
from analyzer.replay.sglang.live import Batch, Live
from analyzer.replay.sglang.scheduler import Scheduler
from analyzer.replay.step_time import Seconds

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DecodeSteps:
    """Decode steps that differ in nothing but these, one value per step: when it is scheduled, starts and ends; what is free; the ratio."""

    at_s: Seconds
    start_s: Seconds
    end_s: Seconds
    free: NDArray[np.int64]
    ratio: NDArray[np.float64]
    ratio_before: float

    def rows(self) -> Iterator[tuple[float, float, float, int, float]]:
        """The values step by step."""
        return zip(self.at_s.tolist(), self.start_s.tolist(), self.end_s.tolist(), self.free.tolist(), self.ratio.tolist(), strict=True)


class Recorder:
    """Curves of every step, and, with a sink, one row per step in the columns of the engine's oracle.

    In the curves a prefill's own requests do not count as running, as in the engine's gauge and lines. A row goes out when its result is in
    and the next step has begun: until then something may have to be added to it.
    """

    def __init__(self, scheduler: Scheduler, sink: StepSink | None) -> None:
        self.curves = Curves()
        self.retractions = 0
        self._scheduler = scheduler
        self._sink = sink
        self._rows = 0
        self._open: deque[Row] = deque()

    def step(self, batch: Batch, at_s: float, start_s: float, end_s: float, ratio_before: float) -> Row | None:
        """One step, after its memory was taken. `at_s` is when it was scheduled, `start_s` to `end_s` when it ran."""
        scheduler = self._scheduler
        retracted = len(scheduler.retracted)
        self.retractions += retracted
        size = len(batch.reqs)
        running = len(scheduler.running.reqs)
        tokens = sum(r.end - r.prefix for r in batch.reqs) if batch.prefill else size
        self._curve(start_s, end_s, 1, running, tokens, prefill=batch.prefill, retracted=retracted, before=scheduler.pool.used)
        if self._sink is None:
            return None
        row = self._row(at_s, start_s, end_s, scheduler.pool.free, ratio_before, scheduler.ratio.current)
        row.update(
            kind="prefill" if batch.prefill else "decode",
            running=running,
            batch=size,
            tokens=tokens,
            new_ids=[r.id for r in batch.reqs] if batch.prefill else [],
            checks=scheduler.checks or [],
            retracted=[r.id for r in scheduler.retracted],
            aborted=[r.id for r in scheduler.aborted],
        )
        self._begin(row)
        return row

    def decode_steps(self, ahead: DecodeSteps, row: Row | None, *, behind: bool) -> Row | None:
        """Equal decode steps in a row, after the memory of the last was taken.

        `behind`: each result comes in after the next step was scheduled. Then `row` is that of the step before, whose result is not in
        yet, and what is returned is that of the last step.
        """
        scheduler = self._scheduler
        steps, size = len(ahead.end_s), len(scheduler.running.reqs)
        before = scheduler.pool.total - (int(ahead.free[0]) + scheduler.pool.evictable)
        self._curve(float(ahead.start_s[0]), float(ahead.end_s[-1]), steps, size, size * steps, prefill=False, retracted=0, before=before)
        if self._sink is None:
            return None
        ratio_before = ahead.ratio_before
        for at_s, start_s, end_s, free, ratio in ahead.rows():
            now = self._row(at_s, start_s, end_s, free, ratio_before, ratio)
            self._begin(now)
            self.result(row if behind else now, [], free=free)
            row, ratio_before = now, ratio
        return row

    def result(self, row: Row | None, finished: Sequence[Live], *, free: int | None = None) -> None:
        """A step's result has been dealt with; `free` is what the pool has free then, if not what it has now."""
        if row is None:
            return
        free = self._scheduler.pool.free if free is None else free
        row.update(
            finished=[r.id for r in finished],
            token_usage_end=self._usage(free),
            available_end=free,
            evictable_end=self._scheduler.pool.evictable,
        )
        self._let_go()

    def no_batch(self) -> None:
        """A pass has tested candidates and run nothing."""
        if self._scheduler.checks and self._open:
            self._open[-1]["checks_no_batch"] = self._scheduler.checks

    def close(self) -> None:
        """No more steps: the last rows whose results are in."""
        while self._open and self._sink is not None:
            row = self._open.popleft()
            if "finished" in row:
                self._sink(row)

    def _row(self, at_s: float, start_s: float, end_s: float, free: int, ratio_before: float, ratio: float) -> Row:
        scheduler = self._scheduler
        size = len(scheduler.running.reqs)
        return {
            "step": self._rows,
            "t": round(at_s, 6),
            "t_start": round(start_s, 6),
            "t_end": round(end_s, 6),
            "kind": "decode",
            "running": size,
            "batch": size,
            "waiting": len(scheduler.waiting),
            "tokens": size,
            "new_ids": [],
            "chunked": scheduler.chunked.id if scheduler.chunked is not None else None,
            "token_usage": self._usage(free),
            "available": free,
            "evictable": scheduler.pool.evictable,
            "new_token_ratio_before": round(ratio_before, 6),
            "new_token_ratio": round(ratio, 6),
            "batch_is_full": scheduler.running.full,
            "checks": [],
            "retracted": [],
            "aborted": [],
            "retractions": self.retractions,
        }

    def _usage(self, free: int) -> float:
        pool = self._scheduler.pool
        return round((pool.total - (free + pool.evictable)) / pool.total, 6)

    def _begin(self, row: Row) -> None:
        self._rows += 1
        self._open.append(row)
        self._let_go()

    def _let_go(self) -> None:
        assert self._sink is not None
        while len(self._open) > 1 and "finished" in self._open[0]:
            self._sink(self._open.popleft())

    def _curve(
        self, start_s: float, end_s: float, steps: int, running: int, tokens: int, *, prefill: bool, retracted: int, before: int
    ) -> None:
        curves, scheduler = self.curves, self._scheduler
        curves.start_s.append(start_s)
        curves.end_s.append(end_s)
        curves.steps.append(steps)
        curves.running.append(running)
        curves.waiting.append(len(scheduler.waiting))
        curves.used_tokens_start.append(before)
        curves.used_tokens_end.append(scheduler.pool.used)
        curves.evictable_tokens.append(scheduler.pool.evictable)
        curves.retracted.append(retracted)
        curves.prefill_tokens.append(tokens if prefill else 0)
        curves.decode_tokens.append(0 if prefill else tokens)
