"""What the engines' own schedulers did, printed as logs of many versions: the verdict is known.

A capture that lost something may end in `insufficient_data` or in a low confidence, never in a wrong cause that is
stated with more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from diagnosing import causes, diagnoses_of_each, diagnosis_of
from oracle_render import SGLANG_VERSIONS, START, VLLM_VERSIONS, Options, interleaved, render, text

from analyzer.diagnosis.model import InstanceDiagnosis

EXPECTED = {
    "sglang_cap_bound": "cap_bound",
    "sglang_chunked": "none",
    "sglang_healthy": "none",
    "sglang_l1_bound": "l1_bound",
    "sglang_l1_retract": "l1_bound",
    "sglang_prefix_shared": "none",
    "sglang_reservation_bound": "reservation_bound",
    "vllm_cap_bound": "cap_bound",
    "vllm_healthy": "none",
    "vllm_l1_bound": "l1_bound",
    "vllm_prefix_shared": "none",
}
TROUBLED = [n for n, cause in EXPECTED.items() if cause != "none"]


def newest(name: str) -> Options:
    return Options("0.5.23" if name.startswith("sglang") else "0.33.0")


# The shapes that differ, spread over the runs to keep the tests short; the newest are in every other test.
VERSIONS = [
    *((TROUBLED[k % 4], v) for k, v in enumerate(SGLANG_VERSIONS[::2])),
    *(("vllm_l1_bound" if k % 2 else "vllm_cap_bound", v) for k, v in enumerate(VLLM_VERSIONS[:-1])),
]


@pytest.mark.thorough  # tests/incidents asks the same of newer runs
@pytest.mark.parametrize("name", EXPECTED)
def test_a_whole_log_gives_the_cause(name: str) -> None:
    found = diagnosis_of(text(render(name, newest(name))))
    assert found.verdict.cause == EXPECTED[name], found.verdict.sentence
    assert causes(found) == [EXPECTED[name]]


@cache
def _of_versions() -> dict[str, InstanceDiagnosis]:
    return diagnoses_of_each({f"{name} {version}": text(render(name, Options(version))) for name, version in VERSIONS})


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_versions_print_it_differently(name: str, version: str) -> None:
    found = _of_versions()[f"{name} {version}"]
    assert found.verdict.cause == EXPECTED[name], found.verdict.sentence


def test_v0_counts_preemptions_from_the_running_count() -> None:
    found = diagnosis_of(text(render("vllm_l1_bound", Options("0.6.6"))))
    assert found.verdict.cause == "l1_bound"
    assert found.peaks.preemptions == 401  # of 434: the last that was printed


def _split(name: str, **changes: Any) -> tuple[list[tuple[float, str]], list[tuple[float, str]]]:
    lines = render(name, replace(newest(name), **changes))
    return [x for x in lines if x[0] < 0], [x for x in lines if x[0] >= 0]


def _every_second(name: str) -> str:
    start, rest = _split(name)
    return text(start, rest[::2])


def _middle_third(name: str) -> str:
    _, rest = _split(name)
    return text(rest[len(rest) // 3 : 2 * len(rest) // 3])


def _last_third(name: str) -> str:
    _, rest = _split(name)
    return text(rest[2 * len(rest) // 3 :])


def _only(word: str, start: bool) -> Callable[[str], str]:
    def cut(name: str) -> str:
        begin, rest = _split(name)
        return text(begin if start else [], [x for x in rest if word in x[1] or name.startswith("vllm")])

    return cut


LOSSES: dict[str, Callable[[str], str]] = {
    "no start-up lines": lambda n: text(_split(n)[1]),
    "every second line": _every_second,
    "every tenth line, no start-up": lambda n: text(_split(n)[1][::10]),
    "middle third": _middle_third,
    "last third": _last_third,
    "only decode lines": _only("Decode batch", start=False),
    "only prefill lines": _only("Prefill batch", start=False),
    "no KV usage": lambda n: text(render(n, replace(newest(n), usage=False))),
    "eight ranks": lambda n: interleaved(n, newest(n), 8),
    "two ranks, no start-up": lambda n: interleaved(n, replace(newest(n), start_up=False), 2),
    "slow hardware": lambda n: text(render(n, replace(newest(n), scale=5.0))),
}
# what is lost does not take away the cause
SURE = {"every second line", "eight ranks", "slow hardware", "no start-up lines"}


# For each loss one run or two; in turns the one that loses the most.
OTHERS = ("vllm_l1_bound", "sglang_l1_bound", "sglang_reservation_bound", "vllm_cap_bound", "sglang_cap_bound", "sglang_chunked")
LOST = [(loss, "sglang_l1_retract" if k % 2 else OTHERS[k // 2]) for k, loss in enumerate(LOSSES)]
MORE = [("only prefill lines", n) for n in ("sglang_cap_bound", "sglang_reservation_bound")]
MORE += [
    ("middle third", "vllm_l1_bound"),
    ("last third", "sglang_l1_retract"),
    ("eight ranks", "sglang_l1_retract"),
    ("two ranks, no start-up", "vllm_l1_bound"),
]


@cache
def _of_losses() -> dict[str, InstanceDiagnosis]:
    return diagnoses_of_each({f"{loss} {name}": LOSSES[loss](name) for loss, name in LOST})


@pytest.mark.parametrize(("loss", "name"), [*LOST, *(pytest.param(*lost, marks=pytest.mark.thorough) for lost in MORE if lost not in LOST)])
def test_what_a_capture_lost_makes_no_wrong_cause(loss: str, name: str) -> None:
    found = (_of_losses()[f"{loss} {name}"] if (loss, name) in LOST else diagnosis_of(LOSSES[loss](name))).verdict
    if loss in SURE:
        assert found.cause == EXPECTED[name], found.sentence
    if found.cause not in (EXPECTED[name], "insufficient_data"):
        assert found.confidence == "low", found.sentence


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sglang_l1_bound", "sglang_cap_bound", "sglang_healthy"])
def test_milliseconds_and_ranks_change_nothing(name: str) -> None:
    plain = diagnosis_of(text(render(name, newest(name))))
    other = diagnosis_of(text(render(name, replace(newest(name), ms=True, tp=8))))
    assert other.verdict.cause == plain.verdict.cause == EXPECTED[name]
    for peak in ("running", "waiting", "kv_usage", "retraction_events", "retracted_requests"):
        assert getattr(other.peaks, peak) == getattr(plain.peaks, peak), peak


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sglang_l1_bound", "vllm_l1_bound"])
def test_ranks_add_up(name: str) -> None:
    one = diagnosis_of(text(render(name, newest(name)))).peaks
    two = diagnosis_of(interleaved(name, newest(name), 2)).peaks
    assert one.waiting is not None
    assert two.waiting is not None
    assert 1.7 * one.waiting <= two.waiting <= 2 * one.waiting
    assert two.kv_usage == one.kv_usage
    if name == "sglang_l1_bound":
        assert two.retraction_events == 2 * (one.retraction_events or 0)


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("start_up", [True, False])
def test_two_instances_in_one_folder(engine: str, start_up: bool) -> None:
    option = replace(newest(engine), start_up=start_up)
    logs = {
        "a.log": text(render(f"{engine}_l1_bound", replace(option, port=30001))),
        "b.log": text(render(f"{engine}_healthy", replace(option, port=30002))),
    }
    found = diagnosis_of(logs)
    assert [i.verdict.cause for i in found.instances] == ["l1_bound", "none"]
    assert found.verdict == found.instances[0].verdict
    assert found.peaks == found.instances[0].peaks


def _at(seconds: float) -> datetime:
    return (START + timedelta(seconds=seconds)).replace(tzinfo=UTC)


@pytest.mark.thorough
@pytest.mark.parametrize("name", TROUBLED)
def test_a_window_in_the_incident_shows_it(name: str) -> None:
    whole = text(render(name, newest(name)))
    found = diagnosis_of(whole, since=_at(30), until=_at(50)).verdict
    if found.cause not in (EXPECTED[name], "insufficient_data"):
        assert found.confidence == "low", found.sentence


@pytest.mark.parametrize("name", ["sglang_l1_bound", "vllm_l1_bound"])
def test_a_window_before_the_incident_shows_none(name: str) -> None:
    found = diagnosis_of(text(render(name, replace(newest(name), scale=5.0))), until=_at(75))
    assert found.verdict.cause == "none"
