"""`signal_retract` and `q06_retraction`: each retraction and preemption once, from counters where there are any."""

from __future__ import annotations

from typing import Any

import pytest
from sql_case import Series, at, database, event, metrics, report, row_of, rows_of, series, stats

SQL = "SELECT bucket_ts, retracted, preempted, retraction_events, retract_source FROM signal_retract ORDER BY bucket_ts"
CUMULATIVE = "retracted_requests_cumulative_gauge"


def counted(name: str, points: list[tuple[float, float]], **columns: Any) -> Series:
    return series(name, points, **columns)


def retraction(t: float, requests: int = 1, **columns: Any) -> dict[str, Any]:
    return event(t, "retraction", requests=requests, ratio_before=0.1, ratio_after=0.5, **columns)


def test_counters_count_what_events_only_tell_of() -> None:
    con = database(events=[retraction(7, 4)], **metrics(counted("retracted_requests_total", [(0, 10), (10, 15), (20, 15)])))
    assert rows_of(con, SQL) == [(7, None, None, 1, "log"), (10, 5, None, 0, "counter")]
    assert rows_of(con, "SELECT new_token_ratio FROM signal_retract ORDER BY bucket_ts") == [(0.5,), (None,)]
    row = row_of(con, "q06_retraction")
    assert (row["visible"], row["retracted_requests"], row["retraction_events"], row["first_ts"], row["last_ts"]) == (
        "counter",
        5,
        1,
        7,
        10,
    )


def test_events_count_outside_the_time_of_the_counters() -> None:
    con = database(
        events=[retraction(t, 2) for t in (5, 105, 205)],
        **metrics(counted("retracted_requests_total", [(100, 10), (110, 12), (120, 12)])),
    )
    assert rows_of(con, SQL) == [
        (5, 2, None, 1, "log"),
        (105, None, None, 1, "log"),
        (110, 2, None, 0, "counter"),
        (205, 2, None, 1, "log"),
    ]
    assert row_of(con, "q06_retraction")["retracted_requests"] == 6


def test_each_run_has_its_own_counters() -> None:
    con = database(
        events=[retraction(5, 2), retraction(105, 3, run_id="r2")],
        **metrics(counted("retracted_requests_total", [(100, 1), (110, 4)], run_id="r2")),
    )
    assert row_of(con, "q06_retraction")["retracted_requests"] == 5


def test_a_counter_that_did_not_move_says_no() -> None:
    con = database(scheduler=[stats(0, running=1)], **metrics(counted("preemptions_total", [(0, 7), (10, 7)])))
    row = row_of(con, "q06_retraction")
    assert (row["visible"], row["preemptions"], row["first_ts"], row["events_in_incident"]) == ("counter", 0, None, 0)
    assert rows_of(con, SQL) == []


def test_one_sample_of_a_counter_says_nothing() -> None:
    con = database(scheduler=[stats(0, running=1)], **metrics(counted("preemptions_total", [(0, 7)])))
    row = row_of(con, "q06_retraction")
    assert (row["visible"], row["preemptions"]) == ("never", None)


def test_running_counts_of_v0_give_way_to_the_counter() -> None:
    lines = [event(t, "preemption", engine="vllm", total=total) for t, total in ((5, 1), (15, 51))]
    con = database(
        scheduler=[stats(0, running=1, swapped=0)], events=lines, **metrics(counted("preemptions_total", [(0, 0), (10, 40), (20, 70)]))
    )
    assert rows_of(con, SQL) == [(10, None, 40, 0, "counter"), (20, None, 30, 0, "counter")]
    assert row_of(con, "q06_retraction")["preemptions"] == 70


def test_a_counter_of_preemptions_is_none_of_retractions() -> None:
    con = database(events=[retraction(5, 2)], **metrics(counted("preemptions_total", [(0, 0), (10, 3)])))
    row = row_of(con, "q06_retraction")
    assert (row["retracted_requests"], row["preemptions"]) == (2, 3)


