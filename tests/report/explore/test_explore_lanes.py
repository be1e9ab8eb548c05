"""Load of every rank: one scale for all, gaps stay gaps, and bounded however many ranks there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parts_case import asked, connection, ms, report

from analyzer.report.explore import lanes
from analyzer.report.explore.lanes import MAX_BLOCKS, Lanes, build_lanes


def built(*rows: dict[str, Any], names: tuple[str, ...] = ()) -> Lanes:
    found = build_lanes(connection(scheduler=rows), asked(*names))
    assert found is not None
    return found


def blocks(found: Lanes, metric: str, lane: int) -> list[tuple[float, float, float]]:
    told = found.blocks[metric]
    return [
        (float(left), float(right), round(float(value), 3))
        for own, left, right, value in zip(told.lane, told.left, told.right, told.value, strict=True)
        if own == lane
    ]


def test_a_value_holds_until_the_next_report_and_equal_neighbours_are_one() -> None:
    found = built(
        *(report(t, dp=0, waiting=w, running=1) for t, w in ((0, 0), (1, 0), (2, 5), (3, 5), (4, 2))),
        *(report(t, dp=1, waiting=1, running=1) for t in range(5)),
    )
    assert [lane.label for lane in found.lanes] == ["rank 0", "rank 1"]
    assert found.part_s == 1
    assert blocks(found, "waiting", 0)[:2] == [(ms(0), ms(2), 0), (ms(2), ms(4), 5)]
    assert blocks(found, "waiting", 1)[0][0] == ms(0)
    assert len(blocks(found, "waiting", 1)) == 1


def test_where_nothing_was_reported_there_is_no_block_and_a_zero_has_one() -> None:
    quiet = [report(t, dp=0, waiting=0) for t in (*range(5), *range(200, 205))]
    found = built(*quiet, *(report(t, dp=1, waiting=4) for t in range(205)))
    first, second = blocks(found, "waiting", 0)
    assert first[0] == ms(0)
    assert second[0] == ms(200)
    # held for 30 s and no longer
    assert first[1] == ms(34)
    columns = found.tables()["lanes-waiting"]
    bottom, top, value = (np.asarray(columns[key]) for key in ("bottom", "top", "value"))
    assert (top[value == 0] > bottom[value == 0]).all()


def test_a_missing_metric_is_no_choice() -> None:
    found = built(report(0, dp=0, waiting=1), report(0, dp=1, waiting=2))
    assert [key for key, _title, _unit in found.metrics] == ["waiting"]
    assert set(found.tables()) == {"lanes-waiting"}


def test_all_lanes_have_one_scale_and_usage_ends_at_one() -> None:
    found = built(report(0, dp=0, waiting=40, kv_usage=0.5), report(0, dp=1, waiting=10, kv_usage=0.25))
    assert found.blocks["waiting"].top == 40
    assert found.blocks["pool_usage"].top == 1
    columns = found.tables()["lanes-waiting"]
    height = np.asarray(columns["top"]) - np.asarray(columns["bottom"])
    assert height[0] == pytest.approx(4 * height[1], rel=0.01)
    # The first lane stands on top.
    assert np.asarray(columns["bottom"]).tolist() == [1, 0]


def test_instances_stand_in_the_order_of_the_page_and_are_named() -> None:
    rows = [report(0, instance=name, waiting=1) for name in ("pod-10", "pod-2", "worst")]
    found = built(*rows, report(0, instance="worst", dp=1, waiting=2), names=("worst",))
    assert [lane.label for lane in found.lanes] == ["worst, rank 0", "worst, rank 1", "pod-2", "pod-10"]


def test_one_rank_is_nothing_to_compare() -> None:
    assert build_lanes(connection(scheduler=[report(t, waiting=1) for t in range(5)]), asked()) is None
    assert build_lanes(connection(), asked()) is None


def test_of_more_lanes_than_fit_the_worst_stay_and_that_is_said() -> None:
    found = built(*(report(0, dp=n, waiting=n) for n in range(70)))
    assert [lane.rank for lane in found.lanes] == list(range(6, 70))
    assert "Showing 64 of 70" in found.note().replace("\u00a0", " ")


def test_however_restless_many_ranks_are_the_blocks_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MAX_BLOCKS", 300)
    rows = [report(t, dp=n, waiting=(t * 7 + n) % 5, running=t % 3) for t in range(200) for n in range(4)]
    found = built(*rows)
    assert sum(len(b.lane) for b in found.blocks.values()) <= 300 < MAX_BLOCKS
    assert found.part_s > 1
    # The highest value of each stretch is kept.
    assert found.blocks["waiting"].value.max() == 4


def test_values_that_cannot_be_are_gaps() -> None:
    found = built(report(0, dp=0, kv_usage=float("nan"), waiting=3), report(0, dp=1, kv_usage=0.5, waiting=1))
    assert blocks(found, "pool_usage", 0) == []
    assert blocks(found, "pool_usage", 1) != []
