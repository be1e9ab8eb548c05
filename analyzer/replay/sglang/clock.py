"""When steps end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyzer.replay.sglang.live import Live
from analyzer.replay.step_time import Pace, Seconds, StepTime


class Clock:
    """Step times, each term added onto the moment the step starts, from left to right, as the engine's oracle adds them.

    Their sum first and the moment then would differ in the last bit, and arrivals are compared with these times.
    """

    def __init__(self, step_time: StepTime, pace: Pace | None) -> None:
        self._step_time = step_time
        self._pace = pace

    def prefill_end(self, start_s: float, reqs: Sequence[Live], load_s: float) -> float:
        """Of a prefill that starts at `start_s`; `load_s` are spent on loading from L2 before it."""
        tokens = sum(r.end - r.prefix for r in reqs)
        # pairs of a token and one before it: those in the cache, and those of the prefill itself
        attended = sum((r.end - r.prefix) * (r.end + r.prefix - 1) / 2 for r in reqs) if self._step_time.attended_s else 0.0
        return self._end(start_s + load_s, tokens, len(reqs), prefill=True, attended=attended)

    def decode_end(self, start_s: float, reqs: Sequence[Live]) -> float:
        """Of a decode step that starts at `start_s`."""
        return self._end(start_s, len(reqs), len(reqs), kv_tokens=self._kv_tokens(reqs))

    def decode_ends(self, start_s: float, reqs: Sequence[Live], steps: int) -> Seconds:
        """Of the next `steps` decode steps in a row, before their memory is taken; (steps,)."""
        model, count = self._step_time, len(reqs)
        kv_tokens = self._kv_tokens(reqs) + count
        if self._pace is not None:
            return self._pace.ends(start_s, model.decode_seconds(count, count, kv_tokens, steps))
        terms = np.empty((steps, 4), dtype=np.float64)
        terms[:, 0] = model.base_s
        terms[:, 1] = model.token_s * count
        terms[:, 2] = model.request_s * count
        terms[:, 3] = model.kv_token_s * (kv_tokens + count * np.arange(steps, dtype=np.float64))
        ends: Seconds = np.add.accumulate(np.concatenate(([start_s], terms.ravel())))[4::4]
        return ends

    def _kv_tokens(self, reqs: Sequence[Live]) -> int:
        return sum(r.held for r in reqs) if self._step_time.kv_token_s else 0

    def _end(
        self, start_s: float, tokens: int, requests: int, *, prefill: bool = False, attended: float = 0.0, kv_tokens: int = 0
    ) -> float:
        model = self._step_time
        if self._pace is not None:
            return self._pace.end(start_s, model.seconds(tokens, requests, prefill=prefill, attended=attended, kv_tokens=kv_tokens))
        plain = start_s + model.base_s + model.token_s * tokens + model.request_s * requests
        return plain + (model.prefill_s if prefill else 0.0) + model.attended_s * attended + model.kv_token_s * kv_tokens
