"""`q02_ttft_split`: the queue's part of TTFT, from requests or as an estimate."""

from __future__ import annotations

from sql_case import database, report, request, row_of

QUEUE = [report(t, kind="prefill", new_seqs=1, new_tokens=100, running=4, waiting=10, kv_usage=0.95) for t in range(0, 60, 2)]


def test_parts_of_requests_inside_the_incident() -> None:
    requests = [request(t, ttft_s=6.0, queue_s=float(t)) for t in (2, 4, 6)] + [request(900, ttft_s=9.0, queue_s=9.0)]
    row = row_of(database(scheduler=QUEUE, requests=requests), "q02_ttft_split")
    assert (row["requests_with_queue"], row["queue_p50_s"], row["after_queue_p50_s"]) == (3, 4, 2)


def test_without_requests_the_estimate_alone() -> None:
    row = row_of(database(scheduler=QUEUE), "q02_ttft_split")
    assert (row["requests_with_queue"], row["queue_p50_s"], row["queue_est_p50_s"]) == (0, None, 20)
