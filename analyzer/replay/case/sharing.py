"""Which of several prefixes each request has: so many are in use at a time that the pool holds what it was seen to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from analyzer.replay.case.pool_seen import PoolSeen, Shared
from analyzer.replay.case.told import Told
from analyzer.replay.workload import Request


@dataclass(frozen=True, slots=True)
class Member:
    """One request with a prefix of `tokens`. `found`: whether it found that cached; None: not known."""

    index: int
    tokens: int
    found: bool | None


@dataclass(slots=True)
class _Prefix:
    """One prefix: until when a request has it, the last one that took it (its place in order), and what had been let go of by then."""

    key: str
    until_s: float
    taken: int
    freed_tokens: float = 0.0
    gone: bool = False


def shared_out(told: Sequence[Told], members: Sequence[Member], pool: PoolSeen) -> dict[int, str]:
    """The key of each member's prefix, by the member's index; `members` in the order of admission.

    One that found its prefix has one that is in use, or one that was let go of last, whichever brings what is in use nearer to what the
    pool was seen to hold. One that did not brings a new one, or takes one that can have been thrown out since it was in use.
    """
    return _Prefixes(told, pool).given(members)


class _Prefixes:
    def __init__(self, told: Sequence[Told], pool: PoolSeen) -> None:
        self._told = told
        self._pool = pool
        self._shared = Shared(told, pool)
        self._ends = sorted((t.finish_s, t.request.prompt_tokens + t.request.output_tokens) for t in told if t.finish_s is not None)
        self._ended = 0
        self._freed = 0.0
        self._reported = 0
        self._by_tokens: dict[int, list[_Prefix]] = {}
        self._running: list[tuple[float, int]] = []

    def given(self, members: Sequence[Member]) -> dict[int, str]:
        out: dict[int, str] = {}
        for nth, member in enumerate(members):
            t = self._told[member.index]
            begin_s = t.request.arrival_s if t.first_token_s is None else t.first_token_s
            end_s = inf if t.finish_s is None else t.finish_s
            self._let_go(begin_s)
            prefix = self._chosen(member, begin_s, end_s)
            prefix.until_s = max(prefix.until_s, end_s)
            prefix.taken = nth
            prefix.gone = False
            self._running.append((end_s, member.tokens))
            out[member.index] = prefix.key
        return out

    def _chosen(self, member: Member, begin_s: float, end_s: float) -> _Prefix:
        prefixes = self._by_tokens.setdefault(member.tokens, [])
        idle = [p for p in prefixes if p.until_s <= begin_s]
        if member.found is False:
            gone = [p for p in idle if p.gone]
            return min(gone, key=lambda p: p.until_s) if gone else self._new(prefixes, member.tokens)
        cached = [p for p in idle if not p.gone]
        used = [p for p in prefixes if p.until_s > begin_s]
        more = self._more_wanted(begin_s, end_s, member.tokens)
        if more is None:
            # in turns
            there = [*used, *cached]
            return min(there, key=lambda p: p.taken) if there else self._new(prefixes, member.tokens)
        if more and cached:
            return max(cached, key=lambda p: p.until_s)
        if used and not (more and member.found is None):
            return min(used, key=lambda p: p.taken)
        return max(cached, key=lambda p: p.until_s) if cached else self._new(prefixes, member.tokens)

    def _more_wanted(self, begin_s: float, end_s: float, tokens: int) -> bool | None:
        """Whether one more prefix of `tokens` in use brings them nearer to what the next report says; None where none does."""
        told = self._shared.next(begin_s, end_s)
        if told is None:
            return None
        at_s, saved = told
        running = tokens + sum(n for until_s, n in self._running if until_s > at_s)
        held = sum(n for n, prefixes in self._by_tokens.items() for p in prefixes if p.until_s > at_s)
        return held + tokens / 2 < running - saved

    def _new(self, prefixes: list[_Prefix], tokens: int) -> _Prefix:
        prefixes.append(_Prefix(f"cached:{tokens}:{len(prefixes)}", -inf, 0))
        return prefixes[-1]

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
        for tokens, prefixes in self._by_tokens.items():
            for p in prefixes:
                if p.until_s > now_s:
                    p.freed_tokens = self._freed
                elif self._freed - p.freed_tokens + tokens > room:
                    p.gone = True
