"""Scrapes as scheduler reports: what they say, and beside a log."""

from __future__ import annotations

from typing import Any

import pytest
from sql_case import Series, at, database, metrics, report, row_of, rows_of, series, stats

LEVELS = "SELECT ts, dp, running, waiting, kv_usage FROM scheduler_clean ORDER BY ts, dp"


def gauges(times: list[float] | range, running: float = 2, waiting: float = 0, kv_usage: float = 0.5, **columns: Any) -> list[Series]:
    told = (("running_requests", running), ("waiting_requests", waiting), ("kv_usage", kv_usage))
    return [series(name, [(t, v) for t in times], **columns) for name, v in told]


def test_a_scrape_is_a_report_of_each_rank() -> None:
    ranks = [one for dp in (0, 1) for one in gauges([0, 5], running=2 + dp, waiting=dp, kv_usage=0.4 + dp / 10, labels={"engine": dp})]
    con = database(**metrics(*ranks))
    assert rows_of(con, LEVELS) == [(0, 0, 2, 0, 0.4), (0, 1, 3, 1, 0.5), (5, 0, 2, 0, 0.4), (5, 1, 3, 1, 0.5)]
    row = row_of(con, "peaks")
    assert (row["basis"], row["running"], row["waiting"], row["kv_usage"], row["reports"]) == ("metrics", 5, 1, 0.5, 4)


def test_a_sum_over_ranks_is_of_one_moment() -> None:
    """One rank fills up while the other empties: never were 20 running."""
    ranks = [series("running_requests", [(0, a), (5, b)], labels={"dp_rank": dp}) for dp, a, b in ((0, 0, 10), (1, 10, 0))]
    con = database(**metrics(*ranks))
    assert row_of(con, "peaks")["running"] == 10
    assert {r[0] for r in rows_of(con, "SELECT running_max FROM signal_load")} == {10}


@pytest.mark.parametrize("known", ["running_requests", "waiting_requests", "kv_usage", "pool_usage"])
def test_any_of_the_levels_alone_is_a_report(known: str) -> None:
    con = database(**metrics(series(known, [(0, 0.5)])))
    (row,) = rows_of(con, "SELECT running, waiting, kv_usage, pool_usage FROM scheduler_clean")
    expected = {"running_requests": (0.5, None, None, None), "waiting_requests": (None, 0.5, None, None)}
    assert row == expected.get(known, (None, None, 0.5, 0.5))


def test_the_pool_stands_for_the_only_pool_of_old_servers() -> None:
    hybrid = [series(n, [(0, v)]) for n, v in (("kv_usage", 0.3), ("pool_usage", 0.9), ("swa_usage", 0.9), ("mamba_usage", 0.2))]
    assert rows_of(database(**metrics(*hybrid)), "SELECT kv_usage, pool_usage FROM scheduler_clean") == [(0.3, 0.9)]
    rounded = series("pool_usage", [(0, 0.97)])
    assert rows_of(database(**metrics(rounded)), "SELECT kv_usage, pool_usage FROM scheduler_clean") == [(0.97, 0.97)]


def test_levels_of_inputs_that_were_read_apart_make_whole_reports() -> None:
    con = database(
        **metrics(
            series("running_requests", [(t, 4) for t in (0, 15, 30)], source_id="a"),
            series("waiting_requests", [(t + 1, 9) for t in (0, 15, 30)], source_id="b"),
            series("kv_usage", [(t + 2, 0.8) for t in (0, 15, 30)], source_id="c"),
        )
    )
    assert rows_of(con, LEVELS)[2:] == [(t, 0, 4, 9, 0.8) for t in (2, 15, 16, 17, 30, 31, 32)]
    assert row_of(con, "q03_l1_full")["usage_waiting_max"] == 0.8


def test_a_level_that_is_no_longer_told_is_unknown() -> None:
    con = database(**metrics(series("running_requests", [(0, 4)]), series("waiting_requests", [(t, 1) for t in (0, 10, 20, 31, 40)])))
    assert rows_of(con, "SELECT ts, running FROM scheduler_clean ORDER BY ts") == [(0, 4), (10, 4), (20, 4), (31, None), (40, None)]


