"""`q09_cache`: prefix hits outside and inside the incident."""

from __future__ import annotations

from sql_case import database, metrics, report, row_of, series, stats


def test_counted_by_tokens() -> None:
    def prefill(t: float, waiting: int, cached: int, new: int) -> dict[str, object]:
        return report(t, kind="prefill", running=1, waiting=waiting, new_seqs=1, cached_tokens=cached, new_tokens=new, kv_usage=0.9)

    con = database(scheduler=[prefill(0, 0, 80, 20), prefill(100, 5, 10, 90), prefill(130, 5, 20, 80), prefill(160, 0, 90, 10)])
    row = row_of(con, "q09_cache")
    assert (row["counted_outside"], row["counted_inside"]) == (0.8, 0.4)


def test_reported_by_the_engine() -> None:
    con = database(
        scheduler=[
            stats(0, running=1, waiting=0, prefix_hit_share=0.8),
            stats(10, running=1, waiting=9, prefix_hit_share=0.5),
            stats(20, running=1, waiting=9, prefix_hit_share=0.3),
            stats(30, running=1, waiting=0, prefix_hit_share=0.2),
        ]
    )
    row = row_of(con, "q09_cache")
    assert (row["reported_before"], row["reported_inside"], row["reported_last"]) == (0.8, 0.2, 0.2)


def test_counters_of_the_metrics_tell_tokens() -> None:
    queue = {"running_requests": [(t, 4) for t in range(0, 60, 10)], "waiting_requests": [(t, 9 * (t >= 30)) for t in range(0, 60, 10)]}
    hits = [(t, min(t, 30) * 8 + max(0, t - 30) * 2) for t in range(0, 60, 10)]
    con = database(
        **metrics(
            *(series(name, points) for name, points in queue.items()),
            series("prefix_hit_tokens_total", hits),
            series("prefix_query_tokens_total", [(t, 10 * t) for t in range(0, 60, 10)]),
        )
    )
    row = row_of(con, "q09_cache")
    assert (row["counted_outside"], row["counted_inside"]) == (0.8, 0.2)  # the scrape at 30 tells of the ten seconds before it
    assert (row["reported_before"], row["reported_inside"], row["reported_last"]) == (0.8, 0.2, 0.2)


def test_sglang_counts_what_it_computed_and_what_it_found() -> None:
    queue = {"running_requests": [(t, 4) for t in range(0, 60, 10)], "waiting_requests": [(t, 9 * (t >= 30)) for t in range(0, 60, 10)]}
    con = database(
        **metrics(
            *(series(name, points) for name, points in queue.items()),
            series("prefill_cached_tokens_total", [(t, min(t, 30) * 8 + max(0, t - 30) * 2) for t in range(0, 60, 10)]),
            series("prefill_computed_tokens_total", [(t, min(t, 30) * 2 + max(0, t - 30) * 8) for t in range(0, 60, 10)]),
        )
    )
    row = row_of(con, "q09_cache")
    assert (row["counted_outside"], row["counted_inside"]) == (0.8, 0.2)
