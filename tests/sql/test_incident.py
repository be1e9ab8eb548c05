"""`incident`: when queues and slow first tokens begin and end, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from needed import Database
from sql_case import Row, cumulative, database, histogram, metrics, report, request, rows_of, series

WINDOW = "SELECT incident, start_ts, end_ts FROM incident WHERE broke ORDER BY incident"
BOUNDS = (0.1, 0.5, 1, 2, 5, 10, 20, 40)


def queue(*spells: tuple[int, int, int], end: int = 600, **columns: Any) -> list[dict[str, Any]]:
    """A report every 10 s; in each spell (from, to, waiting) that many wait, of whom one is admitted per report."""

    def waiting(t: int) -> int:
        return max((n for start, stop, n in spells if start <= t < stop), default=0)

    return [
        report(t, kind="prefill", new_seqs=1, new_tokens=50, running=4, waiting=waiting(t), kv_usage=0.95, **columns)
        for t in range(0, end, 10)
    ]


def steady(start: int, end: int, ttft_s: float, every: int = 2) -> list[dict[str, Any]]:
    return [request(t, ttft_s=ttft_s) for t in range(start, end, every)]


def broke_by(con: Database) -> list[tuple[Any, ...]]:
    return rows_of(con, "SELECT queue_broke, ttft_broke, throughput_broke FROM incident ORDER BY incident")


def test_a_queue_alone_is_one() -> None:
    con = database(scheduler=queue((100, 200, 10)))
    assert rows_of(con, WINDOW) == [(1, 100, 200)]
    assert broke_by(con) == [(True, False, False)]


def test_first_tokens_alone_are_one() -> None:
    """From the arrival of the first slow request to the first token of the last."""
    con = database(requests=steady(0, 200, 0.1) + steady(200, 260, 8.0) + steady(260, 600, 0.1))
    assert rows_of(con, WINDOW) == [(1, 200, 266)]
    assert broke_by(con) == [(False, True, False)]
    assert rows_of(con, "SELECT slow_n, excess_request_s FROM incident") == [(30, pytest.approx(30 * 7.9))]


def test_a_queue_and_its_first_tokens_are_one_incident() -> None:
    con = database(scheduler=queue((200, 260, 10)), requests=steady(0, 190, 0.1) + steady(190, 260, 8.0) + steady(270, 600, 0.1))
    assert rows_of(con, WINDOW) == [(1, 190, 266)]
    assert broke_by(con) == [(True, True, False)]


def test_a_blip_is_none() -> None:
    """Two that wait for one report, and two slow requests, in ten minutes."""
    requests = steady(0, 300, 0.1) + [request(t, ttft_s=9.0) for t in (300, 301)] + steady(302, 600, 0.1)
    con = database(scheduler=queue((300, 310, 1)), requests=requests)
    assert rows_of(con, WINDOW) == []
    assert rows_of(con, "SELECT incident, broke, start_ts FROM incident") == [(1, False, 300)]


def test_the_worst_of_several_is_the_first() -> None:
    con = database(scheduler=queue((100, 150, 10), (500, 700, 30), (1000, 1100, 5), end=1300))
    assert rows_of(con, WINDOW) == [(1, 500, 700), (2, 100, 150), (3, 1000, 1100)]
    assert rows_of(con, "SELECT incident, waiting_peak, waiting_request_s FROM incident ORDER BY incident") == [
        (1, 30, 6000), (2, 10, 500), (3, 5, 500),
    ]  # fmt: skip


@pytest.mark.parametrize(("gap_s", "incidents"), [(100, 1), (200, 2)])
def test_a_short_gap_does_not_end_one(gap_s: int, incidents: int) -> None:
    con = database(scheduler=queue((100, 200, 10), (200 + gap_s, 300 + gap_s, 10), end=800))
    assert len(rows_of(con, WINDOW)) == incidents
    con = database(requests=steady(0, 700, 0.1) + steady(100, 200, 9.0) + steady(209 + gap_s, 309 + gap_s, 9.0))
    assert len(rows_of(con, WINDOW)) == incidents


def test_blips_around_it_are_left_out() -> None:
    """One request waits for a moment a minute before and a minute after: the queue began and ended between."""
    con = database(scheduler=queue((100, 110, 1), (160, 260, 10), (320, 330, 1)))
    assert rows_of(con, WINDOW) == [(1, 160, 260)]
    assert rows_of(con, "SELECT waiting_request_s FROM incident") == [(1000,)]
    early = [request(t, ttft_s=3.0) for t in (100, 300)]
    con = database(requests=steady(0, 600, 0.1) + early + steady(200, 240, 9.0))
    assert rows_of(con, WINDOW) == [(1, 200, 247)]


def test_a_queue_of_many_small_pieces_is_kept_whole() -> None:
    """Each piece alone is too little to begin with."""
    con = database(scheduler=queue(*[(t, t + 10, 1) for t in range(100, 400, 30)]))
    assert rows_of(con, WINDOW) == [(1, 100, 380)]


def test_a_capture_that_is_bad_all_along() -> None:
    """No time in it shows what is usual."""
    con = database(requests=steady(0, 300, 12.0))
    assert rows_of(con, WINDOW) == [(1, 0, 310)]
    assert rows_of(con, "SELECT usual_s, slow_s FROM _ttft_usual") == [(12, 2)]


def test_a_short_capture_shows_its_quiet_beginning() -> None:
    """One and a half minutes, of which the last minute is bad: minutes alone would hide the beginning."""
    con = database(requests=steady(0, 30, 0.1, 1) + steady(30, 90, 20.0, 1))
    assert rows_of(con, WINDOW) == [(1, 30, 109)]
    assert rows_of(con, "SELECT usual_s FROM _ttft_usual") == [(0.1,)]


def test_where_first_tokens_are_always_slow_a_rise_is_the_incident() -> None:
    """Long prompts take 5 s each: 8 s is still usual, 20 s is not."""
    usual = steady(0, 200, 5.0) + steady(200, 300, 8.0) + steady(400, 600, 5.0)
    con = database(requests=usual + steady(300, 400, 20.0))
    assert rows_of(con, WINDOW) == [(1, 300, 418)]
    assert rows_of(con, "SELECT slow_s FROM _ttft_usual") == [(10,)]


def test_requests_that_never_got_a_first_token_count() -> None:
    """Pending at the end: as long as the capture lasted after their arrival."""
    pending = [request(t, status="unfinished") for t in range(400, 500, 5)]
    con = database(requests=steady(0, 400, 0.1) + pending + [request(600, ttft_s=0.1)])
    assert rows_of(con, WINDOW) == [(1, 400, 600)]
    assert rows_of(con, "SELECT slow_n FROM incident") == [(20,)]


def test_histograms_alone_tell_of_first_tokens() -> None:
    """Read every 20 s; from 200 to 300 s first tokens took 9 s, at the beginning and end 0.3 s."""
    values: list[float] = []
    scrapes = []
    for t in range(0, 600, 20):
        scrapes.append((t, cumulative(values, BOUNDS)))
        values += [9.0 if 200 <= t < 300 else 0.3] * 10
    tables = metrics(histogram("ttft_s", scrapes), series("running_requests", [(t, 4) for t in range(0, 600, 20)]))
    con = database(**tables)
    ((number, start, end),) = rows_of(con, WINDOW)
    assert number == 1
    assert 200 <= start <= 220
    assert 300 <= end <= 320
    assert broke_by(con) == [(False, True, False)]


def test_each_instance_has_its_own() -> None:
    other = [{**row, "instance": "j"} for row in queue((300, 400, 20))]
    con = database(scheduler=queue((100, 200, 10)) + other)
    assert rows_of(con, "SELECT instance, incident, start_ts, end_ts FROM incident ORDER BY instance") == [
        ("i", 1, 100, 200), ("j", 1, 300, 400),
    ]  # fmt: skip
    calm = [{**row, "instance": "j"} for row in queue()]
    con = database(scheduler=queue((100, 200, 10)) + calm)
    assert rows_of(con, "SELECT instance, broke, start_ts FROM incident ORDER BY instance") == [("i", True, 100), ("j", False, None)]


def decoding(start: int, end: int, gen: float, running: int = 8) -> list[Row]:
    """Reports that tell neither waiting nor usage."""
    return [report(t, running=running, gen_tps=gen) for t in range(start, end, 10)]


def test_without_ttft_and_queue_a_collapse_of_throughput_is_one() -> None:
    con = database(scheduler=decoding(0, 300, 800) + decoding(300, 400, 80) + decoding(400, 600, 800))
    assert rows_of(con, WINDOW) == [(1, 300, 400)]
    assert broke_by(con) == [(False, False, True)]


def test_less_to_do_is_no_collapse() -> None:
    calm = decoding(0, 300, 800)
    assert rows_of(database(scheduler=calm + decoding(300, 400, 80, running=1)), WINDOW) == []
    assert rows_of(database(scheduler=calm + decoding(300, 330, 80) + decoding(330, 600, 800)), WINDOW) == []


def test_where_waiting_was_told_throughput_says_nothing() -> None:
    told = [{**row, "waiting": 0} for row in decoding(0, 300, 800) + decoding(300, 400, 80) + decoding(400, 600, 800)]
    assert rows_of(database(scheduler=told), WINDOW) == []
