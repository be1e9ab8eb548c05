"""`signal_l2` and `q08_l2`: how full L2 is, and what it found, loaded, stored and failed to do."""

from __future__ import annotations

from typing import Any

import pytest
from sql_case import Series, at, database, fact, metrics, operation, report, row_of, rows_of, series

USED = "SELECT l2_used_share, l2_used_tokens, l2_used_bytes FROM signal_l2"


def counter(name: str, rise: float, *, part: str | None = None, labels: dict[str, Any] | None = None, **columns: Any) -> Series:
    """A counter that is read at 0 and 10, and rises by `rise`."""
    return series(name, [(0, 1000), (10, 1000 + rise)], part=part, labels=labels, **columns)


def moved(*given: Series, **tables: Any) -> dict[str, Any]:
    return row_of(database(scheduler=[report(0, running=1)], **metrics(*given), **tables), "q08_l2")


def test_the_used_share_is_of_the_capacity_the_gauges_tell() -> None:
    con = database(**metrics(series("l2_used_tokens", [(0, 300)]), series("l2_capacity_tokens", [(0, 1200)])))
    assert rows_of(con, USED) == [(0.25, 300, None)]


def test_ranks_have_a_pool_each() -> None:
    given = [
        series(n, [(0, v + dp)], labels={"dp_rank": dp})
        for dp in (0, 1)
        for n, v in (("l2_used_tokens", 300), ("l2_capacity_tokens", 1200))
    ]
    assert rows_of(database(**metrics(*given)), USED) == [(0.2503, 601, None)]
    used = [s for s in given if s["name"] == "l2_used_tokens"]
    assert rows_of(database(**metrics(*used), facts=[fact("l2_capacity_tokens", 1200)]), USED) == [(0.2504, 601, None)]


def test_bytes_are_of_the_size_of_each_worker() -> None:
    workers = [series("l2_used_bytes", [(0, 2e9)], labels={"worker_id": w}, engine="lmcache") for w in range(4)]
    assert rows_of(database(**metrics(*workers), facts=[fact("l2_bytes", 5e9)]), USED) == [(0.4, None, 8e9)]
    assert rows_of(database(**metrics(*workers)), USED) == [(None, None, 8e9)]


def test_a_share_is_taken_as_it_is() -> None:
    con = database(**metrics(series("l2_usage", [(0, 0.8)]), series("l2_used_bytes", [(0, 5)])), facts=[fact("l2_bytes", 10)])
    assert rows_of(con, USED) == [(0.8, None, 5)]


def test_what_transfers_pin_is_no_use() -> None:
    assert rows_of(database(**metrics(series("l2_pinned_share", [(0, 0.9)]), series("running_requests", [(0, 1)]))), USED) == []


def test_counters_tell_what_moved() -> None:
    row = moved(
        counter("l2_load_tokens_total", 500),
        counter("l2_load_bytes_total", 7000),
        counter("l2_load_s", 1.5, part="sum"),
        counter("l2_load_s", 9, part="count"),
        counter("l2_store_tokens_total", 300),
        counter("l2_hit_tokens_total", 800),
        counter("l2_lookup_tokens_total", 900),
        counter("l2_alloc_failures_total", 2),
        counter("l2_evict_failures_total", 3),
        counter("l2_load_failures_total", 4),
        counter("l2_dropped_tokens_total", 50, labels={"reason": "a"}),
        counter("l2_dropped_tokens_total", 60, labels={"reason": "b"}),
    )
    assert (row["l2_moved_by"], row["loaded_tokens"], row["loaded_bytes"], row["load_s"], row["stored_tokens"]) == (
        "counter",
        500,
        7000,
        1.5,
        300,
    )
    assert (row["hit_tokens"], row["lookup_tokens"], row["failures"], row["alloc_failures"], row["dropped_tokens"]) == (800, 900, 9, 5, 110)


def test_workers_share_the_tokens_and_add_up_their_bytes() -> None:
    workers = [
        one
        for w in range(4)
        for one in (
            counter("l2_load_tokens_total", 500 - w, labels={"worker_id": w}, engine="lmcache"),
            counter("l2_load_bytes_total", 100 + w, labels={"worker_id": w}, engine="lmcache"),
            counter("l2_load_s", 1 + w, part="sum", labels={"worker_id": w}, engine="lmcache"),
            counter("l2_hit_tokens_total", 800 if w == 0 else 0, labels={"worker_id": w}, engine="lmcache"),
        )
    ]
    row = moved(*workers)
    assert (row["loaded_tokens"], row["loaded_bytes"], row["load_s"], row["hit_tokens"]) == (500, 406, 4, 800)


