"""Captures rendered from the engines' own schedulers: the seconds of a step are found, and the replay fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from case_traces import CLIENTS, LOG, METRICS, instance_of, kept, load, opened

from analyzer.replay.calibrate import calibrate
from analyzer.replay.case.build import case_of
from analyzer.replay.model import Calibration, Case
from analyzer.replay.settings import Vllm

EVERY_DAY = ["sglang_l1-short_s1", "vllm_cap-small_s1"]
THOROUGH = ["sglang_bursts_s1", "vllm_l1-short_s1"]
MORE = [
    "sglang_healthy_s1", "sglang_cap-small_s1", "sglang_reserved-tokens_s1", "sglang_l1-prompts_s1", "sglang_prefill-long_s1",
    "vllm_healthy_s1", "vllm_watermark_s1", "vllm_chunked_s1", "vllm_prefill-long_s1",
]  # fmt: skip
Calibrated = Callable[[str, tuple[str, ...]], tuple[Case, Calibration]]


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Calibrated:
    """By case and the files that were kept. The schedulers were driven step by step, so vLLM's is not the asynchronous one."""

    @cache
    def of(key: str, names: tuple[str, ...]) -> tuple[Case, Calibration]:
        trace = opened(tmp_path_factory.mktemp(key), kept(key, *names))
        with trace:
            case = case_of(trace, instance_of(trace))
        assert isinstance(case, Case)
        if isinstance(case.settings, Vllm):
            case = replace(case, settings=replace(case.settings, async_scheduling=False))
        return case, calibrate(case)

    return of


def _step_s(case: Case, tokens: int, requests: int) -> float:
    return case.fitted.step_time.seconds(tokens, requests, prefill=tokens > requests)


def _true_s(key: str, tokens: int, requests: int) -> float:
    cost = load(key)["cost"]
    return float(cost["a"] + cost["b"] * tokens + cost["c"] * requests)


def _fits(key: str, calibrated: Calibrated) -> None:
    case, found = calibrated(key, (LOG, METRICS, CLIENTS))
    assert _step_s(case, 4, 4) == pytest.approx(_true_s(key, 4, 4), rel=0.04)
    assert case.fitted.pace.slower == (1.0,)
    assert found.trust in ("good", "fair"), found.reasons
    assert all(m.error <= 2 * m.bound for m in found.measures if m.error is not None)


@pytest.mark.parametrize("key", [*EVERY_DAY, *(pytest.param(k, marks=pytest.mark.thorough) for k in THOROUGH)])
def test_steps_are_found_and_the_replay_fits(key: str, calibrated: Calibrated) -> None:
    _fits(key, calibrated)
    case, _found = calibrated(key, (LOG, METRICS, CLIENTS))
    assert _step_s(case, 500, 4) == pytest.approx(_true_s(key, 500, 4), rel=0.04)


@pytest.mark.thorough
@pytest.mark.parametrize("key", [k for k in MORE if k != "sglang_prefill-long_s1"])
def test_more_of_them(key: str, calibrated: Calibrated) -> None:
    _fits(key, calibrated)


@pytest.mark.thorough
def test_where_nearly_all_steps_prefill_those_are_found(calibrated: Calibrated) -> None:
    case, found = calibrated("sglang_prefill-long_s1", (LOG, METRICS, CLIENTS))
    assert _step_s(case, 2048, 1) == pytest.approx(_true_s("sglang_prefill-long_s1", 2048, 1), rel=0.04)
    assert found.trust in ("good", "fair")


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["sglang_l1-short_s1", "vllm_l1-short_s1"])
def test_metrics_and_log_alone_do_without_clients(key: str, calibrated: Calibrated) -> None:
    case, found = calibrated(key, (LOG, METRICS))
    assert _step_s(case, 4, 4) == pytest.approx(_true_s(key, 4, 4), rel=0.06)
    assert case.observed.ttft_source == "histogram"
    assert found.trust in ("good", "fair")


@pytest.mark.thorough
def test_a_log_alone_has_no_ttft_to_hold_the_replay_against(calibrated: Calibrated) -> None:
    case, found = calibrated("sglang_l1-short_s1", (LOG,))
    assert _step_s(case, 4, 4) == pytest.approx(_true_s("sglang_l1-short_s1", 4, 4), rel=0.04)
    assert case.observed.ttft_p99_s is None
    assert case.observed.retractions == 6
    assert found.trust != "good"
    assert any("no TTFT was recorded" in r for r in found.reasons)
