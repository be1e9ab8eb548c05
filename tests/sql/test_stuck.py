"""`stuck` and `unschedulable`: waiting with nothing running, and requests that no room would be enough for."""

from __future__ import annotations

from sql_case import at, database, event, fact, request, row_of, rows_of, stats

STUCK = "SELECT start_ts, stuck_s, waiting_max, usage_max, deferred_share FROM stuck"


def lines(running: int, until: int = 200) -> list[dict[str, object]]:
    busy = [stats(t, running=3, waiting=0, kv_usage=0.1) for t in range(0, 50, 10)]
    return busy + [stats(t, running=running, waiting=4, deferred=1, kv_usage=0.0) for t in range(50, until, 10)]


def test_waiting_with_nothing_running_is_a_stretch() -> None:
    assert rows_of(database(scheduler=lines(0)), STUCK) == [(50, 140, 4, 0, 0.25)]


def test_a_running_request_ends_it() -> None:
    assert rows_of(database(scheduler=lines(1)), STUCK) == []


def test_a_moment_is_none() -> None:
    assert rows_of(database(scheduler=lines(0, until=90)), STUCK) == []


def test_one_rank_that_runs_is_enough() -> None:
    both = [{**line, "dp": dp, "running": dp} for line in lines(0) for dp in (0, 1)]
    assert rows_of(database(scheduler=both), STUCK) == []


def test_a_prompt_larger_than_the_pool_is_found_if_it_got_no_token() -> None:
    asked = [request(60, prompt_tokens=52_000, status="unfinished"), request(61, prompt_tokens=900, ttft_s=1.0)]
    row = row_of(database(scheduler=lines(0), facts=[fact("kv_capacity_tokens", 40_000)], requests=asked), "unschedulable")
    assert (row["giants"], row["giant_tokens"], row["giant_ts"], row["pool_tokens"]) == (1, 52_000, 60, 40_000)
    served = [request(60, prompt_tokens=52_000, ttft_s=2.0)]
    row = row_of(database(scheduler=lines(0), facts=[fact("kv_capacity_tokens", 40_000)], requests=served), "unschedulable")
    assert (row["giants"], row["giant_tokens"]) == (0, None)


def test_a_whole_prompt_must_fit_into_the_sliding_window_pool() -> None:
    known = [fact("kv_capacity_tokens", 90_000), fact("kv_swa_tokens", 9_000)]
    asked = [request(60, prompt_tokens=14_000, status="unfinished")]
    assert row_of(database(scheduler=lines(0), facts=known, requests=asked), "unschedulable")["giants"] == 1


def test_only_refusals_for_the_pool_count() -> None:
    told = [
        event(60, "rejection", tokens=52_000),
        event(61, "rejection", tokens=900),
        event(62, "abort", text="the only request that was left running was aborted: it had outgrown the whole KV pool"),
        event(63, "abort"),
    ]
    row = row_of(database(scheduler=lines(0), facts=[fact("kv_capacity_tokens", 40_000)], events=told), "unschedulable")
    assert (row["refusals"], row["refused_tokens"], row["refused_from_ts"], row["refused_until_ts"]) == (2, 52_000, 60, 62)
    assert row["refused_source"] == "server.log:1"


def test_failed_requests_around_an_end_are_counted() -> None:
    asked = [request(t, status="error", finish_ts=at(t + 1)) for t in (0, 44, 60)] + [request(50, ttft_s=1.0)]
    con = database(scheduler=lines(1, until=60), events=[event(45, "crash")], requests=asked)
    assert rows_of(con, "SELECT failed_requests FROM _run_end") == [(2,)]
