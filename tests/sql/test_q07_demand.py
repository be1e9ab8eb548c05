"""`q07_demand`: tokens a request holds, and how many such requests the pool takes."""

from __future__ import annotations

from sql_case import database, fact, report, row_of, stats


def test_little_room_for_many() -> None:
    con = database(
        scheduler=[report(0, running=4, waiting=0, kv_usage=0.4), report(10, running=5, waiting=15, kv_usage=0.5)],
        facts=[fact("kv_capacity_tokens", 1000)],
    )
    row = row_of(con, "q07_demand")
    assert (row["tokens_per_request"], row["capacity_tokens"], row["ceiling_requests"]) == (100, 1000, 10)
    assert (row["demand_max"], row["demand_ts"], row["demand_share"]) == (20, 10, 2)


def test_ranks_have_a_pool_each() -> None:
    lines = [report(t, dp=d, running=4, waiting=0, kv_usage=0.4) for t in range(3) for d in (0, 1)]
    row = row_of(database(scheduler=lines, facts=[fact("kv_capacity_tokens", 1000)]), "q07_demand")
    assert (row["capacity_tokens"], row["ceiling_requests"], row["demand_max"]) == (2000, 20, 8)


def test_an_aggregated_line_stands_for_all_its_engines() -> None:
    lines = [stats(t, engines=4, running=16, waiting=0, kv_usage=0.4) for t in (0, 10)]
    row = row_of(database(scheduler=lines, facts=[fact("kv_capacity_tokens", 1000, engine="vllm")]), "q07_demand")
    assert (row["tokens_per_request"], row["capacity_tokens"], row["ceiling_requests"]) == (100, 4000, 40)


def test_unknown_capacity() -> None:
    assert row_of(database(scheduler=[report(0, running=4, kv_usage=0.4)]), "q07_demand")["ceiling_requests"] is None


def test_a_peak_above_the_ceiling_and_an_average_below() -> None:
    burst = [report(10 * n, running=4, waiting=20 if n == 2 else 1, kv_usage=0.4) for n in range(10)]
    row = row_of(database(scheduler=burst, facts=[fact("kv_capacity_tokens", 1000)]), "q07_demand")
    assert (row["ceiling_requests"], row["demand_max"], row["demand_share"]) == (10, 24, 2.4)
    assert row["demand_mean"] == 7.1111
