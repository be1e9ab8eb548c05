"""Who of the waiting joins the next prefill: SGLang's budget of tokens, tested request by request."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from analyzer.replay.settings import Sglang
from analyzer.replay.sglang.live import Live
from analyzer.replay.sglang.pool import Pool


class Verdict(Enum):
    """What one test comes to: go on with the next, the pool is spoken for, or this step's own limits are reached."""

    GO_ON = auto()
    NO_ROOM = auto()
    STEP_FULL = auto()


class Admission:
    """One pass over the queue.

    `admitted` are in the order of admission, `chunked` is the one whose prompt does not fit into this step, and `load_s` what loading
    from L2 takes.
    """

    def __init__(self, settings: Sglang, pool: Pool, running: Sequence[Live], ratio: float, checks: list[dict[str, Any]] | None) -> None:
        """`ratio` discounts what running requests may still make; `checks` takes a record of each test."""
        self.admitted: list[Live] = []
        self.chunked: Live | None = None
        self.load_s = 0.0
        self._pool = pool
        self._running = running
        self._ratio = ratio
        self._checks = checks
        self._clip = settings.clip_max_new_tokens
        self._page = settings.page_tokens
        self._step_input = settings.max_prefill_tokens
        self._step_chunk = settings.chunked_prefill_tokens
        # spoken for: by what is admitted now, and by what has been and may still make; added one by one, as the last bits count
        self._taken_now: float = 0
        self._taken: float = 0
        for req in running:
            self._taken += min(req.max_new - req.out, self._clip) * (1.0 if req.ignores_eos else ratio)
        self._release: list[tuple[float, int]] | None = None

    def verdict(self) -> Verdict:
        """Whether there is any use in a next candidate."""
        if self._room <= 0 or self._room_now <= 0:
            return Verdict.NO_ROOM
        if self._step_input <= 0 or (self._step_chunk is not None and self._step_chunk <= 0):
            return Verdict.STEP_FULL
        return Verdict.GO_ON

    def go_on_with(self, req: Live) -> bool:
        """The request whose prompt was cut goes first and is never refused; whether it is cut again."""
        assert self._step_chunk is not None
        limit = min(self._step_chunk, int(self._room))
        if limit <= 0:
            limit = self._step_chunk
        missing = req.length - req.prefix
        cut = missing > limit
        self._admit(req, min(missing, limit), 0 if cut else self._full_reserve(req))
        return cut

    def offer(self, req: Live) -> Verdict:
        """Test one candidate, whose prefix was looked up, and admit it if it passes."""
        tree = self._pool.tree
        if tree is None:
            return self._offer_fixed_length(req) if req.ignores_eos else self._test(req, 0)
        assert req.node is not None
        on_host = self._pool.host.find(req) if self._pool.host is not None else 0
        # what it would use itself cannot be evicted for it
        node = req.node
        tree.lock(node)
        try:
            return self._test(req, on_host)
        finally:
            tree.unlock(node)

    @property
    def _room(self) -> float:
        return self._pool.free + self._pool.evictable - self._taken

    @property
    def _room_now(self) -> float:
        return self._pool.free + self._pool.evictable - self._taken_now

    def _test(self, req: Live, on_host: int) -> Verdict:
        """`on_host` tokens need not be computed, but their memory is needed as if they were."""
        tokens = self._may_have(req, on_host)
        if on_host and not isinstance(tokens, Verdict):
            seconds = self._pool.load_back(req, on_host)
            if seconds is None:
                tokens = self._may_have(req, 0)
            else:
                self.load_s += seconds
        if isinstance(tokens, Verdict):
            return tokens
        cut = tokens < req.length - req.prefix
        self._pool.lock(req)
        self._admit(req, tokens, 0 if cut else self._full_reserve(req))
        if cut:
            self.chunked = req
        return self.verdict()

    def _may_have(self, req: Live, on_host: int) -> int | Verdict:
        """How many tokens of a candidate this step may compute, or why none."""
        need = req.length - req.prefix + min(max(req.max_new - req.out, 0), self._clip) + self._page
        room = self._room
        if self._checks is not None:
            self._checks.append({"id": req.id, "need": need, "rem_total": round(room, 3), "ok": need < room, "prefix": req.prefix})
        if not need < room:
            return Verdict.NO_ROOM
        begin = req.prefix + on_host
        missing = req.length - begin
        in_pages = self._pool.pages(missing)
        if self._step_chunk is None:
            # without chunks the first of a step may be longer than the step
            return Verdict.STEP_FULL if self.admitted and in_pages >= self._step_input else missing
        if in_pages <= self._step_chunk:
            return missing
        piece = self._step_chunk // self._page * self._page
        piece = (begin + piece) // self._page * self._page - begin
        return piece if piece > 0 else Verdict.STEP_FULL

    def _offer_fixed_length(self, req: Live) -> Verdict:
        """Without a cache, a request of known length is tested against the pool as it will be when each of the others ends."""
        missing = req.length - req.prefix
        in_pages = self._pool.pages(missing) + self._page
        if in_pages > min(self._room_now, self._room) or not self._fits_over_time(req, in_pages):
            return Verdict.NO_ROOM
        if self._step_chunk is None or missing <= self._step_chunk:
            self._admit(req, missing, self._full_reserve(req))
            return self.verdict()
        if self._step_chunk <= 0:
            return Verdict.STEP_FULL
        self._admit(req, self._step_chunk, 0)
        self.chunked = req
        return self.verdict()

    def _fits_over_time(self, req: Live, in_pages: int) -> bool:
        if self._release is None:
            states = [self._state(r) for r in (req, *self._running, *self.admitted)]
            self._release = sorted((s for s in states if s[0] > 0), key=lambda s: s[0])
        elif (state := self._state(req))[0] > 0:
            at = next((i for i, s in enumerate(self._release) if state[0] <= s[0]), max(0, len(self._release) - 1))
            self._release.insert(at, state)
        room, freed = self._room_now - in_pages, 0
        for place, (left, holds) in enumerate(self._release):
            together = len(self._release) - place
            # one token each is kept for corner cases
            if room + freed - left * together <= together:
                return False
            freed += holds
        return True

    def _state(self, req: Live) -> tuple[float, int]:
        """Tokens it is expected to make yet, and how many it holds."""
        return req.max_new * (1.0 if req.ignores_eos else self._ratio) - req.out, req.length

    def _full_reserve(self, req: Live) -> int:
        # not less by what it has made: one that was retracted reserves its whole length again
        return min(req.max_new, self._clip)

    def _admit(self, req: Live, tokens: int, reserve: int) -> None:
        req.end = req.prefix + tokens
        self.admitted.append(req)
        in_pages = self._pool.pages(tokens)
        self._taken += in_pages + self._page + reserve
        self._taken_now += in_pages + self._page
        self._step_input -= in_pages
        if self._step_chunk is not None:
            self._step_chunk -= in_pages
