"""How many tokens requests made, from how long they ran: who was admitted first is taken to have ended first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyzer.replay.case.spread import Numbers, at, where, whole


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens made since the reading before, and how many requests made them; `at_s` rising, all of one length."""

    at_s: Sequence[float]
    tokens: Sequence[float]
    running: Sequence[float]

    def per_request(self) -> Numbers:
        """Running total of the tokens that a request which ran all the time would have made."""
        return np.cumsum(np.asarray(self.tokens) / np.maximum(1.0, np.asarray(self.running))) if len(self.at_s) else np.zeros(0)


def outputs(admitted_s: Sequence[float], at_s: Sequence[float], ended: Numbers, rate: Rate, n: int) -> list[int]:
    """Output lengths of `n` requests in the order of admission, scaled so that all tokens made are given out once.

    `ended` is the running total of those that ended by `at_s`. Those that never ended have the median of those that did; those without any
    that did, one token for each that a request made on average.
    """
    done = min(len(admitted_s), round(float(ended[-1])) if len(ended) else 0)
    made = rate.per_request()
    begin = np.asarray(admitted_s, dtype=np.float64)
    end = np.full(len(begin), float(at_s[-1]) if len(at_s) else 0.0)
    end[:done] = np.maximum(begin[:done], where(np.arange(done, dtype=np.float64) + 0.5, at_s, ended))
    lengths = at(end, rate.at_s, made) - at(begin, rate.at_s, made)
    total, given = float(np.sum(rate.tokens)), float(lengths.sum())
    if total > 0 and given > 0:
        lengths = lengths * (total / given)
    counted = [int(v) for v in whole(lengths[:done])]
    typical = int(np.median(counted)) if counted else max(1, round(total / max(1, len(begin))))
    # what still ran at the end has made so many already
    still = [max(typical, int(v)) for v in lengths[done:]]
    return [*counted, *still, *[typical] * (n - len(begin))][:n]
