"""`l2_wait`: whether requests waited for loads, and whether loads were slow before the pool was full."""

from __future__ import annotations

from typing import Any

from sql_case import database, fact, metrics, operation, report, row_of, series, stats

# Decode lines every ten seconds, with a queue from 100 to 190.
QUEUE = [report(t, running=8, waiting=6 if 100 <= t < 190 else 0, kv_usage=0.3) for t in range(0, 300, 10)]
QUICK = [operation(t, "load", tokens=1000, duration_s=0.02) for t in range(5, 100, 10)]
SLOW = [operation(t, "load", tokens=1000, duration_s=4.0) for t in range(105, 185, 5)]


def waited(**tables: Any) -> dict[str, Any]:
    return row_of(database(**{"scheduler": QUEUE, **tables}), "l2_wait")


def test_slow_loads_are_told_from_the_usual() -> None:
    row = waited(cache_ops=[*QUICK, *SLOW])
    assert (row["loads_inside"], row["slow_load_inside_s"], row["load_mean_outside_s"], row["slow_from_ts"]) == (16, 64, 0.02, 105)


def test_quick_loads_are_never_slow() -> None:
    row = waited(cache_ops=[*QUICK, *(operation(t, "load", tokens=1000, duration_s=0.15) for t in range(105, 185, 5))])
    assert (row["loads_inside"], row["slow_load_inside_s"], row["slow_from_ts"]) == (16, None, None)


def test_loads_that_were_slow_all_along_are_measured_by_computing() -> None:
    load = [operation(t, "load", tokens=1000, duration_s=4.0) for t in range(5, 290, 5)]
    computed = [
        report(t, kind="prefill", running=8, waiting=6, kv_usage=0.3, new_seqs=1, new_tokens=900, prompt_tps=tps)
        for t, tps in ((115, 5000),)
    ]
    assert waited(cache_ops=load)["slow_load_inside_s"] is None
    assert waited(cache_ops=load, scheduler=[*QUEUE, *computed])["slow_load_inside_s"] > 60


def test_which_came_first_is_told() -> None:
    full = [report(t, running=8, waiting=6 if 100 <= t < 190 else 0, kv_usage=0.99 if 140 <= t < 190 else 0.3) for t in range(0, 300, 10)]
    row = waited(scheduler=full, cache_ops=[*QUICK, *SLOW])
    assert (row["slow_from_ts"], row["full_from_ts"]) == (105, 140)


def test_waiting_for_remote_kv_is_counted() -> None:
    lines = [
        stats(t, running=2, waiting=10 if 100 <= t < 190 else 0, kv_usage=0.2, kv_fetch_waiting=5, kv_fetch_loading=3)
        if 100 <= t < 190
        else stats(t, running=2, waiting=0, kv_usage=0.2)
        for t in range(0, 300, 10)
    ]
    row = waited(scheduler=lines)
    assert (row["fetch_request_s"], row["waiting_request_s"], row["fetch_max"], row["fetch_from_ts"]) == (720, 900, 8, 100)


def test_the_pace_is_told_by_bytes_where_loads_are_not_counted() -> None:
    given = metrics(
        series("l2_load_bytes_total", [(10 * n, 1e6 * n) for n in range(30)]),
        series("l2_load_seconds_total", [(10 * n, 0.01 * min(n, 11) + 5.0 * max(0, n - 11)) for n in range(30)]),
    )
    row = waited(**given)
    assert (row["loads_inside"], row["slow_from_ts"]) == (None, 120)


def test_room_beyond_all_that_can_be_reserved_is_spare() -> None:
    known = [fact("kv_capacity_tokens", 400_000), fact("max_running_requests", 100)]
    assert waited(facts=known)["spare_s"] > 80
    tight = [fact("kv_capacity_tokens", 50_000), fact("max_running_requests", 100)]
    assert waited(facts=tight)["spare_s"] is None
    capped = [fact("kv_capacity_tokens", 400_000), fact("max_running_requests", 8)]
    assert waited(facts=capped)["spare_s"] is None
