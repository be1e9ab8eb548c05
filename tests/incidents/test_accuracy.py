"""Counting the verdicts: what is right, what is weaker, and which bar is missed."""

from __future__ import annotations

from dataclasses import replace

import accuracy
import pytest
from incident import Incident
from judging import FAILED, RIGHT, WEAKER, WRONG, Outcome, judged
from variants import BARE, MIDDLE, WHOLE

CASE = Incident("a", "cap_bound", "generated", "vllm", "0.32.0", 2, "score", "it | is <known>", lambda: {}, clients=("c.jsonl",))
QUIET = {"c.jsonl": b"".join(b'{"send": %d, "ttft": 0.1, "e2e": 0.2, "output_tokens": 9}\n' % t for t in range(90))}
SLOW = {"c.jsonl": QUIET["c.jsonl"].replace(b"0.1", b"5.1").replace(b"0.2", b"5.2")}


def outcome(case: Incident, cause: str, variant: str = WHOLE, confidence: str = "high") -> Outcome:
    return Outcome(case.name, variant, cause, confidence, "", judged(case, SLOW, variant, cause, confidence))


@pytest.mark.parametrize(
    ("variant", "cause", "confidence", "expected"),
    [
        (WHOLE, "cap_bound", "low", RIGHT),
        (WHOLE, "insufficient_data", "high", WEAKER),
        (WHOLE, "l1_bound", "medium", WRONG),
        ("no log", "l1_bound", "low", WEAKER),
        ("no log", "none", "medium", WRONG),
        ("no log", FAILED, "high", WRONG),
        (MIDDLE, "none", "medium", WRONG),
        (BARE, "cap_bound", "low", WRONG),
        (BARE, "insufficient_data", "high", RIGHT),
    ],
)
def test_a_verdict_is_judged_by_what_it_had_to_go_by(variant: str, cause: str, confidence: str, expected: str) -> None:
    assert outcome(CASE, cause, variant, confidence).judged == expected


def test_no_incident_in_a_quiet_stretch_is_not_wrong() -> None:
    assert judged(CASE, QUIET, MIDDLE, "none", "medium") == WEAKER


def test_either_of_two_causes_is_right_and_counts_as_the_first() -> None:
    case = replace(CASE, also=("skew",))
    assert dict(accuracy.matrix([case], [outcome(case, "skew")])) == {("cap_bound", "cap_bound"): 1}


def test_all_bars_are_met_by_right_verdicts() -> None:
    assert accuracy.missed_bars([CASE], [outcome(CASE, "cap_bound"), outcome(CASE, "insufficient_data", BARE)]) == []


@pytest.mark.parametrize(
    ("found", "bar"),
    [
        (outcome(CASE, "l1_bound"), "called l1_bound"),
        (outcome(CASE, "none"), "0.0% of the score cases"),
        (outcome(CASE, "none", BARE, "low"), "without a signal"),
        (outcome(CASE, "crash", "no log"), "WRONG with less"),
    ],
)
def test_a_missed_bar_is_named(found: Outcome, bar: str) -> None:
    assert any(bar in missed for missed in accuracy.missed_bars([CASE], [found]))


def test_the_page_holds_matrix_variants_and_cases() -> None:
    tune = replace(CASE, name="b", split="tune", seed=1)
    page = accuracy.page([CASE, tune], [outcome(CASE, "cap_bound"), outcome(tune, "none"), outcome(CASE, "crash", "no log")])
    assert "Score (and are judged on these): 1 cases, 100.0% right." in page
    assert "Together (both): 2 cases, 50.0% right." in page
    assert "| no log | 0 | 0 | 1 |" in page
    assert "it \\| is &lt;known>" in page
    assert "`none` (not right)" in page


def test_what_is_not_right_is_told_with_its_sentence() -> None:
    told = accuracy.told([CASE], [replace(outcome(CASE, "none"), sentence="Nothing happened.")])
    assert "cap_bound, not none (high)" in told
    assert "Nothing happened." in told


def test_a_page_of_a_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        accuracy.main(["--case", "generated", "--write", "page.md"])
    assert "--write needs all cases" in capsys.readouterr().err
