"""`event`: one row for what several ranks print of the same event."""

from __future__ import annotations

import pytest
from sql_case import at, database, event, rows_of

SQL = "SELECT ts, dp, requests, reported_by, record FROM event ORDER BY record"


def lost(t: float, **columns: object) -> dict[str, object]:
    return event(t, "retraction", requests=1, ratio_before=0.1, ratio_after=0.5, **columns)


def test_ranks_that_print_the_same_within_two_seconds_are_one() -> None:
    con = database(events=[lost(0, tp=0, dp=0), lost(0.5, tp=1, dp=0), lost(1.9, tp=2, dp=0)])
    assert rows_of(con, SQL) == [(0, 0, 1, 3, 1)]


def test_data_parallel_ranks_retract_on_their_own() -> None:
    con = database(events=[lost(0, tp=0, dp=0), lost(0, tp=1, dp=0), lost(0, tp=0, dp=1), lost(0, tp=1, dp=1)])
    assert rows_of(con, SQL) == [(0, 0, 1, 2, 1), (0, 1, 1, 2, 3)]


def test_a_second_line_of_one_rank_is_a_second_event() -> None:
    con = database(events=[lost(0, tp=0), lost(0, tp=1), lost(1, tp=0), lost(1, tp=1)])
    assert rows_of(con, SQL) == [(0, None, 1, 2, 1), (1, None, 1, 2, 3)]


def test_lines_without_a_rank_are_events_of_their_own() -> None:
    assert len(rows_of(database(events=[lost(0), lost(0)]), SQL)) == 2


def test_other_numbers_are_another_event() -> None:
    con = database(events=[lost(0, tp=0), {**lost(0, tp=1), "requests": 2}, {**lost(0, tp=2), "ratio_after": 0.6}])
    assert len(rows_of(con, SQL)) == 3


def test_what_comes_later_is_another_event() -> None:
    assert len(rows_of(database(events=[lost(0, tp=0), lost(2.1, tp=1)]), SQL)) == 2


def test_other_words_or_another_request_are_another_event() -> None:
    con = database(
        events=[
            event(0, "warning", tp=0, text="a"),
            event(0, "warning", tp=1, text="b"),
            event(0, "abort", tp=0, rid="1"),
            event(0, "abort", tp=1, rid="2"),
            event(1, "abort", tp=1, rid="1"),
        ]
    )
    assert rows_of(con, "SELECT kind, coalesce(rid, text), reported_by FROM event ORDER BY 1, 2") == [
        ("abort", "1", 2),
        ("abort", "2", 1),
        ("warning", "a", 1),
        ("warning", "b", 1),
    ]


@pytest.mark.parametrize(
    ("totals", "started", "gained"),
    [
        ([1, 51, 101], True, [1, 50, 50]),
        ([51, 101], True, [51, 50]),  # the first line was lost, the process's beginning was not
        ([401, 451], False, [1, 50]),  # what came before the capture is not the capture's
    ],
)
def test_a_running_count_is_taken_apart(totals: list[int], started: bool, gained: list[int]) -> None:
    lines = [event(10 * n, "preemption", engine="vllm", total=total) for n, total in enumerate(totals, 1)]
    con = database(events=[*([event(0, "start")] if started else []), *lines])
    assert rows_of(con, "SELECT preempted FROM event WHERE kind = 'preemption' ORDER BY ts") == [(g,) for g in gained]


def test_a_count_starts_again_with_the_process() -> None:
    con = database(
        events=[
            event(0, "preemption", engine="vllm", total=101),
            event(5, "start", engine="vllm", run_id="r2"),
            event(9, "preemption", engine="vllm", total=1, run_id="r2"),
        ]
    )
    assert rows_of(con, "SELECT run_id, preempted FROM event WHERE kind = 'preemption' ORDER BY ts") == [("r1", 1), ("r2", 1)]


def test_a_window_does_not_count_what_came_before_it() -> None:
    lines = [event(0, "start", engine="vllm"), *(event(10 * n, "preemption", engine="vllm", total=50 * n + 1) for n in range(5))]
    con = database(events=lines, since=at(25))
    assert rows_of(con, "SELECT sum(preempted) FROM event") == [(100,)]
