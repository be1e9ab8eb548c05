"""A signal that the capture lost, or a number that no server can have, is never an all-clear or a confident cause."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from diagnosing import Servers, causes, diagnosis_of

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def log(case: str) -> str:
    return (SAMPLES / case / "server.log").read_text(encoding="utf-8")


CASES = (
    ("l1_bound_vllm", r"Waiting: ", "Queued: "),
    ("cap_bound_vllm", r"Waiting: ", "Queued: "),
    ("l1_bound_sglang", r"#queue-req: ", "#wait-req: "),
    ("cap_bound_sglang", r"#queue-req: ", "#wait-req: "),
    ("healthy_sglang", r"#queue-req: \d+", "#queue-req: -3"),
    ("l1_bound_sglang", r"#queue-req: \d+", "#queue-req: 9000000000000000000"),
    ("l1_bound_sglang", r"#queue-req: (\d+)", r"#queue-req: \1.5"),
)
NO_RUNNING = (("cap_bound_sglang", r"#running-req: \d+, "), ("cap_bound_vllm", r"Running: \d+ reqs, "))
SERVERS = Servers()
LOST = {(case, pattern, by): SERVERS.add(re.sub(pattern, by, log(case))) for case, pattern, by in [*CASES, *((*c, "") for c in NO_RUNNING)]}


@pytest.mark.parametrize(("case", "pattern", "by"), CASES)
@pytest.mark.parametrize("start_up", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_without_the_queue_there_is_no_verdict(case: str, pattern: str, by: str, start_up: bool) -> None:
    if start_up:
        found = LOST[case, pattern, by]()
    else:
        text = "".join(s for s in log(case).splitlines(keepends=True) if "batch" in s or "Avg prompt" in s)
        (found,) = diagnosis_of(re.sub(pattern, by, text)).instances
    assert causes(found)[0] == "insufficient_data" or (found.peaks.retraction_events and causes(found)[0] == "l1_bound")
    assert found.peaks.waiting is None
    answers = {a.id: a for a in found.checklist}
    for question in ("queue_on_l1", "queue_on_cap", "prefill_bottleneck", "demand_over_ceiling"):
        assert answers[question].answer == "cannot_tell", question
        assert answers[question].missing


@pytest.mark.parametrize(("case", "pattern"), NO_RUNNING)
def test_without_running_requests_a_cap_is_not_ruled_out(case: str, pattern: str) -> None:
    assert causes(LOST[case, pattern, ""]()) == ["insufficient_data"]


def test_a_cap_that_is_not_in_the_log_makes_no_confident_cause() -> None:
    found = diagnosis_of(log("cap_bound_vllm").replace("'max_num_seqs': 8, ", ""))
    assert found.verdict.confidence == "low"


def test_a_capture_that_ends_inside_the_incident_says_so() -> None:
    found = diagnosis_of("".join(log("l1_bound_sglang").splitlines(keepends=True)[:588]))
    assert found.verdict.confidence == "low" or found.verdict.cause == "l1_bound"
    assert "The capture ends inside the incident." in found.verdict.sentence


@pytest.mark.parametrize("lines", [1, *(pytest.param(n, marks=pytest.mark.thorough) for n in (5, 14, 25)), 500])
def test_a_rotated_log_is_one_process(lines: int) -> None:
    text = log("l1_bound_sglang").splitlines(keepends=True)
    found = diagnosis_of({"server.log.1": "".join(text[:lines]), "server.log": "".join(text[lines:])})
    assert causes(found) == ["l1_bound"]


def test_captures_days_apart_are_no_restart() -> None:
    earlier = log("reservation_bound_sglang")  # six days before the other
    found = diagnosis_of({"a.log": earlier, "b.log": log("l1_bound_sglang")})
    assert "restart" not in causes(found)
