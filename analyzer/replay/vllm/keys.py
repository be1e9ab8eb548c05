"""Which leading KV blocks of which requests have the same content.

A block's key stands for all tokens from the sequence's start to the block's end, as vLLM's block hashes do: equal keys, equal prefixes.
Only blocks that two requests have in common need one. All others can be found again by their own request alone, and are counted instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analyzer.replay.workload import Distinct, Request, Tokens, Workload

Keys = NDArray[np.uint64]
_WEYL = np.uint64(0x9E3779B97F4A7C15)


def shared_keys(workload: Workload, block_tokens: int, *, every: bool = False) -> list[list[int]]:
    """Per request, the keys of its leading blocks that another request has too; with `every`, of all its blocks."""
    contents = workload.contents
    chains = []
    hasher = _Hasher(block_tokens)
    for request in workload.requests:
        if isinstance(contents, Distinct) and not every:
            # beyond the prefix nothing is equal to anything
            shared = sum(tokens for _, tokens in request.prefix)
            chains.append(hasher.chain(contents.prompt(request)[:shared]) if shared >= block_tokens else _NONE)
        else:
            chains.append(hasher.chain(_sequence(workload, request)))
    if every:
        return [chain.tolist() for chain in chains]
    return [chain[:depth].tolist() for chain, depth in zip(chains, _shared_depths(chains), strict=True)]


_NONE: Keys = np.empty(0, dtype=np.uint64)


def _sequence(workload: Workload, request: Request) -> Tokens:
    return np.concatenate([workload.contents.prompt(request), workload.contents.output(request)])


def _shared_depths(chains: list[Keys]) -> list[int]:
    """How many leading keys of each chain are in another chain as well."""
    if not any(len(chain) for chain in chains):
        return [0] * len(chains)
    _, place, count = np.unique(np.concatenate(chains), return_inverse=True, return_counts=True)
    # keys are chained: where one is shared, all before it are
    shared = np.cumsum(np.concatenate(([0], count[place] > 1)))
    ends = np.cumsum([len(chain) for chain in chains])
    return [int(shared[end] - shared[end - len(chain)]) for end, chain in zip(ends, chains, strict=True)]


class _Hasher:
    """64-bit keys of prefixes: the sum of scrambled tokens times a factor per position, taken at each block's end."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._factors: Keys = _NONE

    def chain(self, tokens: Tokens) -> Keys:
        """The keys of all whole blocks of a sequence."""
        whole = len(tokens) // self._block_tokens * self._block_tokens
        if len(self._factors) < whole:
            self._factors = _scrambled(np.arange(2 * whole, dtype=np.uint64) + _WEYL) | np.uint64(1)
        sums = np.cumsum(_scrambled(tokens[:whole].astype(np.uint64)) * self._factors[:whole])
        return _scrambled(sums[self._block_tokens - 1 :: self._block_tokens])


def _scrambled(values: Keys) -> Keys:
    """Each 64-bit value as another one, one to one, with all bits mixed (a multiply and shift finalizer)."""
    mixed = values * _WEYL
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
