"""The verdict on every labelled incident, whole and with a part of it gone: the tune split, in a file that another process can take.

Each case is asked once whole and once in one variant, picked by its name; `accuracy.py` asks all variants.
"""

from __future__ import annotations

import pytest
from cases import all_incidents
from incident import Incident
from judging import complaints


@pytest.mark.parametrize("case", [c for c in all_incidents() if c.split == "tune"], ids=lambda case: case.name)
def test_the_cause_of_a_labelled_incident_is_found(case: Incident) -> None:
    assert complaints(case) == []
