"""`q06_retraction`: retractions and preemptions, and whether this engine would print them."""

from __future__ import annotations

from sql_case import database, event, report, row_of, stats


def test_events_are_merged_over_ranks() -> None:
    lost = [event(5, "retraction", tp=tp, requests=2, tokens=90, ratio_before=0.1, ratio_after=0.4) for tp in range(8)]
    con = database(scheduler=[report(t, running=4, waiting=5, kv_usage=0.95) for t in range(10)], events=lost)
    row = row_of(con, "q06_retraction")
    assert (row["visible"], row["retraction_events"], row["retracted_requests"], row["tokens_gained"]) == ("each", 1, 2, 90)
    assert (row["first_ts"], row["ratio_min"], row["ratio_max"], row["events_in_incident"]) == (5, 0.1, 0.4, 1)
    assert row["source"] == "server.log:1"


def test_v0_prints_some_and_v1_none() -> None:
    con = database(
        scheduler=[stats(0, running=4, waiting=0, swapped=0)],
        events=[event(n, "preemption", engine="vllm", total=50 * n + 1) for n in range(3)],
    )
    row = row_of(con, "q06_retraction")
    assert (row["visible"], row["preemptions"], row["retraction_events"]) == ("every fiftieth", 101, 0)
    row = row_of(database(scheduler=[stats(0, running=4, waiting=0)]), "q06_retraction")
    assert (row["visible"], row["preemptions"]) == ("never", None)


def test_the_source_is_the_first_line() -> None:
    lost = [event(t, "retraction", requests=1, record=record) for t, record in ((5, 90), (9, 100))]
    assert row_of(database(scheduler=[report(0, running=1)], events=lost), "q06_retraction")["source"] == "server.log:90"
