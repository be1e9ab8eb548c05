"""The KV pool: pages taken and given back, and the radix tree that keeps what requests leave behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.replay.settings import Sglang
from analyzer.replay.sglang.host import Host
from analyzer.replay.sglang.live import Live
from analyzer.replay.sglang.radix import RadixTree


class OutOfMemoryError(Exception):
    """A prefill got less than it was promised: the engine would have died here."""


class Pool:
    """Counts tokens and knows no addresses.

    `free` tokens are empty, in whole pages; what the tree holds and nobody has locked comes on top. `rows` is how many more requests
    may hold memory.
    """

    def __init__(self, settings: Sglang) -> None:
        self.page = settings.page_tokens
        self.total = settings.l1_tokens
        self.free = settings.l1_tokens // self.page * self.page
        self.rows = settings.max_running
        self.tree: RadixTree | None = None
        self.host: Host | None = None
        if settings.prefix_caching:
            self.host = Host(settings.l2, self.page) if settings.l2 is not None else None
            self.tree = RadixTree(self.page, self.host.evicted if self.host is not None and self.host.wants_evictions else None)

    @property
    def evictable(self) -> int:
        """Cached tokens that nobody holds."""
        return self.tree.evictable if self.tree is not None else 0

    @property
    def used(self) -> int:
        """Tokens that are neither free nor evictable."""
        return self.total - (self.free + self.evictable)

    def pages(self, tokens: int) -> int:
        """Tokens, rounded up to whole pages."""
        return -(-tokens // self.page) * self.page

    def make_room(self, tokens: int) -> bool:
        """Evict until `tokens` are free, or as many as can be; whether they are."""
        if self.tree is not None and self.free < tokens and self.tree.evictable:
            self.free += self.tree.evict(tokens - self.free)
        return self.free >= tokens

    def match(self, req: Live, tokens: int) -> None:
        """Find the prefix of the first `tokens` of a request that holds nothing."""
        if self.tree is not None:
            req.prefix, req.node = self.tree.match(req.text(tokens), tokens)
        req.shared = req.prefix

    def lock(self, req: Live) -> None:
        """Hold the prefix that was found."""
        if self.tree is not None and req.node is not None:
            self.tree.lock(req.node)
            req.locked = True

    def load_back(self, req: Live, tokens: int) -> float | None:
        """Load `tokens` behind a request's prefix from the host: seconds it takes, None where there is no room for all of them."""
        assert self.host is not None
        assert self.tree is not None
        if not self.make_room(tokens):
            return None
        self.free -= tokens
        req.prefix += tokens
        req.shared = req.prefix
        req.node = self.tree.insert(req.text(req.prefix), req.prefix)[1]
        return self.host.load(req, tokens)

    def extend(self, reqs: Sequence[Live]) -> None:
        """Memory for a prefill, each request from `prefix` to `end`. Raises OutOfMemoryError."""
        need = sum(self.pages(r.end) - self.pages(r.prefix) for r in reqs)
        tokens = sum(r.end - r.prefix for r in reqs)
        # with pages, room is made for one more page a request than can be needed
        self.make_room(tokens if self.page == 1 else tokens + len(reqs) * self.page)
        if need > self.free:
            raise OutOfMemoryError
        self.free -= need
        for req in reqs:
            req.held = req.end
            if not req.has_row:
                req.has_row = True
                self.rows -= 1

    def next_step(self, reqs: Iterable[Live]) -> int:
        """Tokens that one more decode step of these requests takes: a page of each whose last one is full."""
        page = self.page
        return page * sum(1 for r in reqs if not r.held % page)

    def decode(self, reqs: Sequence[Live]) -> None:
        """Memory for one decode step, which fits."""
        need = self.next_step(reqs)
        self.make_room(len(reqs) * self.page)
        self.free -= need
        for req in reqs:
            req.held += 1

    def free_ahead(self, reqs: Sequence[Live], steps: int) -> NDArray[np.int64]:
        """What is free after each of the next `steps` decode steps, up to the first that needs room to be made; int64, at most (steps,)."""
        size, page = len(reqs), self.page
        if page == 1:
            return self.free - size * np.arange(1, min(steps, self.free // size) + 1, dtype=np.int64)
        # a request takes a page when its last one is full
        boundaries = np.bincount([-r.held % page for r in reqs], minlength=page) * page
        need = np.resize(boundaries, steps)
        after = self.free - np.cumsum(need)
        # what can be evicted is, down to a free page for each request
        short = after + need < size * page if self.evictable else after < 0
        return after[: int(short.argmax())] if short.any() else after

    def decode_ahead(self, reqs: Sequence[Live], steps: int, free: int) -> None:
        """Memory for decode steps that `free_ahead` has looked at; `free` is what is left."""
        self.free = free
        for req in reqs:
            req.held += steps

    def checkpoint(self, req: Live, tokens: int) -> None:
        """Make the first `tokens` of a request known to the tree, in whole pages, and hold them there; give back what is there twice."""
        if self.tree is None or not tokens:
            return
        whole = tokens // self.page * self.page
        text = req.text(tokens)
        known, node = self.tree.insert(text, tokens)
        self.free += max(0, known - req.shared)
        # output can be evicted before the prompt
        if 0 < req.prompt // self.page * self.page < whole:
            self.tree.insert(text, req.prompt)
        if req.locked and req.node is not None:
            self.tree.unlock(req.node)
        self.tree.lock(node)
        req.node, req.locked, req.shared = node, True, whole
        if self.host is not None:
            self.host.computed(req, whole)

    def release(self, req: Live, *, keep: bool) -> None:
        """Give back what a request holds; with `keep`, after the tree has taken what it can key."""
        owned = min(req.held, req.prompt + min(req.out, req.max_new)) if req.finished else req.held
        if keep:
            self.checkpoint(req, owned)
            if self.host is not None:
                self.host.done(req, req.shared)
        self.free += self.pages(req.held) - self.pages(req.shared)
        if self.tree is not None and req.locked and req.node is not None:
            self.tree.unlock(req.node)
        req.locked = req.has_row = False
        req.node = None
        req.held = 0
        self.rows += 1
