"""Step times and the host's pace: sums as the engines' own clock makes them, and nothing moves in a pause."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.replay.step_time import Pace, StepTime


def test_a_step_costs_its_parts() -> None:
    step = StepTime(base_s=0.01, token_s=0.001, request_s=0.002, prefill_s=0.5, attended_s=1e-5, kv_token_s=1e-4)
    assert step.seconds(100, 3) == pytest.approx(0.01 + 0.1 + 0.006)
    assert step.seconds(100, 3, prefill=True, attended=200, kv_tokens=50) == pytest.approx(0.116 + 0.5 + 0.002 + 0.005)


def test_decode_steps_in_a_row_read_ever_more() -> None:
    step = StepTime(base_s=0.01, token_s=0.0, request_s=0.0, kv_token_s=1e-3)
    assert step.decode_seconds(4, 4, 100.0, 3) == pytest.approx([0.11, 0.114, 0.118])


def test_without_pace_ends_are_the_running_sum_to_the_last_bit() -> None:
    seconds = np.full(1000, 0.0071)
    now, expected = 0.3, []
    for step in seconds:
        now += step
        expected.append(now)
    assert Pace().ends(0.3, seconds).tolist() == expected


def test_a_slower_stretch_holds_for_the_steps_that_start_in_it() -> None:
    pace = Pace(at_s=(0.0, 10.0, 12.0), slower=(1.0, 2.0, 1.0))
    assert pace.ends(8.5, np.ones(5)).tolist() == [9.5, 10.5, 12.5, 13.5, 14.5]


def test_a_pause_delays_the_step_it_falls_into() -> None:
    assert Pace(pauses=((1.5, 10.0),)).ends(0.0, np.ones(4)).tolist() == [1.0, 12.0, 13.0, 14.0]


def test_a_step_that_would_start_in_a_pause_starts_after_it() -> None:
    assert Pace(pauses=((1.0, 2.0),)).end(1.5, 0.25) == 3.25


def test_two_pauses_in_one_step_both_count() -> None:
    assert Pace(pauses=((1.0, 2.0), (3.25, 1.0))).end(0.5, 1.0) == 4.5


@given(
    cuts=st.lists(st.floats(0.1, 50), max_size=6, unique=True),
    factors=st.lists(st.floats(0.5, 4), min_size=7, max_size=7),
    pauses=st.lists(st.tuples(st.floats(0, 50), st.floats(0.01, 2)), max_size=4),
    start=st.floats(0, 50),
    seconds=st.lists(st.floats(0.001, 3), min_size=1, max_size=40),
)
def test_steps_in_a_row_end_as_one_after_the_other(
    cuts: list[float], factors: list[float], pauses: list[tuple[float, float]], start: float, seconds: list[float]
) -> None:
    at = (0.0, *sorted(cuts))
    apart: list[tuple[float, float]] = []
    for begin, length in sorted(pauses):
        if not apart or begin > sum(apart[-1]):
            apart.append((begin, length))
    pace = Pace(at_s=at, slower=tuple(factors[: len(at)]), pauses=tuple(apart))
    now, one_by_one = start, []
    for step in seconds:
        now = pace.end(now, step)
        one_by_one.append(now)
    assert pace.ends(start, np.array(seconds)).tolist() == one_by_one
