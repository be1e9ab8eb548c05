"""Thin a curve out for a screen: the lowest and the highest value of each stretch stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from tsdownsample import MinMaxDownsampler

_MIN_MAX = MinMaxDownsampler()  # type: ignore[no-untyped-call]


def downsample(values: Sequence[float | None], limit: int) -> list[int]:
    """Indices to keep, at most `limit` (at least 2): the lowest and the highest of each of limit / 2 equal stretches.

    Values are None where nothing is known; those are never kept, and the others count as if they stood side by side.
    """
    known = [i for i, v in enumerate(values) if v is not None]
    if len(known) <= limit:
        return known
    kept = thinned(np.array([values[i] for i in known], dtype=np.float64), limit)
    return [known[i] for i in kept.tolist()]


def thinned(values: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """The same for an array without NaN: the kept indices, sorted."""
    if len(values) <= limit:
        return np.arange(len(values), dtype=np.int64)
    # A stretch keeps two, or one where its values are all equal.
    found = _MIN_MAX.downsample(np.ascontiguousarray(values), n_out=max(2, limit - limit % 2))
    return cast("NDArray[np.int64]", np.unique(found).astype(np.int64))