RATES = "SELECT ts, prompt_tps, gen_tps, first_tokens, prefix_hit_share FROM _scrape ORDER BY ts, dp"


def counters(times: list[float], **columns: Any) -> list[Series]:
    """Per second: 100 prompt tokens, 20 generated, 2 first tokens, 30 of 120 tokens found."""
    told = (
        ("prompt_tokens_total", None, 100), ("generation_tokens_total", None, 20), ("ttft_s", "count", 2),
        ("prefix_hit_tokens_total", None, 30), ("prefix_query_tokens_total", None, 120),
    )  # fmt: skip
    return [series(name, [(t, 1e6 + rate * t) for t in times], part=part, **columns) for name, part, rate in told]


def test_rates_are_what_counters_rose_by() -> None:
    con = database(**metrics(*gauges([0, 10, 20]), *counters([0, 10, 20])))
    assert rows_of(con, RATES) == [(0, None, None, None, None), (10, 100, 20, 20, 0.25), (20, 100, 20, 20, 0.25)]


def test_rates_begin_with_a_window() -> None:
    given = metrics(*gauges([0, 10, 20]), *counters([0, 10, 20]))
    assert rows_of(database(**given, since=at(5)), RATES) == [(10, 100, 20, 20, 0.25), (20, 100, 20, 20, 0.25)]


def test_coarse_counters_are_spread_over_finer_levels() -> None:
    con = database(**metrics(*gauges(range(31), source_id="a"), *counters([0, 15, 30], source_id="b")))
    assert rows_of(con, RATES)[1:] == [(t, 100, 20, 2, 0.25) for t in range(1, 31)]


def test_counters_of_other_moments_are_not_lost() -> None:
    con = database(**metrics(*gauges(list(range(0, 61, 10)), source_id="a"), *counters([3 + 15 * n for n in range(5)], source_id="b")))
    found = rows_of(con, RATES)
    assert [r[:3] for r in found] == [(0, None, None), *((t, 100, 20) for t in range(10, 61, 10))]
    assert sum(r[3] or 0 for r in found) == pytest.approx(2 * (60 - 3), abs=1e-3)


def test_what_counters_before_a_restart_rose_by_is_no_rate_of_the_next_run() -> None:
    old, new = ([*gauges(t, run_id=r), *counters(t, run_id=r)] for t, r in (([0, 10], "r1"), ([100, 110], "r2")))
    con = database(**metrics(*old, *new))
    assert rows_of(con, "SELECT ts, first_tokens FROM _scrape ORDER BY ts") == [(0, None), (10, 20), (100, 1_000_200), (110, 20)]


def test_counters_without_a_rank_are_shared_by_all() -> None:
    ranks = [one for dp in (0, 1) for one in gauges([0, 10], labels={"dp_rank": dp})]
    con = database(**metrics(*ranks, *counters([0, 10])))
    assert rows_of(con, "SELECT dp, prompt_tps, first_tokens FROM _scrape WHERE first_tokens IS NOT NULL ORDER BY dp") == [
        (0, 50, 10),
        (1, 50, 10),
    ]
    assert rows_of(con, "SELECT max(prompt_tps) FROM _load") == [(100,)]


def basis(con: Any) -> dict[str, Any]:
    row = row_of(con, "peaks")
    return {k: row[k] for k in ("basis", "other_basis", "running", "waiting", "other_waiting")}


def test_a_fine_log_goes_before_coarse_scrapes() -> None:
    """SGLang's log tells of every batch; it is silent while nothing runs, and scrapes fill that in."""
    log = [report(t / 10, running=3, waiting=7 if t == 505 else 1, kv_usage=0.5) for t in range(1000)]
    con = database(scheduler=log, **metrics(*gauges(range(0, 300, 15), running=0, waiting=0)))
    assert basis(con) == {"basis": "log", "other_basis": "metrics", "running": 3, "waiting": 7, "other_waiting": 0}
    found = rows_of(con, "SELECT ts, running FROM scheduler_clean WHERE basis = 'metrics' ORDER BY ts")
    assert found == [(t, 0) for t in range(105, 300, 15)]


