"""`peaks`: highest values from raw reports, never from buckets."""

from __future__ import annotations

from sql_case import database, event, metrics, report, row_of, series, stats


def test_sums_over_ranks_and_the_fullest_rank() -> None:
    con = database(
        scheduler=[
            report(0, dp=0, running=2, waiting=7, kv_usage=0.2, swa_usage=0.9),
            report(0.2, dp=1, running=3, waiting=0, kv_usage=0.6),
            report(0.4, dp=0, running=1, waiting=0, kv_usage=0.1),
            report(0.6, dp=1, running=9, waiting=1, kv_usage=0.5),
        ]
    )
    row = row_of(con, "peaks")
    assert (row["running"], row["waiting"], row["kv_usage"], row["pool_usage"], row["reports"]) == (10, 7, 0.6, 0.9, 4)


def test_nothing_is_carried_over_a_restart() -> None:
    con = database(scheduler=[report(0, running=8, waiting=0, dp=0), report(5, run_id="r2", running=9, waiting=0, dp=1)])
    assert row_of(con, "peaks")["running"] == 9


def test_what_nobody_reported_is_null() -> None:
    row = row_of(database(events=[event(0, "crash")]), "peaks")
    assert (row["running"], row["waiting"], row["kv_usage"], row["reports"]) == (None, None, None, 0)


def test_the_other_source_shows_what_lies_beyond_the_time_of_the_finer_one() -> None:
    log = [stats(t, running=3, waiting=1, kv_usage=0.5) for t in range(0, 400, 10)]
    scraped = (("running_requests", 4), ("waiting_requests", 9), ("kv_usage", 0.8), ("pool_usage", 0.9))
    ranks = [series(name, [(t, value) for t in range(100)], labels={"engine": dp}) for dp in (0, 1) for name, value in scraped]
    row = row_of(database(scheduler=log, **metrics(*ranks)), "peaks")
    assert (row["basis"], row["running"], row["waiting"], row["kv_usage"], row["pool_usage"]) == ("metrics", 8, 18, 0.8, 0.9)
    assert (row["other_basis"], row["other_running"], row["other_waiting"], row["other_kv_usage"]) == ("log", 3, 1, 0.5)


def test_without_another_source_nothing_is_beyond() -> None:
    row = row_of(database(scheduler=[report(0, running=1, waiting=2, kv_usage=0.5)]), "peaks")
    assert (row["basis"], row["other_basis"], row["other_running"], row["other_waiting"], row["other_kv_usage"]) == ("log", *[None] * 4)
