"""`--fail-on`: which causes, how sure, of which findings, and the exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from analyzer.cli.fail_on import CAUSES, FailOn, exit_code
from analyzer.diagnosis.model import Cause, Confidence, Diagnosis, Finding, Peaks, Window
from analyzer.errors import ExitCode

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
L1_LOG = SAMPLES / "recorded_l1_bound" / "server.log"

Run = Callable[..., tuple[int, str, str]]


def _diagnosis(*findings: tuple[Cause, Confidence], cut: bool = False) -> Diagnosis:
    found = tuple(Finding(cause, confidence, "It was so.") for cause, confidence in findings)
    return Diagnosis("0", "t", found[0], found, Window(None, None), Peaks(), (), (), (), (), cut=cut)


@pytest.mark.parametrize(("asked", "code"), [("cap_bound, l1_bound:high", 1), ("cap_bound:low,crash", 0)])
def test_the_verdict_decides(kvpm: Run, asked: str, code: int) -> None:
    assert kvpm("diagnose", str(L1_LOG), "--year", "2026", "--fail-on", asked)[0] == code


def test_a_report_fails_as_a_diagnosis_does(kvpm: Run) -> None:
    code, out, _ = kvpm("report", str(L1_LOG), "--year", "2026", "-o", "-", "--fail-on", "cap_bound", "--fail-on", "l1_bound")
    assert code == 1
    assert out.startswith("<!doctype html>")


@pytest.mark.parametrize("asked", ["weather", "l1_bound:sure", "none", "l1_bound,", "", "l1_bound:"])
def test_what_is_no_cause_is_refused(kvpm: Run, asked: str) -> None:
    code, _, err = kvpm("diagnose", str(L1_LOG), "--fail-on", asked)
    assert code == 2
    assert "l1_bound" in err or "low, medium, high" in err


def test_where_to_look_without_what_for_is_refused(kvpm: Run) -> None:
    code, _, err = kvpm("diagnose", str(L1_LOG), "--fail-on-any")
    assert code == 2
    assert "--fail-on l1_bound" in err


def test_every_cause_but_the_all_clear_can_be_named() -> None:
    assert set(CAUSES) == set(get_args(Cause)) - {"none"}


@pytest.mark.parametrize(("least", "code"), [("low", 1), ("medium", 1), ("high", 0)])
def test_a_finding_less_sure_than_asked_does_not_count(least: Confidence, code: int) -> None:
    assert exit_code(_diagnosis(("l1_bound", "medium")), ExitCode.OK, FailOn({"l1_bound": least})) == code


def test_other_findings_count_only_when_asked() -> None:
    diagnosis = _diagnosis(("crash", "high"), ("l1_bound", "low"))
    assert exit_code(diagnosis, ExitCode.OK, FailOn({"l1_bound": "low"})) == 0
    assert exit_code(diagnosis, ExitCode.OK, FailOn({"l1_bound": "low"}, any_finding=True)) == 1
    assert exit_code(diagnosis, ExitCode.OK, FailOn({"l1_bound": "high"}, any_finding=True)) == 0


def test_an_input_that_was_cut_outweighs_a_cause() -> None:
    asked = FailOn({"crash": "low"})
    assert exit_code(_diagnosis(("crash", "high"), cut=True), ExitCode.OK, asked) == ExitCode.INPUT_CUT
    assert exit_code(_diagnosis(("crash", "high")), ExitCode.INPUT_CUT, asked) == ExitCode.INPUT_CUT
