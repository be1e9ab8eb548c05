"""Goals: how they are typed, and the search for the least change that meets one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

import pytest
from whatif_cases import SGLANG, VLLM, case, outcome, requests, what_if

from analyzer.errors import KvpmError
from analyzer.replay.goal import Goal, parse, search, searched
from analyzer.replay.model import Case, Change, GoalAnswer, WhatIf
from analyzer.replay.settings import L2

GOAL = Goal("ttft_p99", 2.0, or_equal=False)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ttft_p99<2s", GOAL),
        (" TTFT_P99 < 2 ", GOAL),
        ("ttft_p99<2000ms", GOAL),
        ("ttft_p50<=500ms", Goal("ttft_p50", 0.5, or_equal=True)),
        ("ttft_p50<1.5min", Goal("ttft_p50", 90.0, or_equal=False)),
    ],
)
def test_typed(typed: str, meant: Goal) -> None:
    assert parse(typed) == meant
    assert parse(meant.text) == meant


@pytest.mark.parametrize(
    "typed", ["", "ttft<2s", "ttft_p95<2s", "ttft_p99>2s", "ttft_p99<2h", "ttft_p99<-1s", "ttft_p99<0s", "ttft_p99<<2s"]
)
def test_mistyped(typed: str) -> None:
    with pytest.raises(KvpmError) as caught:
        parse(typed)
    assert caught.value.hint


def test_the_bound_itself_meets_only_or_equal() -> None:
    at = outcome(2.0)
    assert not GOAL.met(at)
    assert replace(GOAL, or_equal=True).met(at)
    assert not GOAL.met(outcome(None))
    assert not GOAL.met(outcome(inf))


class Answers:
    """Stands in for replays: the P99 that a value of the knob gives, and every value that was asked for."""

    def __init__(self, p99: Callable[[float], float], trusted: bool = True) -> None:
        self.asked: list[float] = []
        self._p99, self._trusted = p99, trusted

    def __call__(self, what_ifs: Sequence[tuple[Change, ...]]) -> list[WhatIf]:
        made = []
        for (change,) in what_ifs:
            assert not change.times
            assert change.value not in self.asked, "asked for twice"
            self.asked.append(change.value)
            why_not = "" if self._trusted else "it was said so"
            made.append(WhatIf((change,), outcome(self._p99(change.value)), None, None, trusted=self._trusted, why_not=why_not))
        return made


def _search(
    p99: Callable[[float], float], knob: str = "l1_tokens", of: Case | None = None, now: float = 40.0, trusted: bool = True, **given: float
) -> tuple[GoalAnswer, Answers]:
    of = of or case()
    answers = Answers(p99, trusted)
    found = search(GOAL, searched(knob, of), of, what_if(now), answers, **given)
    assert len(answers.asked) <= 45
    assert len(found.tried) == len(answers.asked)
    return found, answers


@pytest.mark.parametrize("least", [2100, 2500, 3000, 5000, 9000, 20000, 32000])
def test_the_least_value_is_found_to_two_per_cent(least: int) -> None:
    found, _answers = _search(lambda tokens: 1.0 if tokens >= least else 30.0)
    assert found.value is not None
    assert least <= found.value <= least * 1.02 + 16
    # in whole pages, as it can be typed
    assert found.value % 16 == 0
    assert found.change == Change("l1_tokens", found.value, times=False)
    assert "meets ttft_p99<2s" in found.said


def test_memory_is_told_where_a_token_has_bytes() -> None:
    found, _answers = _search(lambda tokens: 1.0 if tokens >= 4096 else 30.0, bytes_per_token=float(2**20))
    assert found.value is not None
    assert f"That is {(found.value - 2048) / 1024:.1f}".removesuffix(".0") in found.said
    assert "GiB more" in found.said
    assert "GiB" not in _search(lambda tokens: 1.0 if tokens >= 4096 else 30.0)[0].said


def test_met_already() -> None:
    found, answers = _search(lambda tokens: 0.0, now=1.5)
    assert (found.change, found.value, answers.asked) == (None, 2048, [])
    assert "met as it is: 1.5" in found.said


def test_not_met_by_any_value() -> None:
    found, answers = _search(lambda tokens: 20.0 - tokens / 10_000)
    assert (found.change, found.value, found.outcome) == (None, None, None)
    assert max(answers.asked) == 2048 * 16
    assert "No L1 from" in found.said
    assert "16.7" in found.said


def test_no_first_token_at_all_does_not_meet_a_goal() -> None:
    found, _answers = _search(lambda tokens: inf)
    assert found.change is None
    assert "40 s at best" in found.said.replace("\u00a0", " ")


def test_a_lucky_value_does_not_count() -> None:
    """1.25 times meets the goal and more does not, up to 6,000 tokens."""
    found, _answers = _search(lambda tokens: 1.0 if tokens == 2560 or tokens >= 6000 else 30.0)
    assert found.value is not None
    assert 6000 <= found.value <= 6000 * 1.02 + 16
    assert "Not every larger change meets it too" in found.said


def test_a_dent_behind_the_least_value_moves_it() -> None:
    """From 4,400 tokens on it meets the goal, but not between 4,440 and 4,530."""
    found, _answers = _search(lambda tokens: 30.0 if tokens < 4400 or 4440 <= tokens < 4530 else 1.0)
    assert found.value is not None
    assert 4530 <= found.value <= 4530 * 1.02 + 16
    assert "Not every larger change" in found.said


def test_a_knob_that_helps_downwards() -> None:
    found, answers = _search(lambda longest: 1.0 if longest <= 77 else 30.0, "max_new_tokens")
    assert found.value is not None
    assert 77 / 1.03 <= found.value <= 77
    assert max(answers.asked) < 200


def test_a_rate_needs_no_whole_numbers() -> None:
    of = case(given=requests(41, gap_s=0.1))
    now = 41 / 4.0
    found, _answers = _search(lambda rate: 1.0 if rate <= 0.77 * now else 30.0, "arrival_rate", of)
    assert found.value is not None
    assert 0.75 * now <= found.value <= 0.77 * now


@pytest.mark.parametrize(
    ("p99", "low", "high"), [(lambda c: 1.0 if c <= 0.6 else 30.0, 0.58, 0.6), (lambda c: 1.0 if c >= 1.4 else 30.0, 1.4, 1.43)]
)
def test_a_knob_that_may_help_either_way_is_tried_both_ways(p99: Callable[[float], float], low: float, high: float) -> None:
    found, answers = _search(p99, "conservativeness")
    assert found.value is not None
    assert low <= found.value <= high
    assert min(answers.asked) < 1 < max(answers.asked)


def test_of_two_ways_the_nearer_one_is_taken() -> None:
    found, _answers = _search(lambda c: 1.0 if c <= 0.3 or c >= 1.5 else 30.0, "conservativeness")
    assert found.value is not None
    assert 1.5 <= found.value <= 1.54


def test_an_l2_that_is_not_there_is_sought_from_one_as_large_as_l1() -> None:
    found, answers = _search(lambda tokens: 1.0 if tokens >= 5000 else 30.0, "l2_tokens")
    assert min(answers.asked) == 2048
    assert found.value is not None
    assert 5000 <= found.value <= 5000 * 1.02 + 16
    small, _answers = _search(lambda tokens: 1.0, "l2_tokens")
    assert small.value == 2048


def test_an_l2_that_is_there_is_sought_from_its_size() -> None:
    of = case(replace(SGLANG, l2=L2(8192, 1000.0, 16)))
    found, answers = _search(lambda tokens: 1.0 if tokens >= 10_000 else 30.0, "l2_tokens", of)
    assert min(answers.asked) > 8192
    assert found.value is not None
    assert 10_000 <= found.value <= 10_200 + 16


def test_values_that_the_engine_would_refuse_are_not_tried() -> None:
    """vLLM wants a step of as many tokens as requests may run."""
    found, answers = _search(lambda cap: 20.0, "max_running", case(VLLM))
    assert max(answers.asked) == 512
    assert found.change is None


def test_an_answer_that_is_not_trusted_says_so() -> None:
    found, _answers = _search(lambda tokens: 1.0 if tokens >= 4096 else 30.0, trusted=False)
    assert "Not to be relied on: it was said so." in found.said
    none, _answers = _search(lambda tokens: 30.0, trusted=False)
    assert "Not to be relied on: it was said so." in none.said


@pytest.mark.parametrize(
    ("knob", "of", "found"),
    [
        ("prefix_sharing", case(), "on or off"),
        ("step_tokens", case(), "no setting of SGLang"),
        ("conservativeness", case(VLLM), "no setting of vLLM"),
        ("chunked_prefill_tokens", case(replace(SGLANG, chunked_prefill_tokens=None)), "not set here"),
        ("l3_tokens", case(), "no knob"),
    ],
)
def test_what_cannot_be_searched(knob: str, of: Case, found: str) -> None:
    with pytest.raises(KvpmError, match=found):
        searched(knob, of)
