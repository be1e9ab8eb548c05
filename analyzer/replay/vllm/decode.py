"""Passes of the scheduler that do nothing but give every running request its next token, taken in one go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analyzer.replay.vllm.schedule import Scheduler


class DecodeAhead:
    """What comes after a plain step, until a request finishes, blocks run short, or something else than decode may happen.

    `passes` is how many passes can be taken at once. `kv_tokens` are the tokens that the first of them reads.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        block_tokens = scheduler.settings.block_tokens
        lag = 1 if scheduler.settings.async_scheduling else 0
        passes = scheduler.settings.max_model_tokens
        # how many requests begin a new block in the first pass, the second, and so on for as many passes as a block has tokens
        self._needs = [0] * block_tokens
        self.kv_tokens = len(scheduler.running)
        for live in scheduler.running:
            self._needs[live.blocks * block_tokens - live.computed] += 1
            self.kv_tokens += live.computed
            passes = min(passes, live.end - live.tokens - 1)
            if live.cached < live.depth:
                # it fills a block that others can hit: what waits may fit then, and copies of a block are told apart by time
                passes = min(passes, (live.cached + 1) * block_tokens - live.computed - 1 + lag)
        self.passes = max(0, min(passes, self._until_short()))

    def take(self, passes: int) -> NDArray[np.int64]:
        """Give every running request so many tokens; returns the blocks taken by the end of each pass."""
        scheduler, pool = self._scheduler, self._scheduler.pool
        block_tokens = pool.block_tokens
        for live in scheduler.running:
            live.tokens += passes
            computed = live.computed = live.computed + passes
            needed = -(-computed // block_tokens) - live.blocks
            if needed:
                pool.take(live, needed)
            if scheduler.host:
                scheduler.host.written(live, live.written)
        scheduler.counts.made += passes * len(scheduler.running)
        return np.cumsum(np.resize(np.array(self._needs, dtype=np.int64), passes))

    def _until_short(self) -> int:
        """Passes until one needs more blocks than may be taken."""
        pool = self._scheduler.pool
        left = pool.free - (pool.evictable if self._minds_eviction() else 0)
        rounds, left = divmod(left, len(self._scheduler.running))
        passes = rounds * pool.block_tokens
        for need in self._needs:
            left -= need
            if left < 0:
                break
            passes += 1
        return passes

    def _minds_eviction(self) -> bool:
        """Whether the head of the queue may fit after an eviction: a shorter hit lets a chunk begin, and end, earlier."""
        scheduler = self._scheduler
        return not scheduler.settings.reserve_full_isl and len(scheduler.waiting) > 0 and scheduler.waiting.head().depth > 0