def test_pools_of_one_rank_hold_the_same_tokens() -> None:
    pools = [
        counter(name, rise, labels={"dp_rank": dp, "pool": pool})
        for dp in (0, 1)
        for pool, tokens, size in (("full", 500, 9000), ("swa", 200, 1000))
        for name, rise in (("l2_load_tokens_total", tokens), ("l2_load_bytes_total", size))
    ]
    row = moved(*pools)
    assert (row["loaded_tokens"], row["loaded_bytes"]) == (1000, 20000)


LOG = [
    operation(5, "lookup", tokens=200, hit_tokens=800, total_tokens=1000),
    operation(6, "load", tokens=200, bytes=64, duration_s=0.5),
    operation(7, "alloc_fail", ok=False),
    operation(8, "load", tokens=1, ok=False),
]


def test_counters_go_before_operations_of_the_log_and_leave_the_rest_to_them() -> None:
    row = moved(counter("l2_load_tokens_total", 500), cache_ops=LOG)
    assert (row["l2_moved_by"], row["loaded_tokens"], row["loaded_bytes"], row["load_s"]) == ("counter", 500, None, None)
    assert (row["hit_tokens"], row["lookup_tokens"], row["failures"], row["alloc_failures"]) == (800, 1000, 2, 1)
    row = moved(counter("l2_alloc_failures_total", 7), cache_ops=LOG)
    assert (row["loaded_tokens"], row["failures"], row["alloc_failures"]) == (201, 8, 7)


def test_operations_outside_the_time_of_the_counters_count() -> None:
    late = [operation(50, "load", tokens=40), operation(5, "load", tokens=200)]
    assert moved(counter("l2_load_tokens_total", 500), cache_ops=late)["loaded_tokens"] == 540


@pytest.mark.parametrize("other", ["l2_lookup_s", "l2_store_s", "l2_evictions_total"])
def test_counters_of_other_things_hide_no_operation(other: str) -> None:
    row = moved(counter(other, 5, part=None if other.endswith("_total") else "sum"), cache_ops=LOG)
    assert (row["l2_moved_by"], row["loaded_tokens"], row["hit_tokens"]) == ("log", 201, 800)


def test_one_reading_of_a_counter_hides_no_operation() -> None:
    row = moved(series("l2_load_tokens_total", [(0, 5)]), cache_ops=LOG)
    assert (row["l2_moved_by"], row["loaded_tokens"]) == ("log", 201)


def test_ranks_in_the_log_are_one_operation() -> None:
    lines = [operation(5, "load", tokens=200, bytes=64, duration_s=0.5 + tp, tp=tp) for tp in (0, 1)]
    row = moved(cache_ops=lines)
    assert (row["loaded_tokens"], row["loaded_bytes"], row["load_s"]) == (200, 128, 1.5)


def test_found_is_not_loaded() -> None:
    row = moved(counter("l2_hit_tokens_total", 800))
    assert (row["hit_tokens"], row["loaded_tokens"]) == (800, None)


def test_each_thing_stands_in_its_bucket() -> None:
    given = metrics(
        series("l2_load_tokens_total", [(0, 0), (10, 5), (20, 5), (30, 9)]),
        series("l2_used_tokens", [(10, 5), (30, 9)]),
        series("l2_capacity_tokens", [(10, 10), (30, 10)]),
    )
    sql = "SELECT bucket_ts, l2_source, loaded_tokens, l2_used_share FROM signal_l2 WHERE coalesce(loaded_tokens, 1) > 0 ORDER BY bucket_ts"
    assert rows_of(database(**given), sql) == [(10, "counter", 5, 0.5), (30, "counter", 4, 0.9)]
    assert rows_of(database(**given, since=at(25)), sql) == [(30, "counter", 4, 0.9)]


def test_use_inside_the_incident_stands_beside_that_of_all() -> None:
    queue = [report(t, running=4, waiting=9 * (50 <= t < 150), kv_usage=0.95) for t in range(300)]
    given = metrics(series("l2_used_tokens", [(0, 9), (100, 4)]), series("l2_capacity_tokens", [(0, 10), (100, 10)]))
    row = row_of(database(scheduler=queue, **given), "q08_l2")
    assert (row["used_share_max"], row["used_share_inside"], row["used_tokens_max"]) == (0.9, 0.4, 9)
