"""Counts over time, running totals and histograms as single requests: sums fit, and the same comes out each time."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from analyzer.replay.case.residence import Rate, outputs
from analyzer.replay.case.spread import from_histogram, moments, rising, settled, shares, whole


def test_arrivals_lie_evenly_between_the_readings_that_tell_of_them() -> None:
    times = moments([0.0, 10.0, 20.0, 30.0], np.array([0.0, 4.0, 4.0, 6.0]))
    assert times.tolist() == pytest.approx([1.25, 3.75, 6.25, 8.75, 22.5, 27.5])


def test_a_gauge_that_falls_behind_takes_nothing_back() -> None:
    assert rising([1.0, 3.0, 2.0, 5.0]).tolist() == [1.0, 3.0, 3.0, 5.0]


def test_a_gauge_that_still_counts_what_has_ended_adds_nothing() -> None:
    assert settled([1.0, 3.0, 2.0, 5.0, 4.0]).tolist() == [1.0, 2.0, 2.0, 4.0, 4.0]


def test_nothing_counted_is_no_request() -> None:
    assert len(moments([0.0, 10.0], np.array([0.0, 0.0]))) == 0
    assert len(moments([], np.zeros(0))) == 0


def test_whole_numbers_keep_the_sum() -> None:
    lengths = whole(np.full(10, 12.3))
    assert lengths.sum() == 123
    assert set(lengths.tolist()) == {12, 13}


def test_lengths_follow_two_counters_side_by_side() -> None:
    # two short ones, then two long ones
    assert shares(np.array([0.0, 2.0, 2.0, 4.0]), np.array([0.0, 20.0, 20.0, 220.0]), 4).tolist() == [10, 10, 100, 100]


def test_a_histogram_is_spread_inside_its_buckets_with_its_mean() -> None:
    lengths = from_histogram([10.0, 20.0, 50.0, inf], [50, 30, 20, 0], 17.0, 100)
    assert [((lengths > lo) & (lengths <= hi)).sum() for lo, hi in ((0, 10), (10, 20), (20, 50))] == pytest.approx([50, 30, 20], abs=3)
    assert lengths.mean() == pytest.approx(17.0, abs=0.02)
    assert lengths.tolist() == from_histogram([10.0, 20.0, 50.0, inf], [50, 30, 20, 0], 17.0, 100).tolist()


def test_sizes_have_nothing_to_do_with_the_order() -> None:
    lengths = from_histogram([10.0, 1000.0], [50, 50], None, 200)
    halves = lengths[:100].mean(), lengths[100:].mean()
    assert halves[0] == pytest.approx(halves[1], rel=0.1)


def test_outputs_add_up_to_the_tokens_that_were_made() -> None:
    # three requests one after the other, each alone: 100, 200 and 300 tokens at 10 a second
    at_s = [0.0, 10.0, 30.0, 60.0]
    rate = Rate(at_s, [0.0, 100.0, 200.0, 300.0], [1, 1, 1, 1])
    made = outputs([0.0, 10.0, 30.0], at_s, np.array([0.0, 1.0, 2.0, 3.0]), rate, 3)
    assert sum(made) == pytest.approx(600, abs=3)
    assert made == sorted(made)


def test_what_still_runs_is_taken_to_become_as_long_as_the_others() -> None:
    at_s = [0.0, 10.0, 20.0]
    rate = Rate(at_s, [0.0, 100.0, 10.0], [1, 1, 1])
    made = outputs([0.0, 19.0], at_s, np.array([0.0, 1.0, 1.0]), rate, 3)
    assert made[1] == made[0] == made[2]