def test_fine_scrapes_go_before_a_coarse_log() -> None:
    log = [stats(t, running=3, waiting=1, kv_usage=0.5) for t in range(0, 200, 10)]
    con = database(scheduler=log, **metrics(*gauges(range(100), waiting=4, engine="vllm")))
    assert basis(con) == {"basis": "metrics", "other_basis": "log", "running": 2, "waiting": 4, "other_waiting": 1}
    assert rows_of(con, "SELECT count(*) FROM scheduler_clean WHERE basis = 'log' AND ts < '2026-03-10 12:01:40Z'") == [(0,)]


def test_only_one_of_them() -> None:
    assert basis(database(scheduler=[report(0, running=1, waiting=2)]))["basis"] == "log"
    assert basis(database(**metrics(*gauges([0]))))["basis"] == "metrics"


def test_what_tells_less_is_not_finer() -> None:
    """Iteration lines have no queue, and a dump of one panel has nothing but."""
    lines = [stats(t / 10, kind="iteration", kv_usage=0.9) for t in range(1000)]
    con = database(scheduler=lines, **metrics(*gauges(range(0, 100, 15), waiting=4)))
    assert basis(con)["basis"] == "metrics"
    log = [stats(t, running=3, waiting=1, kv_usage=0.5) for t in range(0, 100, 10)]
    con = database(scheduler=log, **metrics(series("waiting_requests", [(t, 5) for t in range(100)])))
    assert basis(con)["basis"] == "log"


def test_without_a_moment_in_common_both_are_used() -> None:
    log = [stats(t, running=3, waiting=1, kv_usage=0.5) for t in range(0, 100, 10)]
    con = database(scheduler=log, **metrics(*gauges(range(200, 300, 10), running=9)))
    assert rows_of(con, "SELECT basis, count(*), max(running) FROM scheduler_clean GROUP BY ALL ORDER BY ALL") == [
        ("log", 10, 3),
        ("metrics", 10, 9),
    ]


def test_ranks_of_a_log_are_not_added_to_a_whole_server_scraped() -> None:
    log = [report(t, dp=dp, running=5, waiting=0, kv_usage=0.5) for t in range(60) for dp in range(8)]
    con = database(scheduler=log, **metrics(*gauges(range(0, 120, 15), running=40)))
    assert rows_of(con, "SELECT max(running) FROM _load") == [(40,)]
    assert max(r[0] for r in rows_of(con, "SELECT running FROM timeline WHERE running IS NOT NULL")) == 40


def test_a_window_chooses_anew() -> None:
    log = [stats(t, running=3, waiting=1, kv_usage=0.5) for t in range(0, 200, 10)]
    given = metrics(*gauges(range(100), waiting=4, engine="vllm"))
    assert basis(database(scheduler=log, **given, since=at(120)))["basis"] == "log"
    assert basis(database(scheduler=log, **given, until=at(50)))["basis"] == "metrics"


def test_the_place_of_a_report_is_that_of_a_series() -> None:
    con = database(
        **metrics(
            series("running_requests", [(0, 1)], source_id="b", record=3), series("waiting_requests", [(0, 1)], source_id="a", record=70)
        )
    )
    assert rows_of(con, "SELECT source_id, record FROM _scrape") == [("a", 70)]


def test_a_gauge_that_stands_still_does_not_hide_an_engine_that_makes_no_token() -> None:
    """SGLang sets its throughput gauge at each report: in a hang it keeps the last value, the counter does not move."""
    con = database(
        **metrics(
            series("running_requests", [(0, 4), (10, 4), (20, 4)]),
            series("gen_tps", [(0, 500), (10, 500), (20, 500)]),
            series("decode_tokens_total", [(0, 1000), (10, 6000), (20, 6000)]),
        )
    )
    assert rows_of(con, "SELECT ts, gen_tps FROM _scrape ORDER BY ts") == [(0, 500), (10, 500), (20, 0)]


def test_a_gauge_goes_before_the_counter_of_finished_requests() -> None:
    con = database(
        **metrics(
            series("running_requests", [(0, 4), (10, 4)]),
            series("gen_tps", [(0, 500), (10, 500)]),
            series("generation_tokens_total", [(0, 1000), (10, 1000)]),
        )
    )
    assert rows_of(con, "SELECT gen_tps FROM _scrape ORDER BY ts") == [(500,), (500,)]
