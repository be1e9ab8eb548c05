"""`slow_decode`: seconds per token while nothing waits, only of minutes in which the engine was busy."""

from __future__ import annotations

from sql_case import database, report, request, row_of


def busy(start: int, end: int, running: int, gen: float) -> list[dict[str, object]]:
    return [report(t, running=running, waiting=0, kv_usage=0.2, gen_tps=gen) for t in range(start, end, 3)]


def test_the_same_requests_get_their_tokens_later() -> None:
    con = database(scheduler=busy(0, 120, 8, 800) + busy(120, 300, 8, 80))
    row = row_of(con, "slow_decode")
    assert (row["token_base_s"], row["token_slow_s"], row["running_slow"]) == (0.01, 0.1, 8)
    assert 120 < row["slow_s"] < 180
    assert row["start_ts"] > 120


def test_idle_time_in_a_throughput_is_no_slowness() -> None:
    """SGLang counts from the decode line before: a prefill into an empty batch shows that there was nothing to do."""
    sparse: list[dict[str, object]] = []
    for t in range(200, 900, 20):
        sparse.append(report(t, kind="prefill", new_seqs=1, new_tokens=99, running=0, waiting=0, kv_usage=0.0))
        sparse.append(report(t + 3, running=1, waiting=0, kv_usage=0.1, gen_tps=2.0))
    assert row_of(database(scheduler=busy(0, 120, 8, 800) + sparse), "slow_decode")["slow_s"] is None


def test_a_queue_or_a_full_pool_is_another_matter() -> None:
    waiting = [{**line, "waiting": 5} for line in busy(120, 300, 8, 80)]
    assert row_of(database(scheduler=busy(0, 120, 8, 800) + waiting), "slow_decode")["slow_s"] is None
    full = [{**line, "kv_usage": 0.99} for line in busy(120, 300, 8, 80)]
    assert row_of(database(scheduler=busy(0, 120, 8, 800) + full), "slow_decode")["slow_s"] is None


def test_slower_steps_of_the_same_batch_are_told_from_a_batch_that_grew() -> None:
    same = database(scheduler=busy(0, 120, 8, 800) + busy(120, 300, 8, 80))
    row = row_of(same, "slow_decode")
    assert (row["batch"], row["token_alike_s"]) == ("same", 0.01)
    crowded = database(scheduler=busy(0, 120, 8, 800) + busy(120, 300, 64, 800))
    assert row_of(crowded, "slow_decode")["batch"] == "slower"
    row = row_of(database(scheduler=busy(0, 120, 8, 800) + busy(120, 300, 160, 1600)), "slow_decode")
    assert (row["batch"], row["token_alike_s"], row["running_slow"], row["running_else"]) == ("grew", None, 160, 8)


def test_requests_that_saw_the_same_confirm_it() -> None:
    requests = [request(t, ttft_s=0.1, itl_mean_s=0.1 if t >= 120 else 0.01) for t in range(0, 300, 5)]
    scheduler = busy(0, 120, 8, 800) + busy(120, 300, 8, 80)
    assert row_of(database(scheduler=scheduler, requests=requests), "slow_decode")["confirmed_by"] == "client"
    fast = [request(t, ttft_s=0.1, itl_mean_s=0.01) for t in range(0, 300, 5)]
    assert row_of(database(scheduler=scheduler, requests=fast), "slow_decode")["confirmed_by"] is None


def test_where_reports_have_no_throughput_the_time_between_tokens_tells() -> None:
    mute = [{**line, "gen_tps": None} for line in busy(0, 300, 8, 800)]
    requests = [request(t, ttft_s=0.1, itl_mean_s=0.1 if t >= 120 else 0.01) for t in range(0, 300, 5)]
    row = row_of(database(scheduler=mute, requests=requests), "slow_decode")
    assert (row["slow_source"], row["token_base_s"], row["token_slow_s"]) == ("client", 0.01, 0.1)
    assert row["slow_s"] == 180
    assert row["start_ts"] == 120


def test_slow_tokens_behind_a_queue_are_not_of_decode() -> None:
    waiting = [{**line, "gen_tps": None, "waiting": 5} for line in busy(0, 300, 8, 800)]
    requests = [request(t, ttft_s=0.1, itl_mean_s=0.1 if t >= 120 else 0.01) for t in range(0, 300, 5)]
    con = database(scheduler=waiting, requests=requests)
    assert con.execute("SELECT count(*) FROM slow_decode WHERE slow_s > 0").fetchone() == (0,)
