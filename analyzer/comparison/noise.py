"""How far chance alone moves a percentile or a count: exact binomial bounds, no random numbers.

Both take each request or event as one of its own. Requests that waited in one queue are not, so true bounds are wider.
"""

from __future__ import annotations

import math

LEVEL = 0.95


def quantile_ranks(n: int, q: float) -> tuple[int, int | None]:
    """Ranks (1-based) of the sorted values that hold the true quantile `q` with 95 %; rank 0 and None are "no bound".

    How many of n values lie below the true quantile is binomial with n and q, whatever the distribution of the values.
    """
    tail = (1 - LEVEL) / 2
    low = _lowest_above(n, q, tail)
    # The mirror image: how many lie above it.
    high = _lowest_above(n, 1 - q, tail)
    return low, n + 1 - high if high else None


def counts_differ(a: int, b: int, exposure_a: float, exposure_b: float) -> bool:
    """True when two counts over two exposures (hours, requests) differ by more than chance makes with 95 %."""
    if exposure_a <= 0 or exposure_b <= 0 or a + b == 0:
        return False
    part = exposure_a / (exposure_a + exposure_b)
    tail = (1 - LEVEL) / 2
    fewer = _at_most(a + b, part, a)
    more = _at_most(a + b, 1 - part, b)
    return fewer <= tail or more <= tail


def _lowest_above(n: int, q: float, tail: float) -> int:
    """The highest rank r for which P(X < r) <= tail, X binomial with n and q; 0 without one."""
    if n <= 0 or not 0 < q < 1:
        return 0
    total, rank = 0.0, 0
    for k in _range(n, q):
        total += _probability(n, q, k)
        if total > tail:
            return rank
        rank = k + 1
    return rank


def _at_most(n: int, q: float, most: int) -> float:
    """P(X <= most) of a binomial with n and q."""
    return sum(_probability(n, q, k) for k in _range(n, q) if k <= most)


def _range(n: int, q: float) -> range:
    # What lies ten standard deviations out does not move a sum of 0.025.
    spread = math.ceil(10 * math.sqrt(n * q * (1 - q))) + 10
    middle = round(n * q)
    return range(max(0, middle - spread), min(n, middle + spread) + 1)


def _probability(n: int, q: float, k: int) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(q) + (n - k) * math.log1p(-q))
