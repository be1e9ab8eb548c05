"""A step time that was given stands in place of a fitted one."""

from __future__ import annotations

from analyzer.language import _
from analyzer.replay.model import FittedStepTime
from analyzer.replay.step_time import Pace, StepTime


def given_step_time(step_time: StepTime, overhead_s: float = 0.0) -> FittedStepTime:
    """With an even pace: a recorded one is how much slower than the fitted step time the host was, and says nothing of another one."""
    return FittedStepTime(step_time, Pace(), None, 0, _("Given, not measured."), overhead_s)
