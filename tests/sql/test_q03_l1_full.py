"""`q03_l1_full`: the pool's use over the capture and while requests waited."""

from __future__ import annotations

from sql_case import at, database, fact, report, row_of


def test_usage_is_weighed_by_time() -> None:
    con = database(
        scheduler=[
            report(0, running=1, waiting=0, kv_usage=0.2),
            report(10, running=1, waiting=5, kv_usage=0.95, kv_used_tokens=950),
            report(15, running=1, waiting=5, kv_usage=0.5),
            report(20, running=1, waiting=0, kv_usage=0.5),
        ],
        facts=[fact("kv_capacity_tokens", 1000)],
    )
    row = row_of(con, "q03_l1_full")
    assert (row["usage_max"], row["usage_max_ts"], row["usage_max_source"]) == (0.95, 10, "server.log:2")
    assert (row["waiting_s"], row["full_s"], row["full_waiting_s"]) == (10, 5, 5)
    assert (row["used_tokens_max"], row["capacity_tokens"], row["capacity_source"]) == (950, 1000, "server.log:1")


def test_the_fullest_pool_counts() -> None:
    row = row_of(database(scheduler=[report(0, running=1, waiting=1, kv_usage=0.1, swa_usage=1.0)]), "q03_l1_full")
    assert row["usage_max"] == 1.0


def test_the_capacity_is_that_of_the_process_with_the_peak() -> None:
    con = database(
        scheduler=[report(0, running=1, kv_usage=0.9), report(100, run_id="r2", running=1, kv_usage=0.4)],
        facts=[fact("kv_capacity_tokens", 500), fact("kv_capacity_tokens", 9000, run_id="r2", ts=at(90))],
    )
    assert row_of(con, "q03_l1_full")["capacity_tokens"] == 500


def test_unknown_usage_is_null() -> None:
    row = row_of(database(scheduler=[report(0, running=1, waiting=1)]), "q03_l1_full")
    assert (row["usage_max"], row["reports"], row["full_s"]) == (None, 0, None)
