"""In which order the waiting queue is offered for admission, and what that does to the tree."""

from __future__ import annotations

from math import inf

from analyzer.replay.settings import Sglang
from analyzer.replay.sglang.live import Live
from analyzer.replay.sglang.pool import Pool
from analyzer.replay.sglang.radix import TOKEN_BYTES

# A longer queue is not sorted by prefix, and only so much of it keeps its prefixes fresh.
_MATCHED_AT_MOST = 128
# Every so many passes the prefixes of waiting requests count as used.
_REFRESH_PASSES = 32
# A request that finds less than this in the tree, but this much in a request ahead of it in the queue, lets that one go first.
_IN_BATCH_CHECK = _IN_BATCH_DEPRIORITIZE = 32


class Policy:
    """fcfs leaves the queue as it is; lpm puts the longest cached prefix first."""

    def __init__(self, settings: Sglang, pool: Pool) -> None:
        self._pool = pool
        # without a cache there are no prefixes to sort by
        self._by_prefix = settings.policy == "lpm" and pool.tree is not None
        self._passes = 0

    def order(self, waiting: list[Live]) -> None:
        """Put the queue in order, in place."""
        if self._by_prefix and len(waiting) <= _MATCHED_AT_MOST:
            self._longest_prefix_first(waiting)
        elif waiting and self._pool.tree is not None:
            if self._passes % _REFRESH_PASSES == 0:
                # the head last, so that it is the last to be evicted
                for req in reversed(waiting[:_MATCHED_AT_MOST]):
                    self._pool.tree.match(req.text(req.length), req.length)
            self._passes += 1

    def _longest_prefix_first(self, waiting: list[Live]) -> None:
        rank: dict[str, float] = {}
        seen: set[bytes] = set()
        for req in waiting:
            self._pool.match(req, req.length)
            on_host = self._pool.host.find(req) if self._pool.host is not None else 0
            rank[req.id] = -min(req.prefix + on_host, req.length - 1)
            if req.prefix <= _IN_BATCH_CHECK:
                begin = req.text(req.length)[: _IN_BATCH_DEPRIORITIZE * TOKEN_BYTES]
                if req.length < _IN_BATCH_DEPRIORITIZE:
                    continue
                if begin in seen:
                    rank[req.id] = inf
                seen.add(begin)
        waiting.sort(key=lambda r: rank[r.id])
