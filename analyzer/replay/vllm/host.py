"""The host pool (L2) beside the KV pool, as an offloading connector uses it: it makes hits longer, and no admission test reads it."""

from __future__ import annotations

from analyzer.replay.l2 import HostPool
from analyzer.replay.settings import Vllm
from analyzer.replay.vllm.keys import shared_keys
from analyzer.replay.vllm.requests import Live
from analyzer.replay.workload import Workload


class Host:
    """Its blocks are as large as `settings.l2` says, which need not be the KV pool's block."""

    def __init__(self, workload: Workload, settings: Vllm) -> None:
        """Raise ValueError where `settings` have no L2."""
        if settings.l2 is None:
            raise ValueError("no L2 in these settings")
        self._pool = HostPool(settings.l2)
        self._block = settings.l2.block_tokens
        self._l1_block = settings.block_tokens
        keys = shared_keys(workload, self._block, every=True)
        self._keys = {request.id: chain for request, chain in zip(workload.requests, keys, strict=True)}
        self._told: dict[str, int] = {}
        self.load_s = 0.0

    @property
    def loaded_tokens(self) -> int:
        """All that was loaded into the KV pool."""
        return self._pool.loaded_tokens

    def look_up(self, live: Live, local: int) -> int:
        """How many tokens it has beyond the `local` ones of the KV pool, in whole blocks of that; the last token is always computed."""
        start = local // self._block
        found = self._pool.match(self._keys[live.request.id][: (live.tokens - 1) // self._block], start)
        end = min((start + found) * self._block, live.tokens - 1) // self._l1_block * self._l1_block
        return max(0, end - local)

    def load(self, tokens: int) -> float:
        """Seconds that loading so many tokens adds to a step."""
        seconds = self._pool.load(tokens) if tokens else 0.0
        self.load_s += seconds
        return seconds

    def written(self, live: Live, tokens: int) -> None:
        """A request's first `tokens` tokens are in the KV pool."""
        told = self._told.get(live.request.id, 0)
        blocks = tokens // self._block
        if blocks > told:
            self._pool.computed(self._keys[live.request.id][:blocks], told)
            self._told[live.request.id] = blocks

    def leaves(self, live: Live) -> None:
        """A request gives up its blocks, finished or preempted."""
        told = self._told.pop(live.request.id, 0)
        if live.done:
            self._pool.touch(self._keys[live.request.id][:told])

    def evicted(self, live: Live, first: int, blocks: int) -> None:
        """So many blocks of a request, from its block `first` on, leave the KV pool."""
        begin = first * self._l1_block // self._block
        end = (first + blocks) * self._l1_block // self._block
        self._pool.evicted(reversed(self._keys[live.request.id][begin:end]))
