"""Cached tokens that are known as the sum over several requests, told apart."""

from __future__ import annotations

from collections import Counter
from math import gcd, inf, log

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

# More counts than this are too many to try, and more cells of requests and sums.
_MOST_COUNTS = 5
_MOST_CELLS = 2_000_000
# What a request weighs that found nothing, or a count once seen less than it was.
_ANY = 0.5


def split_cached(total: int, n: int, near: Counter[int]) -> list[int]:
    """`total` cached tokens as the counts of `n` requests; empty where no counts sum to it that are usual (`near`: how often each was).

    The likeliest such counts, the least first, since who came first computed it.
    """
    if not total:
        return [0] * n
    if n == 1:
        return [total] if total in near else []
    found = _Splits(total, n, near)
    return found.of(n, total)


def split_with_one_odd(total: int, n: int, near: Counter[int]) -> list[int]:
    """The same with one request whose count is not usual and less than the largest that is: a part of what was cached is thrown out first.

    The last one is given it.
    """
    most = max(near, default=0)
    found = _Splits(total, n - 1, near)
    rests = [rest for rest in range(1, min(most, total + 1)) if found.weight(n - 1, total - rest) > -inf]
    if not rests:
        return []
    rest = max(rests, key=lambda r: (found.weight(n - 1, total - r), -r))
    return [*found.of(n - 1, total - rest), rest]


def evenly(total: int, n: int) -> list[int]:
    """`total` tokens as `n` whole numbers that differ by one at most."""
    return [total * (k + 1) // n - total * k // n for k in range(n)]


class _Splits:
    """The likeliest counts of up to `n` requests for each sum of tokens up to `total`; none where that is too much to try."""

    def __init__(self, total: int, n: int, near: Counter[int]) -> None:
        counts = sorted((tokens for tokens in near if tokens), key=lambda tokens: (-near[tokens], tokens))[:_MOST_COUNTS]
        self._unit = gcd(*counts) if counts else 1
        sums = total // self._unit + 1
        self._best: list[Numbers] = []
        self._taken: list[NDArray[np.int64]] = []
        if not counts or n * sums > _MOST_CELLS:
            return
        self._sizes = sorted([0, *(tokens // self._unit for tokens in counts)])
        weights = [log(_ANY + near[size * self._unit]) if size else log(_ANY) for size in self._sizes]
        best = np.full(sums, -inf)
        best[0] = 0.0
        self._best.append(best)
        for _nth in range(n):
            options = np.full((len(self._sizes), sums), -inf)
            for row, (size, weight) in enumerate(zip(self._sizes, weights, strict=True)):
                if size < sums:
                    options[row, size:] = self._best[-1][: sums - size] + weight
            self._taken.append(np.argmax(options, axis=0))
            self._best.append(np.max(options, axis=0))

    def weight(self, n: int, total: int) -> float:
        """The logarithm of how likely the likeliest counts of `n` requests that sum to `total` are; both at most as given at first."""
        if n >= len(self._best) or total < 0 or total % self._unit:
            return -inf
        return float(self._best[n][total // self._unit])

    def of(self, n: int, total: int) -> list[int]:
        """Those counts, rising; empty where there are none."""
        if self.weight(n, total) == -inf:
            return []
        found, left = [], total // self._unit
        for taken in reversed(self._taken[:n]):
            found.append(self._sizes[taken[left]])
            left -= found[-1]
        return [size * self._unit for size in sorted(found)]
