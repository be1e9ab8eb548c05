"""`timeline`, written out by hand: what holds, for how long, what is summed, and what is not known."""

from __future__ import annotations

from sql_case import at, database, event, fact, report, request, row_of, rows_of, stats

LOAD = "SELECT bucket_ts, run_id, running, waiting, kv_usage FROM timeline ORDER BY bucket_ts"


def test_a_gauge_holds_until_the_next_report() -> None:
    con = database(scheduler=[report(0, running=2, waiting=1, kv_usage=0.25), report(3, running=4, waiting=0, kv_usage=0.5)])
    assert rows_of(con, LOAD) == [(0, "r1", 2, 1, 0.25), (1, "r1", 2, 1, 0.25), (2, "r1", 2, 1, 0.25), (3, "r1", 4, 0, 0.5)]


def test_a_bucket_shows_its_highest_values() -> None:
    con = database(scheduler=[report(0.1, running=9, waiting=0, kv_usage=0.2), report(0.8, running=2, waiting=3, kv_usage=0.9)])
    assert rows_of(con, LOAD) == [(0, "r1", 9, 3, 0.9)]
    assert rows_of(con, "SELECT running_min, running_max, running_last, kv_usage_min, kv_usage_last FROM signal_load") == [
        (2, 9, 2, 0.2, 0.9)
    ]


def test_an_engine_that_prints_nothing_is_not_carried_on() -> None:
    """After 30 s the gauge is unknown, in the middle of a capture as well."""
    lively = [report(t, running=2, waiting=0) for t in range(10)] + [report(49, running=3, waiting=0)]
    shown = [r[2] for r in rows_of(database(scheduler=lively), LOAD)]
    assert shown == [2] * 40 + [None] * 9 + [3]
    # three of a slow source's usual intervals, where that is longer
    slow = [report(t, running=2, waiting=0) for t in (0, 15, 30, 45)] + [report(200, running=3, waiting=0)]
    shown = [r[2] for r in rows_of(database(scheduler=slow), LOAD)]
    assert shown == [2] * (45 + 45 + 1) + [None] * 109 + [3]


def test_throughput_that_some_reports_do_not_tell_is_held_no_longer_than_a_gauge() -> None:
    told = [report(t, kind="decode", running=2, waiting=0, gen_tps=70.0 if t < 3 else None) for t in range(60)]
    shown = [r[0] for r in rows_of(database(scheduler=told), "SELECT gen_tps FROM timeline ORDER BY bucket_ts")]
    assert shown[1:3] == [70.0] * 2
    assert shown[-20:] == [None] * 20


def test_ranks_are_summed_and_the_fullest_counts() -> None:
    con = database(
        scheduler=[
            report(0, dp=0, running=2, waiting=0, kv_usage=0.25, kv_used_tokens=250),
            report(1, dp=1, running=3, waiting=5, kv_usage=0.75, kv_used_tokens=750),
            report(2, dp=0, running=4, waiting=1, kv_usage=0.5, kv_used_tokens=500),
        ],
        facts=[fact("kv_capacity_tokens", 1000)],
    )
    assert rows_of(con, "SELECT bucket_ts, running, waiting, kv_usage, l1_used_tokens, l1_capacity_tokens FROM timeline ORDER BY 1") == [
        (0, 2, 0, 0.25, 250, 2000),
        (1, 5, 5, 0.75, 1000, 2000),
        (2, 7, 6, 0.75, 1250, 2000),
    ]


def test_only_one_rank_of_a_tensor_parallel_group_reports() -> None:
    con = database(scheduler=[report(0, tp=0, running=2, waiting=1), report(0, tp=1, running=2, waiting=1)])
    assert rows_of(con, LOAD) == [(0, "r1", 2, 1, None)]


def test_a_rank_that_went_silent_is_unknown_and_not_zero() -> None:
    lines = [report(t, dp=d, running=2, waiting=0) for t in range(10) for d in (0, 1)]
    lines += [report(t, dp=0, running=2, waiting=0) for t in range(10, 60)]
    rows = rows_of(database(scheduler=lines), LOAD)
    assert [r[2] for r in rows if r[0] in (5, 38, 45)] == [4, 4, 2]


