"""Recorded servers replayed as they were: within the bounds that make a replay worth asking."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from analyzer import ingest, open_trace
from analyzer.replay.calibrate import calibrate
from analyzer.replay.case.build import case_of, instances
from analyzer.replay.model import Calibration, Case

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Case, Calibration]]:
    """By name, with every so many-th scrape only."""

    @cache
    def of(name: str, every: int = 1) -> tuple[Case, Calibration]:
        folder = tmp_path_factory.mktemp(name)
        inputs = folder / "in"
        inputs.mkdir()
        for source in (SAMPLES / name).iterdir():
            if source.name == "metrics.prom.gz":
                (inputs / source.name).write_bytes(_thinned(source.read_bytes(), every))
            elif source.name != "expected.json":
                (inputs / source.name).write_bytes(source.read_bytes())
        ingest([str(inputs)], folder / "t.kvtrace")
        with open_trace(folder / "t.kvtrace") as trace:
            case = case_of(trace, instances(trace)[0])
        assert isinstance(case, Case)
        return case, calibrate(case)

    return of


def _thinned(packed: bytes, every: int) -> bytes:
    out, scrape = [], -1
    for line in gzip.decompress(packed).decode().splitlines(keepends=True):
        scrape += line.startswith("# scrape_")
        if scrape < 0 or scrape % every == 0:
            out.append(line)
    return gzip.compress("".join(out).encode())


def _errors(found: Calibration) -> dict[str, float]:
    return {m.key: m.error for m in found.measures if m.error is not None}


@pytest.mark.parametrize("name", ["recorded_healthy", "recorded_cap_bound", "recorded_prefill_bound"])
def test_recorded_servers_fit_within_the_bounds(calibrated: Callable[..., tuple[Case, Calibration]], name: str) -> None:
    _case, found = calibrated(name)
    errors = _errors(found)
    assert errors["ttft_p50"] <= 0.15
    assert errors["ttft_p99"] <= 0.15
    assert errors["waiting"] <= 0.10
    assert errors["kv_usage"] <= 0.10
    assert errors["retractions"] <= 0.20
    assert found.trust in ("good", "fair")


def test_a_host_that_ran_beside_other_load_is_told(calibrated: Callable[..., tuple[Case, Calibration]]) -> None:
    case, found = calibrated("recorded_cap_bound")
    assert max(case.fitted.pace.slower) > 2
    assert any("no prediction" in r for r in found.reasons)
    assert any("117 requests had no first token" in r for r in found.reasons)


def test_stalls_of_the_host_are_taken_over_and_told(calibrated: Callable[..., tuple[Case, Calibration]]) -> None:
    case, found = calibrated("recorded_healthy")
    assert 1 <= len(case.fitted.stalls) <= 8
    assert "nothing in the way" in case.fitted.basis
    assert any("TTFTs in those times are no prediction" in r for r in found.reasons)
    assert 0.005 < case.fitted.overhead_s < 0.03


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["recorded_l1_bound", "recorded_restart_midway"])
def test_recorded_servers_that_preempt_come_near(calibrated: Callable[..., tuple[Case, Calibration]], name: str) -> None:
    _case, found = calibrated(name)
    errors = _errors(found)
    assert errors["ttft_p50"] <= 0.15
    assert errors["ttft_p99"] <= 0.15
    assert errors["waiting"] <= 0.10
    assert errors["kv_usage"] <= 0.10
    assert errors["retractions"] <= 0.20
    assert found.thrash == (name == "recorded_l1_bound")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["recorded_cap_bound", "recorded_prefill_bound"])
def test_a_scrape_every_five_seconds_is_enough(calibrated: Callable[..., tuple[Case, Calibration]], name: str) -> None:
    _case, found = calibrated(name, 5)
    errors = _errors(found)
    assert max(errors["ttft_p50"], errors["ttft_p99"]) <= 0.15
    assert errors["waiting"] <= 0.10
