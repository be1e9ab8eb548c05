"""How long the steps of a recorded server took, how its host's speed moved, and what the capture says it did."""

from analyzer.replay.fit.given import step_time_from_json
from analyzer.replay.fit.observed import observe
from analyzer.replay.fit.step_time import fit_step_time

__all__ = ["fit_step_time", "observe", "step_time_from_json"]
