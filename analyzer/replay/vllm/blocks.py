"""The KV pool: free blocks in the order in which they are handed out, and the prefix cache.

vLLM hands out free blocks from the front of a queue. Blocks whose content is unknown come back to the front, cached ones to the back, the
last block of a request first; and a cached block that is handed out is forgotten. So blank blocks always stand before cached ones, and need
only be counted. Of the cached ones, those that other requests can hit are told apart one by one; those that only their own request can hit
are kept as a row.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from analyzer.replay.vllm.host import Host
from analyzer.replay.vllm.requests import Kept, Live


@dataclass(frozen=True, slots=True)
class Hit:
    """What the prefix cache has of a request: `blocks` in all, `shared` of them one by one, `unheld` of them held by nobody."""

    blocks: int
    shared: tuple[int, ...]
    unheld: int


NO_HIT = Hit(0, (), 0)


class Pool:
    """`total` blocks of `block_tokens` tokens. `free` counts blank and cached blocks that nobody holds, `evictable` only the latter."""

    def __init__(self, total: int, block_tokens: int, caching: bool, host: Host | None = None) -> None:
        self.total = self.free = total
        self.block_tokens = block_tokens
        self.caching = caching
        self.evictable = 0
        self._host = host
        self._unheld: OrderedDict[int | Kept, None] = OrderedDict()
        self._copies: dict[int, dict[int, None]] = {}
        self._key_of: dict[int, int] = {}
        self._holders: dict[int, int] = {}
        # whose block it was first, and the how manieth
        self._from: dict[int, tuple[Live, int]] = {}
        self._next_block = 0

    @property
    def used(self) -> int:
        """Blocks that requests hold."""
        return self.total - self.free

    def count(self, tokens: int) -> int:
        """How many blocks hold that many tokens."""
        return -(-tokens // self.block_tokens)

    def look_up(self, live: Live) -> Hit:
        """The longest prefix of a waiting request that is cached; its last token is always computed."""
        if not self.caching:
            return NO_HIT
        longest = (live.tokens - 1) // self.block_tokens
        shared = []
        for key in live.keys[:longest]:
            copies = self._copies.get(key)
            if copies is None:
                break
            shared.append(next(iter(copies)))
        unheld = sum(not self._holders[block] for block in shared)
        own = 0
        if live.kept is not None and len(shared) == live.depth:
            own = min(live.kept.blocks, longest - len(shared))
        return Hit(len(shared) + own, tuple(shared), unheld + own)

    def hold(self, live: Live, hit: Hit) -> None:
        """A request is admitted with the cached blocks it has hit."""
        for block in hit.shared:
            if not self._holders[block]:
                del self._unheld[block]
            self._holders[block] += 1
        own = hit.blocks - len(hit.shared)
        if live.kept is not None:
            live.kept.blocks -= own
            if not live.kept.blocks:
                del self._unheld[live.kept]
            live.kept = None
        self.evictable -= hit.unheld
        self.free -= hit.unheld
        live.held = list(hit.shared)
        live.blocks = live.cached = hit.blocks

    def take(self, live: Live, blocks: int) -> None:
        """Give a request so many more of the free blocks, the blank ones first."""
        live.blocks += blocks
        self.free -= blocks
        # what is left must be blank or cached
        evicted = self.evictable - self.free
        if evicted > 0:
            self._evict(evicted)

    def cache(self, live: Live, tokens: int) -> None:
        """The content of a request's first `tokens` tokens is known: its full blocks can be hit from now on."""
        full = min(tokens // self.block_tokens, live.blocks)
        if full <= live.cached or not self.caching:
            return
        for place, key in enumerate(live.keys[live.cached : full], live.cached):
            block = self._next_block
            self._next_block += 1
            if self._host:
                self._from[block] = live, place
            self._copies.setdefault(key, {})[block] = None
            self._key_of[block] = key
            self._holders[block] = 1
            live.held.append(block)
        live.cached = full

    def release(self, live: Live) -> None:
        """A request gives back all its blocks."""
        self.free += live.blocks - live.cached
        own = live.cached - len(live.held)
        if own:
            live.kept = Kept(live, len(live.held), own)
            self._unheld[live.kept] = None
            self._add_unheld(own)
        for block in reversed(live.held):
            self._holders[block] -= 1
            if not self._holders[block]:
                self._unheld[block] = None
                self._add_unheld(1)
        live.held = []
        live.blocks = live.cached = 0

    def _add_unheld(self, blocks: int) -> None:
        self.free += blocks
        self.evictable += blocks

    def _evict(self, blocks: int) -> None:
        self.evictable -= blocks
        while blocks:
            first = next(iter(self._unheld))
            if isinstance(first, int):
                del self._unheld[first]
                self._forget(first)
                blocks -= 1
                continue
            going = min(blocks, first.blocks)
            first.blocks -= going
            blocks -= going
            if self._host:
                self._host.evicted(first.owner, first.first + first.blocks, going)
            if not first.blocks:
                del self._unheld[first]
                if first.owner.kept is first:
                    first.owner.kept = None

    def _forget(self, block: int) -> None:
        key = self._key_of.pop(block)
        copies = self._copies[key]
        del copies[block], self._holders[block]
        if not copies:
            del self._copies[key]
        if self._host:
            owner, place = self._from.pop(block)
            if not copies:
                self._host.evicted(owner, place, 1)
