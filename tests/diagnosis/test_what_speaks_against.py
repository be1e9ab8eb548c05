"""Captures in which one thing speaks for a cause and another against it."""

from __future__ import annotations

import pytest
from diagnosing import causes, diagnosis_of
from hard_cases import decode, prefill, sg, sg_start, stats, vl, vl_start

SGLANG = sg_start(-80)


def held(start: int, end: int, running: int = 8, waiting: int = 30, usage: float = 0.99) -> str:
    return "".join(stats(t, running, waiting, usage, 300, 400) for t in range(start, end, 10))


def quiet(start: int, end: int) -> str:
    return "".join(stats(t, 4, 0, 0.1) for t in range(start, end, 10))


@pytest.mark.parametrize("sizes", [(100_000, 30_000), (30_000, 100_000)])
def test_each_incident_has_the_settings_of_its_own_process(sizes: tuple[int, int]) -> None:
    """The pool was made larger, or smaller, between two incidents."""
    first = vl_start(-80, tokens=sizes[0], cap=64) + quiet(0, 60) + held(60, 300) + quiet(300, 360)
    second = vl_start(2000, tokens=sizes[1], cap=8, pid=99) + quiet(2080, 2140) + held(2140, 2400, usage=0.05) + quiet(2400, 2460)
    found = diagnosis_of(first + second).instances[0]
    caps = {f.cause: f for f in found.findings if f.cause in ("l1_bound", "cap_bound")}
    assert set(caps) == {"l1_bound", "cap_bound"}
    assert next(a.current for a in caps["cap_bound"].advice if a.flag == "--max-num-seqs") == "8"
    config = {i.number: i.checklist[13].evidence for i in found.incidents}
    assert {next(e.value for e in evidence if e.name == "cap on running requests") for evidence in config.values()} == {8, 64}


def test_a_crash_line_amid_a_working_process_is_doubted() -> None:
    line = vl(65, "EngineCore encountered a fatal error.", file="core.py", process="EngineCore pid=78", level="ERROR")
    found = diagnosis_of(vl_start(-80) + quiet(0, 60) + line + quiet(70, 400)).verdict
    assert (found.cause, found.confidence) == ("crash", "low")
    assert "went on reporting" in found.sentence
    died = diagnosis_of(vl_start(-80) + quiet(0, 60) + line).verdict
    assert died.confidence == "high"


def test_no_token_with_work_in_hand_is_a_hang_whatever_waits() -> None:
    still = "".join(stats(t, 20, 30, 0.4, 0, 0) for t in range(60, 400, 10))
    found = diagnosis_of(vl_start(-80) + quiet(0, 60) + still)
    assert causes(found)[0] == "hang"
    alone = "".join(stats(t, 2, 0, 0.4, 0, 0) for t in range(60, 400, 10))
    assert causes(diagnosis_of(vl_start(-80) + quiet(0, 60) + alone))[0] == "hang"


def test_a_log_that_ends_with_work_and_no_token_is_no_all_clear() -> None:
    found = diagnosis_of(vl_start(-80) + quiet(0, 60) + stats(60, 2, 0, 0.1, 0, 0)).verdict
    assert (found.cause, found.confidence) == ("insufficient_data", "low")


def test_slow_decode_is_counted_by_the_clock_also_between_prefills() -> None:
    """Every decode line stands right behind prefill lines: what it tells of is all the time since the decode line before it."""
    fast = "".join(decode(t, 8, 0.2, 0, 400) for t in range(0, 120, 3))
    slow = "".join(
        prefill(t, 1, 500, 0.2, 8, 0) + prefill(t + 8, 1, 500, 0.2, 8, 0) + decode(t + 9, 8, 0.2, 0, 80) for t in range(120, 260, 10)
    )
    assert causes(diagnosis_of(SGLANG + fast + slow)) == ["decode_bound"]


def test_slots_for_adapters_are_as_likely_as_a_gap_in_the_pool() -> None:
    log = vl_start(-80, tokens=100_000, cap=256) + quiet(0, 60) + held(60, 400, running=10, usage=0.55) + quiet(400, 460)
    plain = diagnosis_of(log).verdict
    lora = diagnosis_of(log.replace("'max_num_seqs'", "'enable_lora': True, 'max_loras': 1, 'max_num_seqs'")).verdict
    assert lora.cause == "insufficient_data" or lora.confidence == "low"
    assert plain.cause in ("l1_bound", "insufficient_data")


def test_the_only_request_left_that_outgrows_the_pool_can_never_fit() -> None:
    line = sg(200, "retract_decode: aborted last request 6f1c2ab09d4e due to OOM", "TP0")
    queued = "".join(decode(t, 1, 0.99, 5, 20) for t in range(63, 400, 3))
    found = diagnosis_of(SGLANG + "".join(decode(t, 4, 0.2, 0) for t in range(0, 60, 3)) + queued + line)
    assert found.verdict.cause == "unschedulable"
