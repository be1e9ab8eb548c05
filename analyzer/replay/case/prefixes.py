"""Which requests share the beginning of their prompts: told by hashes, or rebuilt so that the cached tokens come out."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from analyzer.replay.case.contents import own
from analyzer.replay.case.pool_seen import PoolSeen
from analyzer.replay.case.sharing import Member, shared_out
from analyzer.replay.case.told import Told
from analyzer.replay.workload import Request

Pieces = tuple[tuple[str, int], ...]
# Cached tokens of a count that many requests have are a prefix of all of them (a system prompt); a rarer count is a turn of a conversation.
_COMMON = 3
# The first tokens after a prefix may be another request's too, by chance or as its template has them.
_BY_CHANCE = 8
# The mean place of the first ones with a prefix among all that have one is below this share of them; of requests without it, it is half.
_EARLY = 0.35
_BLOCK_SIZES = (16, 32, 64, 128, 256, 512, 1024)


def by_hashes(told: Sequence[Told]) -> list[Request]:
    """Block hashes: equal ones are equal blocks. A prefix is the blocks up to the last one that another request has too."""
    size = block_size(told)
    seen = Counter(h for t in told for h in t.hashes or ())
    found = []
    for t in told:
        hashes = t.hashes or ()
        shared = next((i for i in range(len(hashes), 0, -1) if seen[hashes[i - 1]] > 1), 0)
        pieces: list[tuple[str, int]] = []
        for i, h in enumerate(hashes[:shared]):
            tokens = min(size, t.request.prompt_tokens - i * size)
            if tokens > 0:
                pieces.append((f"block:{h}", tokens))
        found.append(replace(t.request, prefix=_whole_blocks_joined(pieces, seen, hashes)))
    return found


def block_size(told: Sequence[Told]) -> int:
    """Tokens of a hashed block: the size with which most prompts have as many blocks as they list."""
    fits = Counter(
        size
        for t in told
        if t.hashes
        for size in _BLOCK_SIZES
        if len(t.hashes) == -(-t.request.prompt_tokens // size) or len(t.hashes) == t.request.prompt_tokens // size
    )
    return max(_BLOCK_SIZES, key=lambda size: (fits[size], size)) if fits else 512


def _whole_blocks_joined(pieces: list[tuple[str, int]], seen: Counter[int], hashes: Sequence[int]) -> Pieces:
    """Blocks in a row that as many requests have, as one piece: a hash stands for all before it too, so they always come together."""
    joined: list[tuple[str, int]] = []
    for i, (key, tokens) in enumerate(pieces):
        if i and seen[hashes[i]] == seen[hashes[i - 1]]:
            joined[-1] = (joined[-1][0], joined[-1][1] + tokens)
        else:
            joined.append((key, tokens))
    return tuple(joined)


def by_equal_prompts(told: Sequence[Told]) -> list[Request]:
    """Equal hashes of whole prompts are equal prompts."""
    seen = Counter(t.sha256 for t in told if t.sha256)
    return [
        replace(t.request, prefix=((f"prompt:{t.sha256}", t.request.prompt_tokens),)) if t.sha256 and seen[t.sha256] > 1 else t.request
        for t in told
    ]


def by_cached_tokens(told: Sequence[Told], pool: PoolSeen | None = None) -> list[Request]:
    """Prefixes with which each request finds as many tokens cached as it did.

    A count that several requests have is a prefix they share: which of several of that length, `pool` tells, see `sharing`, and without it
    the order of hits and misses, see `_share`. Any other request goes on where an earlier one had stopped:
    that whose prompt and output are the least longer than what was cached, among those that had ended and that no other goes on from. What
    has no such source was cached before the workload began, or is of a request that was not recorded: it is computed in the replay.
    """
    told = _without_chance(told)
    counts = Counter(t.cached_tokens for t in told if t.cached_tokens)
    common = {tokens for tokens, n in counts.items() if tokens and n >= _COMMON}
    prefix: dict[int, Pieces] = {}
    first = _new_before(told, common)
    if pool is not None and pool.reports:
        prefix.update(_by_pool(told, first, pool))
    else:
        for tokens, new in first.items():
            _share(told, tokens, new, prefix)
    ended = _Ended(told)
    for i, t in enumerate(told):
        cached = min(t.cached_tokens or 0, t.request.prompt_tokens)
        if cached and i not in prefix:
            before = ended.take(t.request.arrival_s, cached)
            if before is not None:
                begun = prefix.get(before, ())
                prefix[i] = _cut((*begun, own(replace(told[before].request, prefix=begun))), cached)
    return [replace(t.request, prefix=prefix.get(i, ())) for i, t in enumerate(told)]


def _without_chance(told: Sequence[Told]) -> list[Told]:
    """The same, where what a few found beyond a commoner count, or beyond nothing, is not counted."""
    counts = Counter(t.cached_tokens for t in told if t.cached_tokens is not None)
    usual = {}
    for tokens, n in counts.items():
        less = [c for c in counts if tokens - _BY_CHANCE <= c < tokens and counts[c] > n]
        usual[tokens] = 0 if tokens <= _BY_CHANCE else max(less, key=lambda c: counts[c], default=tokens)
    return [t if t.cached_tokens is None else replace(t, cached_tokens=usual[t.cached_tokens]) for t in told]


def _new_before(told: Sequence[Told], common: set[int]) -> dict[int, list[int]]:
    """By count of cached tokens that is common: the requests that found nothing and came before a hit of that count as the next one."""
    found: dict[int, list[int]] = {tokens: [] for tokens in sorted(common)}
    coming = 0
    for i in range(len(told) - 1, -1, -1):
        cached = told[i].cached_tokens or 0
        if cached in common:
            coming = cached
        elif not cached and coming and told[i].request.prompt_tokens >= coming:
            found[coming].append(i)
    return {tokens: new[::-1] for tokens, new in found.items()}


def _share(told: Sequence[Told], tokens: int, new: list[int], prefix: dict[int, Pieces]) -> None:
    """Give all requests that found `tokens` cached such a prefix, and one to each of `new` that brought it.

    Where these come early among the hits they are the first ones with prefixes of their own, and the hits have those in turns. Where
    they come all the time they are requests without it: then there is one prefix, of the last of them before the first hit.
    """
    hits = [i for i, t in enumerate(told) if t.cached_tokens == tokens]
    among = sorted([*hits, *new])
    if new and sum(bisect_left(among, i) for i in new) > _EARLY * len(among) * len(new):
        new = [i for i in new if i < hits[0]][-1:]
    for nth, i in enumerate(new):
        prefix[i] = ((f"cached:{tokens}:{nth}", tokens),)
    for turn, i in enumerate(hits):
        there = max(1, bisect_left(new, i))
        prefix[i] = ((f"cached:{tokens}:{turn % there}", min(tokens, told[i].request.prompt_tokens)),)


def _by_pool(told: Sequence[Told], first: dict[int, list[int]], pool: PoolSeen) -> dict[int, Pieces]:
    hits = [Member(i, cached, True) for i, t in enumerate(told) if (cached := t.cached_tokens) is not None and cached in first]
    misses = [Member(i, tokens, False) for tokens, new in first.items() for i in new]
    members = sorted([*hits, *misses], key=lambda m: m.index)
    return {i: _cut(pieces, told[i].request.prompt_tokens) for i, pieces in shared_out(told, members, pool).items()}


def by_hit_share(requests: Sequence[Request], share: float) -> list[Request]:
    """One prefix of all requests, of the length with which `share` of their prompt tokens is shared."""
    tokens = _length_of_share(requests, share)
    return [replace(r, prefix=(("shared", min(tokens, r.prompt_tokens)),) if tokens else ()) for r in requests]


def by_hit_share_and_pool(told: Sequence[Told], share: float, pool: PoolSeen) -> list[Request]:
    """Prefixes of one such length, as many of them as `pool` tells to be in use at a time, see `sharing`."""
    requests = [t.request for t in told]
    tokens = _length_of_share(requests, share)
    members = [Member(i, tokens, None) for i, r in enumerate(requests) if 0 < tokens <= r.prompt_tokens]
    given = shared_out(told, members, pool)
    return [replace(r, prefix=given.get(i, ())) for i, r in enumerate(requests)]


def _length_of_share(requests: Sequence[Request], share: float) -> int:
    wanted = share * sum(r.prompt_tokens for r in requests)
    lengths = [r.prompt_tokens for r in requests]
    low, high = 0, max(lengths, default=0)
    while low < high:
        middle = (low + high) // 2
        if sum(min(middle, n) for n in lengths) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _cut(pieces: Pieces, tokens: int) -> Pieces:
    kept: list[tuple[str, int]] = []
    for key, length in pieces:
        if tokens <= 0:
            break
        kept.append((key, min(length, tokens)))
        tokens -= length
    return tuple(kept)


class _Ended:
    """Requests by the length they had come to, each from the moment it ended on and until another goes on from it."""

    def __init__(self, told: Sequence[Told]) -> None:
        self._coming = sorted(((t.finish_s, i) for i, t in enumerate(told) if t.finish_s is not None), reverse=True)
        self._lengths = [t.request.prompt_tokens + t.request.output_tokens for t in told]
        self._there: list[tuple[int, int]] = []

    def take(self, now_s: float, tokens: int) -> int | None:
        """The index of the shortest one of at least `tokens`; the caller goes on from it."""
        while self._coming and self._coming[-1][0] <= now_s:
            _, i = self._coming.pop()
            insort(self._there, (self._lengths[i], -i))
        at = bisect_left(self._there, (tokens, -len(self._lengths)))
        if at == len(self._there):
            return None
        return -self._there.pop(at)[1]
