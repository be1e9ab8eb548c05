"""Samples in any order come out by place and time, whether or not they fit into memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from analyzer.trace.sample_order import SampleOrder, Samples

Sample = tuple[int, int, float]

ORDERS: dict[str, Callable[[random.Random, int, int], list[Sample]]] = {
    "scrape by scrape": lambda _, places, count: [(n % places, n // places, float(n)) for n in range(count)],
    "series by series": lambda _, places, count: [(n * places // count, n, float(n)) for n in range(count)],
    "newest first": lambda _, places, count: [(n % places, -(n // places), float(n)) for n in range(count)],
    "any": lambda dice, places, count: [(dice.randrange(places), dice.randrange(count), float(n)) for n in range(count)],
    "many of one moment": lambda dice, places, count: [(dice.randrange(places), dice.randrange(3), float(n)) for n in range(count)],
}


def ordered(given: list[Sample], places: int, folder: Path, *, batch: int, at_once: int) -> tuple[list[Sample], SampleOrder, list[int]]:
    """What comes out, the order itself, and the sizes of the pieces."""
    order = SampleOrder(places, folder, at_once=at_once)
    for at in range(0, len(given), batch):
        place, ts, value = zip(*given[at : at + batch], strict=True)
        order.add(Samples(np.array(place, np.int32), np.array(ts, np.int64), np.array(value)))
    order.close()
    pieces = list(order.pieces())
    found = [s for p in pieces for s in zip(p.place.tolist(), p.ts.tolist(), p.value.tolist(), strict=True)]
    return found, order, [len(p) for p in pieces]


@pytest.mark.parametrize("how", ORDERS)
@pytest.mark.parametrize(("places", "count"), [(1, 30_000), (7, 30_000), (90_000, 30_000), (3, 5)])
def test_every_order_of_arrival_gives_the_same_and_pieces_stay_small(how: str, places: int, count: int, tmp_path: Path) -> None:
    given = ORDERS[how](random.Random(places), places, count)
    # the last of a moment is kept
    wanted = sorted((place, ts, value) for (place, ts), value in {(p, t): v for p, t, v in given}.items())
    for batch, at_once in ((700, 4000), (count, 4000), (700, 1 << 20), (5000, 1)):
        found, order, sizes = ordered(given, places, tmp_path, batch=batch, at_once=at_once)
        assert found == wanted
        assert not list(tmp_path.iterdir())
        for place in {p for p, _, _ in wanted[:50]}:
            times = [t for p, t, _ in wanted if p == place]
            assert (order.first[place], order.last[place]) == (min(times), max(times))
        # a cut is as fine as the keys that were kept, one in 1024 of each run
        runs = -(-count // max(batch, at_once))
        assert max(sizes) <= max(at_once, 1024) + 1024 * (runs + 1)


def test_a_place_without_samples_has_no_time(tmp_path: Path) -> None:
    _, order, _ = ordered([(1, 5, 0.5)], 3, tmp_path, batch=1, at_once=10)
    assert (order.first <= order.last).tolist() == [False, True, False]


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    order = SampleOrder(2, tmp_path)
    order.close()
    assert list(order.pieces()) == []


def test_values_that_are_none_stay_none(tmp_path: Path) -> None:
    found, _, _ = ordered([(0, 2, 1.0), (0, 1, float("nan"))], 1, tmp_path, batch=1, at_once=10)
    assert [t for _, t, _ in found] == [1, 2]
    assert np.isnan(found[0][2])
    assert found[1][2] == 1.0
