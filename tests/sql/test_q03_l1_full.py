"""`q03_l1_full`: the pool's use over the capture and while requests waited."""

from __future__ import annotations

from sql_case import at, database, fact, metrics, report, row_of, series


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


def test_it_says_which_pool_was_the_fullest() -> None:
    hybrid = [report(t, running=1, waiting=1, kv_usage=0.06, mamba_usage=1.0) for t in range(3)]
    row = row_of(database(scheduler=hybrid), "q03_l1_full")
    assert (row["fullest_pool"], row["kv_usage_max"], row["mamba_usage_max"], row["swa_usage_max"]) == ("mamba", 0.06, 1.0, None)
    other = [report(t, running=1, waiting=1, kv_usage=1.0, swa_usage=0.06) for t in range(3)]
    assert row_of(database(scheduler=other), "q03_l1_full")["fullest_pool"] == "full attention"
    # with one pool there is nothing to tell
    assert row_of(database(scheduler=[report(0, running=1, waiting=1, kv_usage=1.0)]), "q03_l1_full")["fullest_pool"] is None


def test_the_three_states_over_the_incident() -> None:
    def states(points: list[tuple[float, int, int, int]]) -> dict[str, list[dict[str, object]]]:
        return metrics(
            series("kv_used_tokens", [(t, u) for t, u, _, _ in points]),
            series("kv_evictable_tokens", [(t, e) for t, _, e, _ in points]),
            series("kv_available_tokens", [(t, a) for t, _, _, a in points]),
            series("kv_usage", [(t, u / (u + e + a)) for t, u, e, a in points]),
            series("waiting_requests", [(t, 0 if t < 10 else 9) for t, *_ in points]),
            series("running_requests", [(t, 4) for t, *_ in points]),
        )

    row = row_of(database(**states([(0, 100, 100, 800), (10, 900, 80, 20), (20, 960, 40, 0), (30, 940, 60, 0)])), "q03_l1_full")
    assert (row["used_at_max_tokens"], row["evictable_at_max_tokens"], row["available_at_max_tokens"]) == (960, 40, 0)
    assert (row["used_mean_tokens"], row["evictable_mean_tokens"], row["available_mean_tokens"]) == (933, 60, 7)


def test_tokens_at_a_full_pool_that_nobody_waits_for() -> None:
    roomy = [report(t, running=4, waiting=0, kv_usage=0.5, gen_tps=400.0) for t in range(20)]
    full = [report(t, running=4, waiting=0, kv_usage=0.97, gen_tps=40.0) for t in range(20, 120)]
    row = row_of(database(scheduler=[*roomy, *full]), "q03_l1_full")
    assert (row["token_base_s"], row["token_full_s"], row["token_full_for_s"]) == (0.01, 0.1, 100)
