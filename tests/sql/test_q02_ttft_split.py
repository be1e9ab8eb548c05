"""`q02_ttft_split`: the queue's part of TTFT, from requests or as an estimate."""

from __future__ import annotations

from sql_case import database, metrics, report, request, row_of, series

QUEUE = [report(t, kind="prefill", new_seqs=1, new_tokens=100, running=4, waiting=10, kv_usage=0.95) for t in range(0, 60, 2)]


def test_parts_of_requests_inside_the_incident() -> None:
    requests = [request(t, ttft_s=6.0, queue_s=float(t)) for t in (2, 4, 6)] + [request(900, ttft_s=9.0, queue_s=9.0)]
    row = row_of(database(scheduler=QUEUE, requests=requests), "q02_ttft_split")
    assert (row["requests_with_queue"], row["queue_p50_s"], row["after_queue_p50_s"]) == (3, 4, 2)


def test_without_requests_the_estimate_alone() -> None:
    row = row_of(database(scheduler=QUEUE), "q02_ttft_split")
    assert (row["requests_with_queue"], row["queue_p50_s"], row["queue_est_p50_s"]) == (0, None, 20)


def test_histograms_tell_means_of_the_incident() -> None:
    """Read each 20 s: what they rose by while requests waited, over all ranks."""
    queue = [report(t, running=4, waiting=10 * (40 <= t < 100), kv_usage=0.9) for t in range(0, 200, 2)]
    times = range(0, 200, 20)

    def grown(inside: float, outside: float) -> list[tuple[float, float]]:
        return [(t, inside * max(0, min(t, 100) - 40) + outside * (min(t, 40) + max(0, t - 100))) for t in times]

    given = [
        series(name, grown(*rates), part=part, labels={"engine": rank})
        for rank in (0, 1)
        for name, part, rates in (
            ("ttft_s", "sum", (30, 1)), ("ttft_s", "count", (1, 1)), ("queue_s", "sum", (28, 0)), ("queue_s", "count", (1, 1)),
            ("prefill_s", "sum", (2, 1)), ("prefill_s", "count", (1, 1)), ("l2_load_s", "sum", (1, 1)), ("l2_load_s", "count", (4, 1)),
        )
    ]  # fmt: skip
    row = row_of(database(scheduler=queue, **metrics(*given)), "q02_ttft_split")
    assert (row["ttft_mean_s"], row["queue_mean_s"], row["prefill_mean_s"], row["l2_load_mean_s"]) == (30, 28, 2, 0.25)
    assert (row["histogram_n"], row["queue_p50_s"]) == (120, None)
