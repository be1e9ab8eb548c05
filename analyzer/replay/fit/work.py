"""What an engine did in a stretch of time, as sums over its steps: the rows a step time is fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Work:
    """One stretch from `start_s` to `end_s`, in which the engine was busy for `seconds`; the rest are sums over its steps.

    `steps` were run; `tokens` scheduled (prefill and decode), `requests` the sizes of the batches, `prefills` the steps that prefilled,
    `attended` pairs of a prefill token and one before it, `kv_tokens` read by decoding requests. `lump` is how many steps' worth of work
    may be told a stretch too early or too late. A row with `fits` False tells how fast the engine was (its pace), but is too coarse to
    fit to.
    """

    start_s: float
    end_s: float
    seconds: float
    steps: float
    tokens: float
    requests: float
    prefills: float = 0.0
    attended: float = 0.0
    kv_tokens: float = 0.0
    lump: float = 1.0
    fits: bool = True


def matrix(rows: Sequence[Work]) -> Matrix:
    """One line per row, one column per term, in the order of StepTime's fields."""
    terms = [(r.steps, r.tokens, r.requests, r.prefills, r.attended, r.kv_tokens) for r in rows]
    return np.array(terms, dtype=np.float64).reshape(len(rows), 6)


def joined(rows: Sequence[Work]) -> Work:
    """Several stretches in a row as one."""
    return Work(
        start_s=rows[0].start_s,
        end_s=rows[-1].end_s,
        seconds=sum(r.seconds for r in rows),
        steps=sum(r.steps for r in rows),
        tokens=sum(r.tokens for r in rows),
        requests=sum(r.requests for r in rows),
        prefills=sum(r.prefills for r in rows),
        attended=sum(r.attended for r in rows),
        kv_tokens=sum(r.kv_tokens for r in rows),
        lump=max(r.lump for r in rows),
        fits=all(r.fits for r in rows),
    )
