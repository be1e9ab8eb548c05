"""`q01_ttft`: TTFT from requests, and the estimated wait in the queue, which is no TTFT."""

from __future__ import annotations

from sql_case import database, report, request, row_of

QUEUE = [report(t, kind="prefill", new_seqs=1, new_tokens=100, running=4, waiting=10, kv_usage=0.95) for t in range(0, 60, 2)]
QUEUE += [report(60, kind="prefill", new_seqs=1, new_tokens=100, running=4, waiting=0, kv_usage=0.95)]


def test_without_requests_only_the_wait_is_known() -> None:
    row = row_of(database(scheduler=QUEUE), "q01_ttft")
    assert (row["start_ts"], row["end_ts"], row["queue_broke"], row["waiting_peak"]) == (0, 60, True, 10)
    assert row["wait_est_peak_s"] == 20  # ten requests at one every 2 s
    assert row["waiting_request_s"] == 600
    assert row["waiting_peak_source"] == "server.log:1"
    assert (row["observer"], row["ttft_n"], row["ttft_p99_s"]) == (None, 0, None)


def test_percentiles_inside_and_outside_the_incident() -> None:
    inside = [request(t, ttft_s=10 + t) for t in range(10)]
    con = database(scheduler=QUEUE, requests=[*inside, request(-30, ttft_s=0.5), request(5, status="unfinished")])
    row = row_of(con, "q01_ttft")
    assert (row["observer"], row["ttft_n"], row["censored_n"]) == ("client", 11, 1)
    assert (row["ttft_p50_inside_s"], row["ttft_p99_outside_s"]) == (15, 0.5)
    assert row["ttft_p99_inside_s"] == float("inf")  # it falls on the one that never got a token


def test_a_short_queue_did_not_break() -> None:
    con = database(scheduler=[report(t, running=4, waiting=int(t == 1), kv_usage=0.5) for t in range(5)])
    assert row_of(con, "q01_ttft")["queue_broke"] is False


def test_a_wait_that_reaches_into_the_incident_is_inside() -> None:
    """It arrived before the queue was seen, and its first token came while others waited."""
    con = database(scheduler=QUEUE, requests=[request(-5, ttft_s=12.0), request(-30, ttft_s=0.5), request(70, ttft_s=0.4)])
    row = row_of(con, "q01_ttft")
    assert (row["ttft_p99_inside_s"], row["ttft_p99_outside_s"]) == (12.0, 0.5)


def test_failed_requests_are_counted() -> None:
    con = database(scheduler=QUEUE, requests=[request(1, ttft_s=1.0), request(2, status="error"), request(3, status="unfinished")])
    row = row_of(con, "q01_ttft")
    assert (row["requests_n"], row["errors_n"], row["censored_n"]) == (3, 1, 1)
