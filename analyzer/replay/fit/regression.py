"""Robust regression with coefficients that are not negative, and only with those terms that the data can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

# A further term has to lower the mean error by this share at least, and by more than chance would (Schwarz's criterion).
_LEAST_GAIN = 0.05
# Rows for each term.
_ROWS_PER_TERM = 6
# Errors below this share count as none: what is printed is rounded.
_FLOOR = 1e-4
# An error of this logarithm and more is a stall, which no term explains.
_STALL = 0.7
# Of models of one size those are equally good whose mean errors differ by less than this share.
_TIE = 0.1
_ROUNDS = 30


@dataclass(frozen=True, slots=True)
class Fit:
    """`coefficients`, one per column, 0 where a term was left out; `residual_share` is the median |observed - fitted| / observed."""

    coefficients: Numbers
    residual_share: float


def fit(terms: Numbers, seconds: Numbers, first: int, further: Sequence[int]) -> Fit | None:
    """The simplest sum of terms that explains `seconds`: column `first`, and of `further` what the data ask for; None where nothing fits.

    The mean of |error| / fitted is made least, so that a stall in some rows moves nothing. Of models that explain equally well the one with
    the fewest terms is taken, and of those the one whose columns come earlier in `further`.
    """
    columns = [c for c in further if np.any(terms[:, c] > 0)]
    best, best_score = None, np.inf
    for size in range(len(columns) + 1):
        if size and len(seconds) < _ROWS_PER_TERM * (size + 1):
            break
        fits = [_whole(terms, seconds, (first, *chosen)) for chosen in combinations(columns, size)]
        scored = [(_score(terms @ f.coefficients, seconds, size), f) for f in fits if f is not None]
        if not scored:
            continue
        least = min(score for score, _ in scored)
        # as good as the best of its size is good enough to be preferred
        score, found = next((s, f) for s, f in scored if s <= least + len(seconds) * np.log1p(_TIE))
        if score < best_score - len(seconds) * np.log1p(_LEAST_GAIN):
            best, best_score = found, score
    return best


def _score(fitted: Numbers, seconds: Numbers, size: int) -> float:
    """Schwarz's criterion with errors as in Laplace's distribution; how far out a stall lies does not matter."""
    n = len(seconds)
    error = float(np.mean(np.minimum(np.abs(np.log(seconds / fitted)), _STALL)))
    return n * float(np.log(max(error, _FLOOR))) + 0.5 * size * float(np.log(n))


def _whole(terms: Numbers, seconds: Numbers, chosen: Sequence[int]) -> Fit | None:
    coefficients = _least_absolute(terms[:, chosen], seconds)
    if coefficients is None:
        return None
    whole = np.zeros(terms.shape[1])
    whole[list(chosen)] = coefficients
    return Fit(whole, float(np.median(np.abs(seconds - terms @ whole) / seconds)))


def _least_absolute(x: Numbers, y: Numbers) -> Numbers | None:
    """Coefficients by least squares, weighted anew until they are those of the least relative errors; None unless all are above zero."""
    if np.any(np.sum(x, axis=1) <= 0):
        return None
    scale = np.linalg.norm(x / y[:, None], axis=0)
    if np.any(scale <= 0):
        return None
    scaled = x / scale
    weights = 1.0 / y
    found: Numbers = np.zeros(x.shape[1])
    for _ in range(_ROUNDS):
        found = np.linalg.lstsq(scaled * weights[:, None], y * weights, rcond=1e-9)[0]
        if np.any(scaled @ found <= 0):
            return None
        fitted = scaled @ found
        relative = np.maximum(np.abs(y - fitted) / fitted, _FLOOR)
        weights = 1.0 / (fitted * np.sqrt(relative))
    if np.any(found <= 1e-6 * np.max(found)):
        return None
    # two columns that say the same cannot be told apart
    if np.linalg.matrix_rank(scaled * weights[:, None], tol=1e-6 * np.linalg.norm(scaled * weights[:, None])) < x.shape[1]:
        return None
    return np.asarray(found / scale, dtype=np.float64)
