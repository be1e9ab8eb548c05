"""`request_best`: the requests of one observer, and those still pending."""

from __future__ import annotations

from sql_case import database, request, rows_of


def test_observers_are_never_mixed() -> None:
    con = database(
        requests=[
            request(0, observer="engine", ttft_s=0.1),
            request(0, observer="engine", ttft_s=0.2),
            request(0, observer="client", ttft_s=0.9),
            request(1, observer="client", status="unfinished"),
        ]
    )
    assert rows_of(con, "SELECT observer, ttft_s, censored FROM request_best ORDER BY arrival_ts") == [
        ("client", 0.9, False), ("client", None, True),
    ]  # fmt: skip


def test_an_observer_without_latencies_is_not_the_best() -> None:
    con = database(requests=[request(0, observer="client"), request(0, observer="frontend", ttft_s=0.4)])
    assert rows_of(con, "SELECT observer, ttft_s FROM request_best") == [("frontend", 0.4)]