def test_a_counter_that_appears_with_the_first_retraction_counts_it() -> None:
    con = database(
        **metrics(
            series("running_requests", [(t, 9) for t in range(0, 60, 10)]),
            counted("retracted_requests_total", [(30, 4), (40, 6), (50, 6)]),
        )
    )
    assert rows_of(con, SQL) == [(30, 4, None, 0, "counter"), (40, 2, None, 0, "counter")]


def test_a_gauge_that_is_overwritten_proves_one_and_counts_none() -> None:
    con = database(**metrics(counted("retracted_requests_gauge", [(0, 0), (10, 3), (20, 0)])))
    row = row_of(con, "q06_retraction")
    assert (row["visible"], row["gauge_max"], row["retracted_requests"]) == ("gauge", 3, None)
    assert rows_of(con, SQL) == []
    con = database(**metrics(counted("retracted_requests_gauge", [(0, 0), (10, 3), (20, 0)])), since=at(15))
    assert row_of(con, "q06_retraction")["gauge_max"] == 0


def test_a_gauge_that_only_grows_counts() -> None:
    """With a reset between: 5 more, then 2 of a new process."""
    con = database(events=[retraction(5, 9)], **metrics(counted(CUMULATIVE, [(0, 20), (10, 25), (20, 2), (30, 2)])))
    assert rows_of(con, SQL) == [(5, None, None, 1, "log"), (10, 5, None, 0, "counter"), (20, 2, None, 0, "counter")]
    row = row_of(con, "q06_retraction")
    assert (row["visible"], row["retracted_requests"]) == ("counter", 7)


def test_a_counter_goes_before_that_gauge() -> None:
    con = database(**metrics(counted(CUMULATIVE, [(0, 0), (10, 5)]), counted("retracted_requests_total", [(0, 0), (10, 6)])))
    assert row_of(con, "q06_retraction")["retracted_requests"] == 6


def test_ranks_add_up() -> None:
    con = database(**metrics(*(counted("retracted_requests_total", [(0, 0), (10, 1 + dp)], labels={"dp_rank": dp}) for dp in range(3))))
    assert rows_of(con, SQL) == [(10, 6, None, 0, "counter")]


def test_tokens_of_retracted_requests_are_counted() -> None:
    names = ("retracted_requests_total", "retracted_input_tokens_total", "retracted_output_tokens_total")
    con = database(**metrics(*(counted(n, [(0, 0), (10, 10**i)]) for i, n in enumerate(names))))
    row = row_of(con, "q06_retraction")
    assert (row["retracted_requests"], row["retracted_tokens"]) == (1, 110)


def test_retractions_are_placed_in_the_incident_by_either() -> None:
    queue = [report(t, running=4, waiting=9 * (50 <= t < 150), kv_usage=0.95) for t in range(300)]
    counter = counted("retracted_requests_total", [(0, 0), (40, 0), (60, 2), (80, 3), (200, 3), (220, 4)])
    assert row_of(database(scheduler=queue, **metrics(counter)), "q06_retraction")["events_in_incident"] == 2
    assert row_of(database(scheduler=queue, events=[retraction(60), retraction(250)]), "q06_retraction")["events_in_incident"] == 1


def test_v1_without_metrics_tells_nothing() -> None:
    row = row_of(database(scheduler=[stats(0, running=4, waiting=0)]), "q06_retraction")
    assert (row["visible"], row["preemptions"], row["retracted_requests"]) == ("never", None, None)


@pytest.mark.parametrize("source", ["counter", "log"])
def test_the_source_is_a_line(source: str) -> None:
    given: dict[str, Any] = (
        metrics(counted("retracted_requests_total", [(0, 0), (10, 1)], record=12))
        if source == "counter"
        else {"events": [retraction(5, record=12)]}
    )
    assert row_of(database(scheduler=[report(0, running=1)], **given), "q06_retraction")["source"] == "server.log:12"
