"""Curves to explore: gaps stay gaps, peaks are the static charts', and what is left out is counted."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pytest
from report_fakes import T0, add_bucket, add_event, at, bucket, connection, insert

from analyzer.diagnosis.model import Window
from analyzer.report.buckets import read_buckets
from analyzer.report.charts import Segment
from analyzer.report.explore.data import MAX_BARS, MIN_POINTS, build_explore, fair_limit, thin
from analyzer.report.explore.model import Charted, Curve, ExploreInstance
from analyzer.report.explore.whole import Explore
from analyzer.report.panels import panels
from analyzer.report.told import read_told

EPOCH_MS = T0.timestamp() * 1e3
NO_WINDOW = Window(None, None)


def explored(con: duckdb.DuckDBPyConnection, *names: str, window: Window = NO_WINDOW) -> Explore:
    found = build_explore(con, [ExploreInstance(f"i{n}", name, "sglang", window) for n, name in enumerate(names or ("pod-a",), 1)])
    assert found is not None
    return found


def only(con: duckdb.DuckDBPyConnection, window: Window = NO_WINDOW) -> Charted:
    (one,) = explored(con, window=window).charted
    return one


def rows(curve: Curve) -> list[tuple[float, float | None]]:
    """(seconds since the start, value), None for a gap."""
    return [((x - EPOCH_MS) / 1e3, None if math.isnan(y) else y) for x, y in zip(curve.x.tolist(), curve.y.tolist(), strict=True)]


def test_a_value_holds_until_the_next_and_a_missing_report_is_a_gap() -> None:
    con = connection()
    insert(con, "timeline", [bucket(0, waiting=3), bucket(10, waiting=5), bucket(20, waiting=None), bucket(30, waiting=0)])
    assert rows(only(con).curves["requests-waiting"]) == [(0, 3), (10, 5), (20, None), (30, 0), (40, None)]


def test_a_curve_ends_with_its_process() -> None:
    con = connection()
    insert(con, "timeline", [bucket(0, running=3), bucket(10, running=4, run_id="r2")])
    assert rows(only(con).curves["requests-running"]) == [(0, 3), (10, None), (10, 4), (20, None)]


def test_what_nobody_told_has_no_curve() -> None:
    con = connection()
    add_bucket(con, 0, waiting=1)
    assert set(only(con).curves) == {"requests-waiting"}


def test_peaks_are_those_of_the_static_charts() -> None:
    con = connection()
    insert(con, "timeline", [bucket(i * 10, waiting=i * 7919 % 113, gen_tps=i * 31 % 977, kv_usage=i * 13 % 101 / 100) for i in range(900)])
    one = only(con)
    buckets = read_buckets(con, "pod-a")
    static = {f"{p.key}-{s.style}": s.peak for p in panels(buckets, read_told(con, "pod-a"), "sglang", []) for s in p.series}
    assert {key: pytest.approx(float(np.nanmax(curve.y))) for key, curve in one.curves.items()} == static


def test_the_three_states_of_the_pool_are_stacked_in_tokens() -> None:
    con = connection()
    states = {"l1_used_tokens": 60, "l1_evictable_tokens": 30, "l1_available_tokens": 10, "l1_capacity_tokens": 100}
    insert(con, "timeline", [bucket(0, **states), bucket(10, l1_used_tokens=70, l1_capacity_tokens=100)])
    curves = only(con).curves
    assert rows(curves["l1-used"]) == [(0, 60), (10, None)]
    assert (curves["l1-evictable"].y[0], curves["l1-available"].y[0]) == (90, 100)
    lows = [curves[key].low for key in ("l1-evictable", "l1-available")]
    assert [None if low is None else low[0] for low in lows] == [60, 90]
    assert rows(curves["l1-capacity"]) == [(0, 100), (10, 100), (20, None)]


def test_where_only_usage_is_known_no_states_are_made_up() -> None:
    con = connection()
    add_bucket(con, 0, kv_usage=0.5, l1_used_tokens=50, l1_capacity_tokens=100)
    assert set(only(con).curves) == {"kv-usage"}


def test_the_cap_counts_for_every_rank_of_its_own_run() -> None:
    con = connection()
    insert(con, "timeline", [bucket(0, running=3), bucket(10, running=4, run_id="r2")])
    reports = [(dp, run) for dp in (0, 1) for run in ("r1", "r2")]
    insert(con, "scheduler_clean", [{"instance": "pod-a", "run_id": run, "dp": dp, "ts": at(0)} for dp, run in reports])
    insert(con, "_limits", [{"instance": "pod-a", "run_id": "r1", "cap": 64}])
    assert rows(only(con).curves["requests-cap"]) == [(0, 128), (10, None)]


def test_retractions_are_bars_and_none_where_there_were_none() -> None:
    con = connection()
    insert(con, "timeline", [bucket(0, retracted=0), bucket(10, retracted=4), bucket(20, retracted=None)])
    bars = only(con).bars
    assert set(bars) == {"retracted"}
    assert [(left - EPOCH_MS) / 1e3 for left in bars["retracted"].left] == [10]
    assert bars["retracted"].count.tolist() == [4]


def test_where_nothing_was_counted_the_lines_of_the_log_are() -> None:
    con = connection()
    add_bucket(con, 0, waiting=1)
    for second in (1, 2, 15):
        add_event(con, second, "retraction")
    assert only(con).bars["retracted"].count.tolist() == [2, 1]


def test_many_bars_are_added_up_and_none_is_lost() -> None:
    con = connection()
    insert(con, "timeline", [bucket(i * 10, preempted=1 + i % 3) for i in range(1000)])
    count = only(con).bars["preempted"].count
    assert len(count) <= MAX_BARS + 1
    assert count.sum() == sum(1 + i % 3 for i in range(1000))


def test_the_incident_is_clipped_to_what_is_drawn() -> None:
    con = connection()
    insert(con, "timeline", [bucket(0, waiting=3), bucket(10, waiting=5)])
    assert only(con, Window(at(5), at(999))).incident == (EPOCH_MS + 5e3, EPOCH_MS + 20e3)
    assert only(con, Window(None, at(12))).incident == (EPOCH_MS, EPOCH_MS + 12e3)
    assert only(con, Window(at(500), at(999))).incident is None
    assert only(con).incident is None


def test_instances_without_a_time_are_counted_and_left_out() -> None:
    con = connection()
    add_bucket(con, 0, instance="pod-b", waiting=1)
    found = explored(con, "pod-a", "pod-b")
    assert ([one.anchor for one in found.charted], found.left_out) == (["i2"], 1)


def test_nothing_with_a_time_is_nothing_to_explore() -> None:
    assert build_explore(connection(), [ExploreInstance("i1", "pod-a", None, NO_WINDOW)]) is None


def test_the_budget_is_shared_and_small_curves_leave_their_part_to_others() -> None:
    assert fair_limit([10_000, 10_000], 1000) == 500
    assert fair_limit([100, 10_000, 10_000], 1000) == 450
    assert fair_limit([100, 200], 1000) == 200
    assert fair_limit([10_000] * 1000, 1000) == MIN_POINTS
    assert fair_limit([], 1000) == MIN_POINTS


def segment(start: float, values: list[float], step: float = 1.0) -> Segment:
    return Segment(tuple((start + i * step, 0.0, v) for i, v in enumerate(values)), start + len(values) * step)


def test_thinning_keeps_extremes_and_never_bridges_a_gap() -> None:
    curve = [
        segment(0, [float(i % 10) for i in range(500)]),
        segment(900, [100.0, 2.0, 3.0]),
        segment(1000, [float(-i) for i in range(400)]),
    ]
    thinned = thin(curve, 50)
    assert (thinned.points, thinned.drawn <= 50) == (903, True)
    assert (np.nanmin(thinned.y), np.nanmax(thinned.y)) == (-399, 100)
    gaps = thinned.x[np.isnan(thinned.y)].tolist()
    assert gaps == [500e3, 903e3, 1400e3]
    starts = [thinned.x[0], *(thinned.x[i + 1] for i in np.flatnonzero(np.isnan(thinned.y))[:-1])]
    assert starts == [0, 900e3, 1000e3]


def test_where_beginnings_are_too_many_the_limit_still_holds() -> None:
    curve = [segment(2.0 * i, [float(i % 17)]) for i in range(1000)]
    thinned = thin(curve, 100)
    assert thinned.drawn <= 100
    assert np.nanmax(thinned.y) == 16
    # Each stands alone: a gap follows every one of them.
    assert np.isnan(thinned.y[1::2]).all()


def test_an_open_end_of_a_band_stays_open() -> None:
    curve = [Segment(((0.0, 1.0, math.inf), (1.0, 0.5, 2.0)), 2.0)]
    band = thin(curve, 10)
    assert band.low is not None
    assert (band.low.tolist()[:2], band.y.tolist()[:2]) == ([1.0, 0.5], [math.inf, 2.0])
