"""Bounds by chance: against tables that statisticians use, and against counting by hand."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest

from analyzer.comparison.latency import from_histogram, from_values
from analyzer.comparison.noise import counts_differ, quantile_ranks


@pytest.mark.parametrize(("n", "ranks"), [(10, (2, 9)), (20, (6, 15)), (100, (40, 61))])
def test_the_ranks_of_a_median_are_those_of_the_tables(n: int, ranks: tuple[int, int]) -> None:
    assert quantile_ranks(n, 0.5) == ranks


@pytest.mark.parametrize("n", [7, 30, 150, 600])
@pytest.mark.parametrize("q", [0.5, 0.95, 0.99])
def test_ranks_hold_the_quantile_as_often_as_they_say(n: int, q: float) -> None:
    chances = [math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]
    below = list(accumulate(chances))
    low, high = quantile_ranks(n, q)
    # fewer than `low` values below the quantile: it lies under the lower bound
    missed = below[low - 1] if low else 0.0
    assert missed <= 0.025
    assert below[low] > 0.025
    if high is not None:
        assert 1 - below[high - 1] <= 0.025 + 1e-12


def test_a_few_requests_have_no_upper_bound_of_a_p99() -> None:
    assert quantile_ranks(5, 0.5) == (0, None)
    assert quantile_ranks(200, 0.99)[1] is None
    assert quantile_ranks(400, 0.99)[1] == 400
    assert quantile_ranks(0, 0.5) == (0, None)


def test_counts_differ_only_beyond_chance_and_over_equal_footing() -> None:
    assert not counts_differ(3, 5, 1, 1)
    assert not counts_differ(0, 5, 1, 1)
    assert counts_differ(0, 6, 1, 1)
    assert not counts_differ(10, 100, 1, 10)
    assert counts_differ(10, 10, 1, 10)
    assert not counts_differ(0, 0, 1, 1)
    assert not counts_differ(9, 0, 1, 0)


def test_a_percentile_of_values_is_the_one_the_views_give() -> None:
    values = [float(v) for v in range(1, 101)]
    got = from_values(values, values, 0.95, "client")
    assert (got.value, got.low, got.high, got.at_least, got.n) == (96.0, 90.0, 100.0, False, 100)


def test_a_percentile_among_requests_without_a_token_is_longer_than_what_they_waited() -> None:
    values = [1.0] * 80 + [math.inf] * 20
    least = [1.0] * 80 + [30.0] * 20
    p50, p95 = (from_values(values, least, q, "client") for q in (0.5, 0.95))
    assert (p50.value, p50.at_least) == (1.0, False)
    assert (p95.value, p95.at_least, p95.high) == (30.0, True, None)


def test_a_histogram_is_bounded_by_its_buckets_and_by_chance() -> None:
    le = [0.1, 1.0, 10.0, math.inf]
    got = from_histogram(le, [100.0, 180.0, 200.0, 200.0], 0.5)
    assert got is not None
    # on the edge of the first bucket: chance leaves either side of it open
    assert (got.value, got.low, got.high) == (0.1, 0.0, 1.0)
    inside = from_histogram(le, [0.0, 1000.0, 1000.0, 1000.0], 0.5)
    assert inside is not None
    assert (inside.value, inside.low, inside.high) == (pytest.approx(0.55), 0.1, 1.0)


def test_a_histogram_beyond_its_last_bound_says_so() -> None:
    got = from_histogram([0.1, 1.0, math.inf], [0.0, 10.0, 100.0], 0.99)
    assert got is not None
    assert (got.value, got.at_least, got.high) == (1.0, True, None)
    assert from_histogram([0.1, 1.0], [0.0, 10.0], 0.5) is None
    assert from_histogram([0.1, math.inf], [0.0, 0.0], 0.5) is None