def test_nothing_of_one_process_is_carried_into_the_next() -> None:
    con = database(
        scheduler=[report(0, running=8, waiting=4, kv_usage=0.9), report(10, run_id="r2", running=0, waiting=0, kv_usage=0.0)],
        events=[event(8, "start", run_id="r2")],
        facts=[fact("kv_capacity_tokens", 1000), fact("kv_capacity_tokens", 500, run_id="r2", ts=at(9))],
    )
    rows = rows_of(
        con, "SELECT bucket_ts, run_id, running, waiting, l1_capacity_tokens FROM timeline WHERE bucket_ts >= '2026-03-10 12:00:07Z'"
    )
    assert rows == [(7, "r1", 8, 4, 1000), (8, None, None, None, None), (9, None, None, None, None), (10, "r2", 0, 0, 500)]


def test_what_was_not_reported_is_null() -> None:
    con = database(scheduler=[report(0, running=2)])
    assert row_of(con, "timeline") | {"bucket_ts": 0.0} == {
        **dict.fromkeys(d[0] for d in con.execute("DESCRIBE timeline").fetchall()),
        "instance": "i", "run_id": "r1", "bucket_ts": 0.0, "bucket_s": 1, "running": 2,
    }  # fmt: skip


def test_retractions_and_first_tokens_stand_in_their_bucket() -> None:
    con = database(
        scheduler=[report(t, running=2, waiting=0) for t in range(4)],
        events=[
            event(1.2, "retraction", tp=0, requests=2, ratio_before=0.1, ratio_after=0.4),
            event(1.3, "retraction", tp=1, requests=2, ratio_before=0.1, ratio_after=0.4),
            event(3, "retraction", tp=0, requests=1, ratio_before=0.3, ratio_after=0.2),
        ],
        requests=[request(2, ttft_s=0.5), request(2.5, ttft_s=1.5), request(2.7, status="unfinished")],
    )
    sql = "SELECT bucket_ts, retraction_events, retracted, new_token_ratio, ttft_p50_s, ttft_p99_s, ttft_n, ttft_source"
    sql += " FROM timeline ORDER BY 1"
    assert rows_of(con, sql) == [
        (0, None, None, None, None, None, None, None),
        (1, 1, 2, 0.4, None, None, None, None),
        (2, None, None, None, 1.5, None, 3, "client"),
        (3, 1, 1, 0.2, None, None, None, None),
    ]


def test_buckets_are_longer_where_the_trace_is() -> None:
    con = database(scheduler=[report(0, running=1), report(7200, running=1)])
    assert rows_of(con, "SELECT bucket_s FROM _bucket") == [(5,)]
    con = database(scheduler=[stats(0, running=1), stats(86400 * 10, running=1)])
    ((bucket,),) = rows_of(con, "SELECT bucket_s FROM _bucket")
    assert bucket % 60 == 0
    assert rows_of(con, "SELECT count(*) <= 2000 FROM _grid") == [(True,)]


def test_buckets_are_cut_and_never_rounded() -> None:
    con = database(scheduler=[report(t, running=int(t)) for t in (4.9, 5, 9.9, 7200)])
    rows = rows_of(con, "SELECT bucket_ts, running FROM timeline WHERE bucket_ts < '2026-03-10 12:00:10Z'")
    assert rows == [(0, 4), (5, 9)]


def test_since_and_until_bound_every_row() -> None:
    con = database(scheduler=[report(t, running=t, waiting=0) for t in range(10)], since=at(3), until=at(5))
    assert [r[2] for r in rows_of(con, LOAD)] == [3, 4, 5]
    assert row_of(con, "peaks")["running"] == 5


def test_the_first_decode_line_after_a_silence_has_no_throughput() -> None:
    """It divides the tokens of a moment by the whole idle time."""
    lines = [report(t, running=4, waiting=0, gen_tps=200.0) for t in range(5)]
    lines += [report(100, kind="prefill", new_seqs=1, new_tokens=10, running=0, waiting=0)]
    lines += [report(101, running=1, waiting=0, gen_tps=0.4), report(102, running=1, waiting=0, gen_tps=50.0)]
    found = rows_of(database(scheduler=lines), "SELECT gen_tps_now FROM _report WHERE kind = 'decode' ORDER BY ts")
    assert found == [(None,), (200.0,), (200.0,), (200.0,), (200.0,), (None,), (50.0,)]
