"""Recordings that the replay was not developed with: what fits is said to, and what does not is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer import ingest, open_trace
from analyzer.replay.calibrate import calibrate
from analyzer.replay.case.build import case_of, instances
from analyzer.replay.model import Calibration, Case

RECORDED = Path(__file__).parent / "recorded"

pytestmark = pytest.mark.thorough


def _calibrated(name: str, folder: Path) -> Calibration:
    path = folder / f"{name}.kvtrace"
    ingest([str(RECORDED / name)], path)
    with open_trace(path) as trace:
        (server,) = instances(trace)
        case = case_of(trace, server)
    assert isinstance(case, Case)
    return calibrate(case)


@pytest.mark.parametrize("name", ["l1_long", "scrape5", "loaded"])
def test_the_replay_fits(name: str, tmp_path: Path) -> None:
    found = _calibrated(name, tmp_path)
    assert {m.key: m.fits for m in found.measures} == dict.fromkeys((m.key for m in found.measures), True)


@pytest.mark.parametrize("name", ["prefill_256", "cap4_bursts", "mixed", "healthy_long", "shared_prefix"])
def test_what_is_off_is_not_called_good(name: str, tmp_path: Path) -> None:
    found = _calibrated(name, tmp_path)
    assert found.misses == (found.trust in ("fair", "low"))


def test_a_pool_that_thrashes_is_low_however_well_it_fits(tmp_path: Path) -> None:
    found = _calibrated("l1_long", tmp_path)
    assert (found.trust, found.thrash, found.misses) == ("low", True, False)
