"""The model makes of stored workloads what SGLang's own scheduler made of them: every step, every admission test, every request."""

from __future__ import annotations

from pathlib import Path

import pytest
from sglang_expected import differences, lines

STORED = Path(__file__).parent / "oracle" / "sglang" / "workloads"
INCIDENTS = sorted(path.stem for path in STORED.glob("*.json"))
SMALL = sorted(path.stem for path in (STORED / "small").glob("*.json"))


def test_workloads_are_stored() -> None:
    assert len(INCIDENTS) == 7
    assert len(SMALL) >= 15


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_is_the_same_step_by_step(name: str) -> None:
    assert _differences(STORED, name) == []


@pytest.mark.parametrize("name", SMALL)
def test_a_difficult_workload_is_the_same_step_by_step(name: str) -> None:
    assert _differences(STORED / "small", name) == []


def _differences(folder: Path, name: str) -> list[str]:
    steps, requests = (lines(folder / f"{name}.{what}.jsonl.gz") for what in ("steps", "requests"))
    assert steps
    assert requests
    return differences(folder / f"{name}.json", steps, requests)
