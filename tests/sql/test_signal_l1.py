"""`signal_l1`: used, evictable and available tokens of the KV pool, and what is known where no metric tells them."""

from __future__ import annotations

from typing import Any

import pytest
from sql_case import Series, at, database, event, fact, metrics, report, row_of, rows_of, series, stats

SQL = "SELECT bucket_ts, l1_used_tokens, l1_evictable_tokens, l1_available_tokens, l1_capacity_tokens FROM signal_l1 ORDER BY bucket_ts"


def states(points: list[tuple[float, int, int, int]], **columns: Any) -> list[Series]:
    """(seconds, used, evictable, available), and the usage they make."""
    return [
        series("kv_used_tokens", [(t, u) for t, u, _, _ in points], **columns),
        series("kv_evictable_tokens", [(t, e) for t, _, e, _ in points], **columns),
        series("kv_available_tokens", [(t, a) for t, _, _, a in points], **columns),
        series("kv_usage", [(t, u / (u + e + a)) for t, u, e, a in points], **columns),
    ]


def test_the_three_states_add_up_to_the_capacity() -> None:
    con = database(**metrics(states([(0, 600, 300, 100), (2, 900, 100, 0)])))
    assert rows_of(con, SQL) == [(0, 600, 300, 100, 1000), (1, 600, 300, 100, 1000), (2, 900, 100, 0, 1000)]
    row = row_of(con, "q03_l1_full")
    assert (row["evictable_at_max_tokens"], row["available_at_max_tokens"], row["available_min_tokens"]) == (100, 0, 0)


def test_they_are_summed_over_ranks() -> None:
    ranks = [one for dp in (0, 1) for one in states([(0, 600 + dp, 300, 100), (1, 10, 20, 30 + dp)], labels={"dp_rank": dp})]
    assert rows_of(database(**metrics(*ranks)), SQL) == [(0, 1201, 600, 200, 2001), (1, 20, 40, 61, 121)]


def test_a_rank_that_is_silent_leaves_no_sum() -> None:
    ranks = [*states([(0, 600, 300, 100)], labels={"dp_rank": 0}), *states([(0, 6, 3, 1), (40, 6, 3, 1)], labels={"dp_rank": 1})]
    found = {r[0]: r[2] for r in rows_of(database(**metrics(*ranks)), SQL)}
    assert (found[0], found[29], found[40]) == (303, 303, None)


def test_they_come_from_the_metrics_where_the_log_is_finer() -> None:
    log = [report(t / 4, running=4, waiting=9, kv_usage=0.95, kv_used_tokens=950) for t in range(120)]
    con = database(scheduler=log, **metrics(states([(0, 900, 80, 20), (15, 960, 40, 0)])))
    found = rows_of(con, SQL)
    assert found[14] == (14, 900, 80, 20, 1000)
    assert found[15] == (15, 960, 40, 0, 1000)
    assert all(sum(r[1:4]) == r[4] for r in found)
    assert row_of(con, "q03_l1_full")["evictable_at_max_tokens"] == 40
    assert rows_of(con, "SELECT DISTINCT basis FROM scheduler_clean") == [("log",)]


def test_they_hold_as_long_as_a_gauge_does() -> None:
    log = [report(t, running=4, waiting=9, kv_usage=0.95, kv_used_tokens=950) for t in range(100)]
    con = database(scheduler=log, facts=[fact("kv_capacity_tokens", 1000)], **metrics(states([(0, 900, 80, 20), (10, 900, 80, 20)])))
    found = rows_of(con, SQL)
    assert found[40] == (40, 900, 80, 20, 1000)
    assert found[41] == (41, 950, None, None, 1000)


def test_nothing_is_carried_into_the_next_run() -> None:
    con = database(
        **metrics(states([(0, 900, 80, 20)]), series("kv_usage", [(5, 0.0)], run_id="r2")),
        facts=[fact("kv_capacity_tokens", 700, run_id="r2")],
        events=[event(3, "shutdown")],
    )
    assert rows_of(con, SQL)[-1] == (5, 0, None, None, 700)
    assert rows_of(con, SQL)[4] == (4, None, None, None, None)


def test_usage_alone_tells_the_used_part() -> None:
    con = database(scheduler=[stats(0, running=1, kv_usage=0.5)], facts=[fact("num_gpu_blocks", 100, engine="vllm")])
    assert rows_of(con, SQL) == [(0, 800, None, None, 1600)]
    assert rows_of(database(scheduler=[stats(0, running=1, kv_usage=0.5)]), SQL) == [(0, None, None, None, None)]


@pytest.mark.parametrize("how", ["log", "metrics"])
def test_used_tokens_are_those_of_all_ranks_and_not_of_the_fullest(how: str) -> None:
    ranks = [(0, 0.9), (1, 0.1)]
    given: dict[str, Any] = (
        {"scheduler": [stats(0, dp=dp, running=1, kv_usage=u) for dp, u in ranks]}
        if how == "log"
        else metrics(*(series("kv_usage", [(0, u)], labels={"engine": dp}, engine="vllm") for dp, u in ranks))
    )
    con = database(facts=[fact("num_gpu_blocks", 100, engine="vllm")], **given)
    assert rows_of(con, SQL) == [(0, 1600, None, None, 3200)]


def test_a_line_for_several_engines_is_of_all_their_pools() -> None:
    con = database(scheduler=[stats(0, running=1, kv_usage=0.5, engines=4)], facts=[fact("num_gpu_blocks", 100, engine="vllm")])
    assert rows_of(con, SQL) == [(0, 3200, None, None, 6400)]


def test_another_pool_says_nothing_of_the_tokens_in_the_first() -> None:
    """A sliding-window pool that is full makes the usage 1, and not the tokens of full attention."""
    con = database(scheduler=[report(0, running=1, kv_usage=0.25, swa_usage=1.0)], facts=[fact("kv_capacity_tokens", 1000)])
    assert rows_of(con, SQL) == [(0, 250, None, None, 1000)]
    assert rows_of(con, "SELECT kv_usage_max FROM signal_l1") == [(1.0,)]


def test_a_window_bounds_them() -> None:
    con = database(**metrics(states([(0, 600, 300, 100), (2, 900, 100, 0)])), since=at(1))
    assert rows_of(con, SQL) == [(2, 900, 100, 0, 1000)]
