"""Turns counts over time, running totals and histograms into single requests: evenly, so that sums fit, and the same each time."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isinf

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def rising(values: Sequence[float] | Numbers) -> Numbers:
    """Running totals that never fall: what a late gauge says less of than was known before is not believed."""
    return np.maximum.accumulate(np.asarray(values, dtype=np.float64)) if len(values) else np.zeros(0)


def settled(values: Sequence[float] | Numbers) -> Numbers:
    """Running totals that never fall, the other way round: what was too much by what was known later is not believed."""
    return np.minimum.accumulate(np.asarray(values, dtype=np.float64)[::-1])[::-1] if len(values) else np.zeros(0)


def moments(at_s: Sequence[float], totals: Numbers) -> Numbers:
    """When each of the counted came: those counted by `at_s[k]` and not by the one before lie evenly between. Shape (last total,)."""
    n = round(float(totals[-1])) if len(totals) else 0
    return where(np.arange(n, dtype=np.float64) + 0.5, at_s, totals)


def where(counts: Numbers, at_s: Sequence[float], totals: Numbers) -> Numbers:
    """The times at which a running total passes `counts`, linear between readings. Shape of `counts`."""
    if not len(totals):
        return np.zeros(0)
    # of equal totals, the first is where the count was reached
    index = np.searchsorted(totals, counts, side="left").clip(1, max(1, len(totals) - 1))
    if len(totals) == 1:
        return np.full(len(counts), float(at_s[0]))
    times = np.asarray(at_s, dtype=np.float64)
    low, high = totals[index - 1], totals[index]
    share = np.where(high > low, (counts - low) / np.where(high > low, high - low, 1.0), 1.0).clip(0.0, 1.0)
    found: Numbers = times[index - 1] + share * (times[index] - times[index - 1])
    return found


def at(times: Numbers, at_s: Sequence[float], totals: Numbers) -> Numbers:
    """A running total at `times`, linear between readings. Shape of `times`."""
    return np.interp(times, np.asarray(at_s, dtype=np.float64), totals) if len(totals) else np.zeros(len(times))


def shares(counts: Numbers, tokens: Numbers, n: int) -> NDArray[np.int64]:
    """Lengths of `n` requests in order, from two running totals side by side, of requests and of their tokens; at least 1. Shape (n,)."""
    ends = np.arange(n + 1, dtype=np.float64) * (float(counts[-1]) / max(n, 1))
    steps = np.diff(np.interp(ends, *_strict(counts, tokens)))
    return whole(steps)


def whole(lengths: Numbers) -> NDArray[np.int64]:
    """Whole numbers of at least 1 whose sum is that of `lengths`, as near as that allows."""
    totals = np.floor(np.cumsum(lengths) + 0.5)
    found: NDArray[np.int64] = np.maximum(1, np.diff(totals, prepend=0.0)).astype(np.int64)
    return found


def from_histogram(bounds: Sequence[float], counts: Sequence[float], mean: float | None, n: int) -> NDArray[np.int64]:
    """`n` lengths spread as a histogram has them, in an order that has nothing to do with their size; scaled to `mean`. Shape (n,).

    `bounds` are the upper ends of its buckets, rising; `counts` how many lie in each.
    """
    total = np.cumsum(counts, dtype=np.float64)
    low = np.concatenate(([0.0], np.asarray(bounds[:-1], dtype=np.float64)))
    # the last bucket has no end: as wide again as its beginning
    high = np.array([2 * lo if isinf(b) else b for lo, b in zip(low, bounds, strict=True)])
    wanted = _mixed(n) * total[-1]
    index = np.searchsorted(total, wanted, side="right").clip(0, len(total) - 1)
    before = total[index] - np.asarray(counts, dtype=np.float64)[index]
    within = (wanted - before) / np.maximum(np.asarray(counts, dtype=np.float64)[index], 1e-9)
    lengths = low[index] + within * (high[index] - low[index])
    if mean is not None and n and lengths.mean() > 0:
        lengths = _scaled(lengths, low[index], high[index], mean)
    return whole(lengths)


def _scaled(lengths: Numbers, low: Numbers, high: Numbers, mean: float) -> Numbers:
    """Moved inside their buckets until the mean is right; past that, all by one factor."""
    part = (lengths - low) / np.maximum(high - low, 1e-9)
    least, most = 1e-3, 1e3
    for _ in range(60):
        power = (least * most) ** 0.5
        if float((low + part**power * (high - low)).mean()) > mean:
            least = power
        else:
            most = power
    moved: Numbers = low + part ** (least * most) ** 0.5 * (high - low)
    return moved * (mean / float(moved.mean()))


def _mixed(n: int) -> Numbers:
    """`n` numbers evenly in (0, 1), near ones far apart in the row (van der Corput's)."""
    order = np.arange(n)
    mixed = np.zeros(n)
    part = 0.5
    while order.any():
        mixed += part * (order & 1)
        order >>= 1
        part /= 2
    ranks = np.empty(n)
    ranks[np.argsort(mixed, kind="stable")] = (np.arange(n) + 0.5) / max(n, 1)
    return ranks


def _strict(counts: Numbers, tokens: Numbers) -> tuple[Numbers, Numbers]:
    """Both with a beginning at 0, without readings at which nothing was counted."""
    x, y = [0.0], [0.0]
    last = -inf
    for count, total in zip(counts.tolist(), tokens.tolist(), strict=True):
        if count <= max(0.0, last):
            # tokens counted before their request belong to the next one
            y[-1] = total if len(y) > 1 else y[-1]
            continue
        x.append(count)
        y.append(total)
        last = count
    return np.array(x), np.array(y)
