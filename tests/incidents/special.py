"""The special cases: shapes that are easily taken for something else, each with a cause that is known because the engine was made so."""

from __future__ import annotations

import special_cases_l1
import special_cases_l2
import special_cases_other
import special_cases_pd
import special_cases_process
from incident import Incident
from special_scene import Scene


def scenes() -> list[Scene]:
    """The cases of one scheduler, which can be run again with other settings."""
    modules = (special_cases_l1, special_cases_l2, special_cases_pd, special_cases_process, special_cases_other)
    return [scene for module in modules for scene in module.scenes()]


def incidents() -> list[Incident]:
    """All special cases."""
    rest = [*special_cases_process.restarts(), *special_cases_other.skewed()]
    return [case.incident() for case in [*scenes(), *rest]]
