"""Cases of recorded servers: which run, which requests, up to when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer import ingest, open_trace
from analyzer.errors import KvpmError
from analyzer.replay.calibrate import calibrate
from analyzer.replay.case import build
from analyzer.replay.case.build import case_of, instances
from analyzer.replay.model import Case, NoReplay, Study
from analyzer.replay.settings import Vllm
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.study import Asked, Given, study
from analyzer.trace.reader import Trace

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def _sample(folder: Path, name: str) -> Trace:
    path = folder / f"{name}.kvtrace"
    ingest([str(p) for p in sorted((SAMPLES / name).iterdir()) if p.name != "expected.json"], path)
    return open_trace(path)


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    """A server that was stopped and started again under load."""
    with _sample(tmp_path_factory.mktemp("restarted"), "recorded_restart_midway") as trace:
        yield trace


@pytest.fixture(scope="module")
def worst(restarted: Trace) -> Case:
    """Its only server."""
    (name,) = instances(restarted)
    found = case_of(restarted, name)
    assert isinstance(found, Case)
    return found


def test_the_run_in_which_most_waited_is_replayed_and_the_others_requests_are_left_out(worst: Case) -> None:
    found = worst
    assert len(found.workload.requests) == 75
    assert any("process run r1, one of 2" in n for n in found.workload.notes)
    assert any("4 requests were turned away" in n for n in found.workload.notes)
    assert found.start == found.workload.start
    # the last answer, not the connections that were refused after it
    assert found.end_s == pytest.approx(26.4, abs=0.1)
    assert isinstance(found.settings, Vllm)
    assert found.settings.l1_tokens == 2048


def test_another_run_can_be_asked_for(restarted: Trace) -> None:
    (name,) = instances(restarted)
    found = case_of(restarted, name, "r2")
    assert isinstance(found, Case)
    assert len(found.workload.requests) == 43
    assert any("59 requests were turned away" in n for n in found.workload.notes)
    with pytest.raises(KvpmError, match="no run 'r7'") as wrong:
        case_of(restarted, name, "r7")
    assert "r1, r2" in wrong.value.hint


def test_a_server_that_is_not_there_is_no_case(restarted: Trace) -> None:
    assert isinstance(case_of(restarted, "nobody"), NoReplay)


def test_with_a_step_time_the_capture_need_not_tell_one(restarted: Trace, worst: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    name, given = worst.instance, StepTime(0.02, 0.0001, 0.0)
    monkeypatch.setattr(build, "fit_step_time", lambda *_given: worst.fitted)
    found = case_of(restarted, name, step_time=given)
    assert isinstance(found, Case)
    assert (found.fitted.step_time, found.fitted.overhead_s) == (given, worst.fitted.overhead_s)
    assert found.fitted.pace == Pace()
    assert found.fitted.residual_share is None
    monkeypatch.setattr(build, "fit_step_time", lambda _con, instance, *_more: NoReplay(instance, "nothing tells"))
    assert isinstance(case_of(restarted, name), NoReplay)
    alone = case_of(restarted, name, step_time=given)
    assert isinstance(alone, Case)
    assert (alone.fitted.step_time, alone.fitted.overhead_s) == (given, 0.0)
    assert alone.observed == found.observed
    # as the option of the command does
    (whole,) = study(restarted, Asked(grid=False), given=Given(step_time=given), jobs=1)
    assert isinstance(whole, Study)
    assert whole.case.fitted.step_time == given


@pytest.mark.thorough
def test_many_prefixes_in_a_full_pool_are_found_and_the_replay_fits(tmp_path: Path) -> None:
    with _sample(tmp_path, "l1_bound_sglang") as trace:
        found = case_of(trace, instances(trace)[0])
    assert isinstance(found, Case)
    assert len({r.prefix for r in found.workload.requests}) > 30
    calibrated = calibrate(found)
    assert calibrated.trust == "fair", calibrated.reasons
    errors = {m.key: m.error for m in calibrated.measures if m.error is not None}
    assert max(errors[key] for key in ("running", "waiting", "kv_usage")) < 0.05
    assert errors["ttft_p50"] < 0.25
    assert errors["ttft_p99"] < 0.25


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "requests", "pending", "end_s"),
    [
        ("recorded_healthy", 58, 0, 52.65),
        ("recorded_l1_bound", 283, 45, 104.3),
        ("recorded_cap_bound", 214, 117, 84.3),
        ("recorded_prefill_bound", 499, 353, 63.7),
    ],
)
def test_a_recorded_servers_requests_are_all_there(name: str, requests: int, pending: int, end_s: float, tmp_path: Path) -> None:
    with _sample(tmp_path, name) as trace:
        (instance,) = instances(trace)
        found = case_of(trace, instance)
    assert isinstance(found, Case)
    assert len(found.workload.requests) == requests
    assert not found.workload.approximate
    assert any(f"{pending} requests had not ended" in n for n in found.workload.notes) == (pending > 0)
    # held against the capture until the client gave the pending ones up
    assert found.end_s == pytest.approx(end_s, abs=0.1)


def test_a_process_that_died_under_the_load_is_not_to_be_relied_on(tmp_path: Path, worst: Case) -> None:
    with _sample(tmp_path, "crash_vllm") as trace:
        (name,) = instances(trace)
        found = case_of(trace, name)
    assert isinstance(found, Case)
    assert any("crashed or hung" in what for what in found.uncovered)
    # a planned stop is none
    assert worst.uncovered == ()
