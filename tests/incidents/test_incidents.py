"""The verdict on labelled incidents, whole and with a part of them gone: one of the score split for each cause and engine.

Each is asked once whole, and once in one variant, picked by its name. Every day the whole ones are asked of which `sample_traces` has
no capture of the same cause and engine (tests/diagnosis asks those), and each variant of each engine. `make thorough` asks the other
cases and variants so, and `make accuracy` all variants of all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import all_incidents
from incident import Incident
from judging import complaints, picked
from variants import VARIANTS, WHOLE

SCORED = tuple(case for case in all_incidents() if case.split == "score")
CAPTURED = {
    (json.loads(path.read_text())["cause"][0], "sglang" if path.parent.name.endswith("_sglang") else "vllm")
    for path in (Path(__file__).resolve().parents[2] / "sample_traces").glob("*/expected.json")
}
FIRST = {case.name for kind, case in {(case.cause, case.engine): case for case in reversed(SCORED)}.items() if kind not in CAPTURED}
# One for each variant and engine.
LESS_EVERY_DAY = {
    "oracle-sglang-cap-half-s2": "no metrics",
    "generated-decode-slow-host-vllm-s354": "no metrics",
    "oracle-sglang-reserved-tokens-s2": "no log",
    "special-nixl-transfer-s34": "no log",
    "oracle-sglang-l1-short-s2": "middle third",
    "generated-restart-by-a-signal-s424": "middle third",
    "oracle-sglang-healthy-s2": "start-up and access only",
    "generated-skew-one-of-two-full-s384": "start-up and access only",
}


def each(every_day: Callable[[Incident], bool]) -> list[Any]:
    """The score split as parameters; the others show more of the same."""
    return [pytest.param(case, id=case.name, marks=[] if every_day(case) else pytest.mark.thorough) for case in SCORED]


@pytest.mark.parametrize("case", each(lambda case: case.name in FIRST))
def test_the_cause_of_a_labelled_incident_is_found(case: Incident) -> None:
    assert complaints(case, case.files(), WHOLE) == []


@pytest.mark.parametrize("case", each(lambda case: case.name in LESS_EVERY_DAY))
def test_with_less_to_go_by_no_wrong_cause_is_named_with_confidence(case: Incident) -> None:
    files = case.files()
    variant = picked(case, files)
    assert variant == LESS_EVERY_DAY.get(case.name, variant)
    assert complaints(case, files, variant) == []


def test_every_variant_is_asked_for_every_day() -> None:
    assert set(LESS_EVERY_DAY.values()) == set(VARIANTS) - {WHOLE}
    assert set(LESS_EVERY_DAY) <= {case.name for case in SCORED}
