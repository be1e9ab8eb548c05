"""Thinning keeps what a reader looks for: the lowest and the highest values, in order, and nothing unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analyzer.report.downsample import downsample, thinned


def test_nothing_is_thinned_below_the_limit() -> None:
    assert downsample([3.0, None, 1.0, 2.0], 4) == [0, 2, 3]


@pytest.mark.parametrize("limit", [2, 3, 10, 101])
def test_extremes_stay_and_the_limit_holds(limit: int) -> None:
    values = [None if i % 7 == 0 else math.sin(i / 30) * i for i in range(1000)]
    kept = downsample(values, limit)
    assert kept == sorted(set(kept))
    assert len(kept) <= limit
    known = [v for v in values if v is not None]
    shown = [values[i] for i in kept]
    assert None not in shown
    assert (min(v for v in shown if v is not None), max(v for v in shown if v is not None)) == (min(known), max(known))


def test_every_stretch_keeps_its_own_spike() -> None:
    values = [0.0] * 1000
    spikes = (37, 412, 705, 990)
    for index in spikes:
        values[index] = 1.0
    assert set(spikes) <= set(downsample(values, 100))


def test_an_infinite_value_is_the_highest() -> None:
    values = np.arange(500, dtype=np.float64)
    values[123] = np.inf
    assert 123 in thinned(values, 20)


def test_a_column_of_a_table_is_thinned_like_any_other_array() -> None:
    table = np.arange(3000, dtype=np.float64).reshape(1000, 3)
    assert thinned(table[:, 2], 10).tolist() == thinned(table[:, 2].copy(), 10).tolist()
