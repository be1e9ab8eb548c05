"""What a token costs, where the rows of the fit hold too little prefill to tell: from requests that prefills of others held up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyzer.replay.fit.pace import seconds_of
from analyzer.replay.fit.work import Work
from analyzer.replay.step_time import StepTime

# So many requests have to tell, and so many of them the same way.
_LEAST = 10
_AGREE = 0.75


def with_prefill(step_time: StepTime, felt: Sequence[Work]) -> StepTime:
    """`step_time` with what a token costs by the middle of `felt` (a row per request); as it was where those do not agree on it."""
    held_up = [row for row in felt if row.tokens > row.requests and row.prefills > 0]
    if len(held_up) < _LEAST:
        return step_time
    prefilled = np.array([row.tokens - row.requests for row in held_up])
    seconds = np.array([row.seconds for row in held_up])
    each = (seconds - seconds_of(step_time, held_up)) / prefilled
    if np.mean(each > 0) < _AGREE:
        return step_time
    # half of all prefill tokens cost less than this, half more
    order = np.argsort(each)
    weight = np.cumsum(prefilled[order])
    token_s = float(each[order][np.searchsorted(weight, weight[-1] / 2)])
    # a decoding request is one token too
    return replace(step_time, token_s=token_s, request_s=max(0.0, step_time.request_s - token_s))
