"""new_token_ratio: which part of what running requests may still make SGLang keeps room for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.replay.settings import Sglang
from analyzer.replay.sglang.live import Live


class NewTokenRatio:
    """Begins high, decays with each decode step that fits, and is set anew by each retraction."""

    def __init__(self, settings: Sglang) -> None:
        self._settings = settings
        self._init = min(settings.init_ratio * settings.conservativeness, 1.0)
        self._least = min(self._init * settings.min_ratio_factor, 1.0)
        self._decay = (self._init - self._least) / settings.ratio_decay_steps
        self.current = self._init

    def step(self) -> None:
        """A decode step has fitted."""
        self.current = max(self.current - self._decay, self._least)

    def ahead(self, steps: int) -> NDArray[np.float64]:
        """Its values after each of the next `steps` decode steps that fit; float64, (steps,)."""
        falls = np.full(steps + 1, self._decay)
        falls[0] = self.current
        # subtracted one by one, as the engine does it: the last bits decide admissions
        values: NDArray[np.float64] = np.maximum(np.subtract.accumulate(falls)[1:], self._least)
        return values

    def reset(self) -> None:
        """Nothing runs and nothing waits."""
        self.current = self._init

    def retracted(self, left: Sequence[Live]) -> None:
        """A retraction has left these running: what they made, and the steps they are granted, of all they may make."""
        made = sum(r.out for r in left) + self._settings.retract_decode_steps * len(left)
        may = sum(r.max_new for r in left) + (1 if self._settings.ratio_plus_one else 0)
        self.current = min(1.0, made / may) if may else 1.0
