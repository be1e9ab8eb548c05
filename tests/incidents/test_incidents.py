"""The verdict on labelled incidents, whole and with a part of them gone: one of the score split for each cause and engine.

Each is asked once whole and once in one variant, picked by its name. `make thorough` asks the other cases so, and `make accuracy` all
variants of all.
"""

from __future__ import annotations

from typing import Any

import pytest
from cases import all_incidents
from incident import Incident
from judging import complaints


def _cases() -> list[Any]:
    """The score split; the first of a cause and engine belongs to the everyday tests."""
    seen: set[tuple[str, str]] = set()
    found = []
    for case in all_incidents():
        if case.split == "score":
            marks = [pytest.mark.thorough] if (case.cause, case.engine) in seen else []
            seen.add((case.cause, case.engine))
            found.append(pytest.param(case, id=case.name, marks=marks))
    return found


@pytest.mark.parametrize("case", _cases())
def test_the_cause_of_a_labelled_incident_is_found(case: Incident) -> None:
    assert complaints(case) == []
