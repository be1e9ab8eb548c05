"""`_wait`: how long a request that joins the queue waits, by hand."""

from __future__ import annotations

from sql_case import database, fact, report, rows_of, stats

SQL = "SELECT ts, wait_est_s, wait_min_s FROM _wait ORDER BY ts"


def prefill(t: float, admitted: int, waiting: int, tokens: int = 100, **columns: object) -> dict[str, object]:
    return report(t, kind="prefill", new_seqs=admitted, new_tokens=tokens, running=4, waiting=waiting, kv_usage=0.5, **columns)


def test_first_come_first_served() -> None:
    """Two wait at 0; one is admitted at 10, the next at 20: the second of them waits 20 s."""
    con = database(scheduler=[prefill(0, 1, 2), prefill(10, 1, 1), prefill(20, 1, 0), prefill(30, 1, 0)])
    assert rows_of(con, SQL) == [(0, 20, None), (10, 10, None), (20, 0, None), (30, 0, None)]


def test_a_continued_chunk_is_no_admission() -> None:
    con = database(
        scheduler=[prefill(0, 1, 1, 1000), prefill(10, 1, 1, 1000), prefill(20, 1, 1, 300), prefill(30, 1, 0, 1000)],
        facts=[fact("chunked_prefill_size", 1000)],
    )
    assert rows_of(con, "SELECT ts, admitted, wait_est_s FROM _wait ORDER BY ts") == [(0, 1, 30), (10, 0, 20), (20, 0, 10), (30, 1, 0)]


def test_an_empty_queue_ends_the_wait_sooner() -> None:
    """Requests can leave it without having been admitted."""
    con = database(scheduler=[prefill(0, 1, 5), report(10, running=4, waiting=0, kv_usage=0.5), prefill(20, 1, 0)])
    assert rows_of(con, SQL)[0] == (0, 10, None)


def test_a_queue_that_outlasts_the_capture_has_a_lower_bound() -> None:
    con = database(scheduler=[prefill(0, 1, 9), prefill(10, 1, 8), prefill(20, 1, 7)])
    assert rows_of(con, SQL) == [(0, None, 20), (10, None, 10), (20, None, 0)]
    assert rows_of(con, "SELECT broke, wait_est_peak_s FROM incident") == [(True, None)]


def test_token_rates_stand_for_admissions_of_vllm() -> None:
    """8 running hold 800 tokens: 100 each. At 50 prompt tokens/s and 100 generated tokens/s a prompt is 100 / (1 + 1) = 50, so
    one request a second is admitted: ten that wait take 10 s."""
    con = database(
        scheduler=[stats(t, running=8, waiting=10, kv_usage=0.5, prompt_tps=50, gen_tps=100) for t in range(0, 50, 10)],
        facts=[fact("kv_capacity_tokens", 1600, engine="vllm")],
    )
    assert rows_of(con, "SELECT ts, admitted, wait_est_s FROM _wait ORDER BY ts")[:4] == [
        (0, 0, 10),
        (10, 10, 10),
        (20, 10, 10),
        (30, 10, 10),
    ]


def test_without_a_capacity_the_wait_of_vllm_is_unknown() -> None:
    con = database(scheduler=[stats(t, running=8, waiting=10, kv_usage=0.5, prompt_tps=50, gen_tps=100) for t in range(0, 50, 10)])
    assert rows_of(con, "SELECT DISTINCT wait_est_s, wait_min_s FROM _wait") == [(None, None)]
    assert rows_of(con, "SELECT broke FROM incident") == [(True,)]  # 400 request-seconds of waiting all the same


def test_a_rank_without_a_queue_does_not_hide_anothers() -> None:
    lines = [
        stats(t, dp=d, running=8, waiting=10 * (1 - d), kv_usage=0.5, prompt_tps=50, gen_tps=100) for t in range(0, 50, 10) for d in (0, 1)
    ]
    assert rows_of(database(scheduler=lines), "SELECT broke FROM incident") == [(True,)]
