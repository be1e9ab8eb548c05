"""Which of several prefixes each request has: so many are in use at a time that the pool holds what it was seen to hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from analyzer.replay.case.pool_seen import PoolSeen, Shared
from analyzer.replay.case.told import Told

Pieces = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One request with a prefix of `tokens`. `found`: whether it found that cached; None: not known."""

    index: int
    tokens: int
    found: bool | None


def shared_out(told: Sequence[Told], members: Sequence[Member], pool: PoolSeen) -> dict[int, Pieces]:
    """The pieces of each member's prefix, by the member's index; `members` in the order of admission.

    One that found its prefix has one that is in use, or one that was let go of last, whichever brings what is in use nearer to what the
    pool was seen to hold. One that did not brings a new one, or takes one that can have been thrown out since it was in use.
    """
    return _Prefixes(told, members, pool).given(members)


@dataclass(slots=True)
class _Prefix:
    """One prefix, which may begin with a shorter one: until when a request has it, the last one that took it (its place in the order), and
    whether it can have been thrown out since; `freed_tokens` are those that had been let go of by `until_s`."""

    pieces: Pieces
    base: _Prefix | None = None
    until_s: float = -inf
    taken: int = 0
    freed_tokens: float = 0.0
    gone: bool = False

    @property
    def own_tokens(self) -> int:
        return self.pieces[-1][1]


@dataclass(frozen=True, slots=True)
class _Ended:
    """A request that found a prefix, and may have brought a longer one that begins with it."""

    index: int
    end_s: float
    prefix: _Prefix


class _Prefixes:
    def __init__(self, told: Sequence[Told], members: Sequence[Member], pool: PoolSeen) -> None:
        self._told = told
        self._pool = pool
        self._shared = Shared(told, pool)
        # of a prefix that others have too nothing is left behind
        shared = {m.index: m.tokens for m in members}
        self._ends = sorted(
            (t.finish_s, t.request.prompt_tokens + t.request.output_tokens - shared.get(i, 0))
            for i, t in enumerate(told)
            if t.finish_s is not None
        )
        self._ended = 0
        self._freed = 0.0
        self._reported = 0
        self._by_tokens: dict[int, list[_Prefix]] = {}
        self._running: list[tuple[float, int]] = []
        self._hits: list[_Ended] = []
        self._out: dict[int, Pieces] = {}

    def given(self, members: Sequence[Member]) -> dict[int, Pieces]:
        for nth, member in enumerate(members):
            t = self._told[member.index]
            begin_s = t.request.arrival_s if t.first_token_s is None else t.first_token_s
            end_s = inf if t.finish_s is None else t.finish_s
            self._let_go(begin_s)
            prefix = self._chosen(member, begin_s, end_s)
            self._out[member.index] = prefix.pieces
            self._running.append((end_s, member.tokens))
            if member.found:
                self._hits.append(_Ended(member.index, end_s, prefix))
            taken: _Prefix | None = prefix
            while taken is not None:
                taken.until_s, taken.taken, taken.gone = max(taken.until_s, end_s), nth, False
                taken = taken.base
        return self._out

    def _chosen(self, member: Member, begin_s: float, end_s: float) -> _Prefix:
        there = self._by_tokens.setdefault(member.tokens, [])
        idle = [p for p in there if p.until_s <= begin_s]
        if member.found is False:
            gone = [p for p in idle if p.gone]
            return min(gone, key=lambda p: p.until_s) if gone else self._new(member.tokens)
        # it found one, so that one was there
        cached = [p for p in idle if not p.gone] or (idle if member.found else [])
        used = [p for p in there if p.until_s > begin_s]
        short = self._short(begin_s, end_s, member.tokens)
        more = short is not None and short > 0.5
        if more and not cached:
            longer = self._longer(member.tokens, begin_s) if member.found else self._new(member.tokens)
            cached = [longer] if longer is not None else []
        if used and not (more and cached):
            if short is None:
                used += cached
            # in turns, or where too many are in use that which is longest: the others come to their end
            return max(used, key=lambda p: p.until_s) if short is not None and short < -0.5 else min(used, key=lambda p: p.taken)
        return max(cached, key=lambda p: p.until_s) if cached else self._new(member.tokens)

    def _short(self, begin_s: float, end_s: float, tokens: int) -> float | None:
        """How many prefixes of `tokens` more would be in use by the next report, to hold what it says; None where none tells."""
        told = self._shared.next(begin_s, end_s)
        if told is None:
            return None
        at_s, saved = told
        running = tokens + sum(n for until_s, n in self._running if until_s > at_s)
        held = sum(p.own_tokens for p in self._prefixes() if p.until_s > at_s)
        return (running - saved - held) / tokens

    def _new(self, tokens: int) -> _Prefix:
        there = self._by_tokens[tokens]
        there.append(_Prefix(((f"cached:{tokens}:{len(there)}", tokens),)))
        return there[-1]

    def _longer(self, tokens: int, now_s: float) -> _Prefix | None:
        """A prefix that begins with a shorter one: the last request to end that found only that may have brought it."""
        fits = [h for h in self._hits if h.end_s <= now_s and self._is_short(h, tokens)]
        if not fits:
            return None
        hit = max(fits, key=lambda h: h.end_s)
        there = self._by_tokens[tokens]
        piece = (f"cached:{tokens}:{len(there)}", tokens - self._tokens(hit))
        there.append(_Prefix((*hit.prefix.pieces, piece), hit.prefix, hit.end_s))
        self._out[hit.index] = there[-1].pieces
        return there[-1]

    def _tokens(self, hit: _Ended) -> int:
        return sum(n for _key, n in hit.prefix.pieces)

    def _is_short(self, hit: _Ended, tokens: int) -> bool:
        """Whether it found less than `tokens`, was long enough for them, and has not been given a longer prefix yet."""
        found_all = hit.prefix.pieces == self._out[hit.index]
        return found_all and self._tokens(hit) < tokens <= self._told[hit.index].request.prompt_tokens

    def _prefixes(self) -> Iterator[_Prefix]:
        for there in self._by_tokens.values():
            yield from there

    def _let_go(self, now_s: float) -> None:
        """Requests that ended leave their tokens behind, and these throw out what is older where there is no room for both."""
        self._running = [(until_s, n) for until_s, n in self._running if until_s > now_s]
        while self._ended < len(self._ends) and self._ends[self._ended][0] <= now_s:
            self._freed += self._ends[self._ended][1]
            self._ended += 1
        reports = self._pool.reports
        while self._reported + 1 < len(reports) and reports[self._reported + 1].at_s <= now_s:
            self._reported += 1
        room = self._pool.capacity_tokens - (reports[self._reported].used_tokens if reports else 0.0)
        for p in self._prefixes():
            if p.until_s > now_s:
                p.freed_tokens = self._freed
            elif self._freed - p.freed_tokens + p.own_tokens > room:
                p.gone = True
