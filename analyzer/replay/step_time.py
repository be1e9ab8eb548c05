"""How long a step takes, and how the host's speed moved while the incident was recorded."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one step: a linear model in what the step does. Terms that are not known are 0.

    `base_s` per step; `token_s` per scheduled token (prefill and decode); `request_s` per request in the batch; `prefill_s` more for a step
    that prefills; `attended_s` per pair of a prefill token and a token before it; `kv_token_s` per KV token that decoding requests read,
    a shared prefix once for each of them.
    """

    base_s: float
    token_s: float
    request_s: float
    prefill_s: float = 0.0
    attended_s: float = 0.0
    kv_token_s: float = 0.0

    def seconds(self, tokens: int, requests: int, *, prefill: bool = False, attended: float = 0.0, kv_tokens: float = 0.0) -> float:
        """Of one step. The sum is taken in this order, so that base, tokens and requests alone are exact."""
        plain = self.base_s + self.token_s * tokens + self.request_s * requests
        return plain + (self.prefill_s if prefill else 0.0) + self.attended_s * attended + self.kv_token_s * kv_tokens

    def decode_seconds(self, tokens: int, requests: int, kv_tokens: float, steps: int) -> Seconds:
        """Of `steps` equal decode steps in a row, each of which adds `tokens` KV tokens to the `kv_tokens` that the first one reads."""
        plain = self.base_s + self.token_s * tokens + self.request_s * requests
        return plain + self.kv_token_s * (kv_tokens + tokens * np.arange(steps, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Pace:
    """How much longer than the model steps took at each time, and when the host stood still: inputs of a replay, not its results.

    `slower` holds from each of `at_s` (rising, the first at or before second 0) to the next: 1 is the model's own speed.
    `pauses` are (start_s, seconds), rising and apart: nothing moves inside one.
    """

    at_s: tuple[float, ...] = (0.0,)
    slower: tuple[float, ...] = (1.0,)
    pauses: tuple[tuple[float, float], ...] = ()

    def end(self, start_s: float, seconds: float) -> float:
        """When a step ends that starts at `start_s` and takes `seconds` at the model's speed."""
        return float(self.ends(start_s, np.array([seconds]))[0])

    def ends(self, start_s: float, seconds: Seconds) -> Seconds:
        """When each of several steps in a row ends; each takes the pace at its own start. Same shape as `seconds`."""
        ends = np.empty(len(seconds), dtype=np.float64)
        done, now = 0, start_s
        while done < len(seconds):
            now = self._after_pause(now)
            slower, boundary = self._stretch(now)
            # a running sum from the left, as one step after the other would add up
            ahead = np.cumsum(np.concatenate(([now], seconds[done:] * slower)))[1:]
            steps = min(1 + int(np.searchsorted(ahead, boundary)), len(ahead))
            ends[done : done + steps] = ahead[:steps]
            last_start = now if steps == 1 else float(ahead[steps - 2])
            done += steps
            now = self._over_pauses(last_start, float(ahead[steps - 1]))
            ends[done - 1] = now
        return ends

    def _stretch(self, at_s: float) -> tuple[float, float]:
        """The factor that holds at a time, and the next time at which anything changes."""
        index = max(0, bisect_right(self.at_s, at_s) - 1)
        changes = self.at_s[index + 1] if index + 1 < len(self.at_s) else inf
        pause = bisect_right(self.pauses, (at_s, inf))
        return self.slower[index], min(changes, self.pauses[pause][0] if pause < len(self.pauses) else inf)

    def _after_pause(self, at_s: float) -> float:
        """The same time, or the end of the pause it is in."""
        index = bisect_right(self.pauses, (at_s, inf)) - 1
        if index < 0:
            return at_s
        start, length = self.pauses[index]
        return max(at_s, start + length)

    def _over_pauses(self, start_s: float, end_s: float) -> float:
        """The end of a step, later by the pauses that begin inside it."""
        for pause_s, length in self.pauses[bisect_right(self.pauses, (start_s, inf)) :]:
            if pause_s >= end_s:
                break
            end_s += length
        return end_s
