"""Stored workloads come out of the model as vLLM's own scheduler served them, every step and every request."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from vllm_expected import differences

WORKLOADS = Path(__file__).parent / "oracle" / "vllm" / "workloads"


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(WORKLOADS / name, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", ["healthy", "cap_bound", "l1_bound", "prefix_shared"])
def test_incident_is_the_same_step_by_step(name: str) -> None:
    workload = json.loads((WORKLOADS / f"{name}.json").read_text())
    assert not differences(workload, rows(f"{name}.steps.jsonl.gz"), rows(f"{name}.requests.jsonl.gz"))


def test_small_difficult_workloads_are_the_same_step_by_step() -> None:
    cases = rows("cases.jsonl.gz")
    assert sum(case["steps"][-1]["preemptions"] for case in cases) > 500
    wrong = {case["name"]: differences(case["workload"], case["steps"], case["requests"]) for case in cases}
    assert not {name: found for name, found in wrong.items() if found}
