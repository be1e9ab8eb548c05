"""Percentiles: of histograms as Prometheus takes them, of requests exactly, and never of both at once."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needed import Database
from sql_case import at, cumulative, database, event, histogram, metrics, report, request, row_of, rows_of, series, stats

SGLANG = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
TTFT = "SELECT bucket_ts, ttft_source, ttft_n, ttft_p50_s, ttft_p99_s, ttft_p99_low_s, ttft_p99_high_s FROM signal_ttft ORDER BY 1"


@pytest.fixture(scope="module")
def con() -> Database:
    return database()


def quantile(con: Database, le: list[float], n: list[float], q: float) -> dict[str, float] | None:
    ((found,),) = con.execute(
        "SELECT _quantile($le::DOUBLE[], _cumulative($n::DOUBLE[]), $q::DOUBLE)", {"le": le, "n": n, "q": q}
    ).fetchall()
    return found  # type: ignore[no-any-return]


def of_prometheus(le: list[float], n: list[float], q: float) -> float:
    """`histogram_quantile` by its documentation: linear inside a bucket, from 0 in the first, the last finite bound above all."""
    if not le or not math.isinf(le[-1]) or len(le) < 2:
        return math.nan
    counts = [max(n[: i + 1]) for i in range(len(n))]
    if counts[-1] == 0:
        return math.nan
    rank = q * counts[-1]
    at_bucket = next(i for i, c in enumerate(counts) if c >= rank)
    if at_bucket == len(le) - 1:
        return le[-2]
    low, below = (le[at_bucket - 1], counts[at_bucket - 1]) if at_bucket else (0.0, 0.0)
    return low + (le[at_bucket] - low) * (rank - below) / (counts[at_bucket] - below)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(0.001, 1000), min_size=0, max_size=12, unique=True),
    st.data(),
    st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]),
    st.booleans(),
)
def test_it_is_the_quantile_of_prometheus(con: Database, bounds: list[float], data: st.DataObject, q: float, open_end: bool) -> None:
    le = [*sorted(bounds), *([math.inf] if open_end else [])]
    n = data.draw(st.lists(st.integers(0, 50).map(float), min_size=len(le), max_size=len(le)))
    expected = of_prometheus(le, n, q)
    found = quantile(con, le, n, q)
    if math.isnan(expected):
        assert found is None or found["value"] is None
    else:
        assert found is not None
        assert found["value"] == pytest.approx(expected)
        assert found["low"] <= found["value"] <= found["high"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(0.001, 900), min_size=1, max_size=300), st.sampled_from([0.5, 0.95, 0.99]))
def test_the_true_percentile_lies_within_the_bounds(con: Database, values: list[float], q: float) -> None:
    """Unless it is the one value that ends a bucket's share to the very last: then it may be the next one."""
    counts = cumulative(values, SGLANG)
    found = quantile(con, list(counts), [float(n) for n in counts.values()], q)
    ((exact,),) = con.execute(f"SELECT _percentile(list_sort($values::DOUBLE[]), {q})", {"values": values}).fetchall()
    assert found is not None
    at_the_edge = any(math.isclose(n, q * len(values)) for n in counts.values())
    assert found["low"] <= exact <= found["high"] or at_the_edge


def test_forty_seconds_lie_between_twenty_and_forty(con: Database) -> None:
    counts = cumulative([40.0] * 100, (20, 40, 60))
    assert quantile(con, list(counts), list(counts.values()), 0.99) == {"value": pytest.approx(39.8), "low": 20, "high": 40}
    counts = cumulative([40.1] * 100, (20, 40, 60))
    assert quantile(con, list(counts), list(counts.values()), 0.5) == {"value": 50, "low": 40, "high": 60}


def test_below_the_first_bound_and_above_the_last_one_little_is_known(con: Database) -> None:
    counts = cumulative([0.003] * 9, SGLANG)
    assert quantile(con, list(counts), list(counts.values()), 0.99) == {"value": pytest.approx(0.099), "low": 0, "high": 0.1}
    counts = cumulative([900.0] * 9, SGLANG)
    assert quantile(con, list(counts), list(counts.values()), 0.99) == {"value": 400, "low": 400, "high": math.inf}


def test_one_bucket_or_none_tells_nothing(con: Database) -> None:
    assert quantile(con, [], [], 0.99) is None
    assert quantile(con, [1, 2], [3, 4], 0.99) is None
    assert quantile(con, [1, math.inf], [0, 0], 0.99) is None
    only = quantile(con, [math.inf], [5], 0.99)
    assert only is not None
    assert only["value"] is None


def test_a_torn_scrape_is_put_right(con: Database) -> None:
    assert quantile(con, [1, 2, 4, math.inf], [5, 3, 4, 10], 0.5) == {"value": 1, "low": 0, "high": 1}


def told(*scrapes: tuple[float, list[float]], bounds: tuple[float, ...] = (20, 40, 60), **columns: Any) -> list[dict[str, Any]]:
    """A histogram as the scrapes show it: all observations so far."""
    return histogram("ttft_s", [(t, cumulative(values, bounds)) for t, values in scrapes], **columns)


def test_a_bucket_shows_what_came_in_since_the_scrape_before() -> None:
    con = database(**metrics(told((0, [1.0] * 100), (10, [1.0] * 100 + [50.0] * 10), (20, [1.0] * 100 + [50.0] * 10))))
    assert rows_of(con, TTFT) == [(10, "histogram", 10, 50, 59.8, 40, 60)]


def test_ranks_and_labels_are_one_histogram() -> None:
    parts = [told((0, []), (10, [50.0] * 5 if dp else [10.0] * 95), labels={"engine": dp, "is_streaming": "true"}) for dp in (0, 1)]
    con = database(**metrics(*parts))
    assert rows_of(con, TTFT) == [(10, "histogram", 100, 10.5263, 56, 40, 60)]


def test_bounds_that_not_all_have_are_left_out() -> None:
    """An upgraded server may have others: the percentile lies between bounds that both count."""
    one = told((0, []), (10, [5.0] * 90), bounds=(10, 20, 60), labels={"engine": 0})
    other = told((0, []), (10, [35.0] * 10), bounds=(15, 20, 30, 60), labels={"engine": 1})
    con = database(**metrics(one, other))
    assert rows_of(con, TTFT) == [(10, "histogram", 100, 11.1111, 56, 20, 60)]


def test_bounds_of_two_runs_are_compared_in_all() -> None:
    old = told((0, []), (10, [5.0] * 90), bounds=(10, 60))
    new = told((20, [35.0] * 10), bounds=(20, 30, 60), run_id="r2")
    row = row_of(database(**metrics(old, new)), "q01_ttft")
    assert (row["observer"], row["ttft_n"], row["ttft_p99_low_s"], row["ttft_p99_high_s"]) == ("histogram", 100, 0, 60)


def test_a_bound_that_appears_later_counts_from_then_on() -> None:
    full = told((0, [5.0]), (10, [5.0] * 2), (20, [5.0] * 3), (30, [5.0] * 4), bounds=(10, 20))
    con = database(**metrics(*full, series("ttft_s", [(20, 3), (30, 4)], part="bucket", le=5.0, labels={"le": "5"})))
    assert [(r[0], r[6]) for r in rows_of(con, TTFT)] == [(10, 10), (20, 10), (30, 5)]


def test_a_histogram_without_an_open_end_tells_no_percentile() -> None:
    closed = [s for s in told((0, []), (10, [5.0] * 9)) if s.get("le") != math.inf]
    assert rows_of(database(**metrics(*closed)), TTFT) == [(10, "histogram", 9, None, None, None, None)]


def test_nothing_new_is_no_row() -> None:
    assert rows_of(database(**metrics(told((0, [1.0]), (10, [1.0])))), TTFT) == []


HISTOGRAM = told((0, []), (10, [50.0] * 10))


def test_requests_go_before_histograms() -> None:
    con = database(**metrics(HISTOGRAM), requests=[request(3, ttft_s=1.5)])
    assert rows_of(con, TTFT) == [(3, "client", 1, 1.5, 1.5, 1.5, 1.5)]
    row = row_of(con, "q01_ttft")
    assert (row["observer"], row["ttft_n"], row["ttft_p99_s"], row["ttft_p99_low_s"]) == ("client", 1, 1.5, None)


def test_requests_without_any_ttft_leave_it_to_the_histogram() -> None:
    con = database(**metrics(HISTOGRAM), requests=[request(3, e2e_s=9.0), request(4, status="unfinished")])
    assert [r[:3] for r in rows_of(con, TTFT)] == [(10, "histogram", 10)]
    row = row_of(con, "q01_ttft")
    assert (row["observer"], row["ttft_n"], row["censored_n"], row["ttft_p99_low_s"], row["ttft_p99_high_s"]) == (
        "histogram",
        10,
        0,
        40,
        60,
    )


def test_a_front_end_with_times_goes_before_a_client_without() -> None:
    con = database(
        requests=[
            *(request(0, arrival_ts=None, clock="order", ttft_s=9.0) for _ in range(20)),
            request(3, observer="frontend", ttft_s=1.5),
        ]
    )
    assert [r[:4] for r in rows_of(con, TTFT)] == [(3, "frontend", 1, 1.5)]
    assert row_of(con, "q01_ttft")["ttft_p99_s"] == 1.5


def test_a_client_without_times_does_not_stand_before_histograms() -> None:
    con = database(**metrics(HISTOGRAM), requests=[request(0, arrival_ts=None, clock="order", ttft_s=9.0)])
    assert [r[1] for r in rows_of(con, TTFT)] == ["histogram"]
    row = row_of(con, "q01_ttft")
    # some benchmark's requests are not all that were served
    assert row["observer"] == "histogram"


def test_a_client_without_times_alone_tells_the_whole() -> None:
    con = database(scheduler=[stats(0, running=1, waiting=0)], requests=[request(0, arrival_ts=None, clock="order", ttft_s=9.0)])
    row = row_of(con, "q01_ttft")
    assert (row["observer"], row["ttft_p99_s"], row["ttft_p99_inside_s"]) == ("client", 9.0, None)


def test_instances_have_sources_of_their_own() -> None:
    con = database(**metrics(HISTOGRAM), requests=[request(3, instance="j", ttft_s=1.5)])
    assert rows_of(con, "SELECT instance, ttft_source FROM signal_ttft ORDER BY 1") == [("i", "histogram"), ("j", "client")]


def test_a_percentile_that_falls_on_a_pending_request_is_unknown_in_its_bucket_and_bounded_below_in_all() -> None:
    done = [request(0.1 * n, ttft_s=1.0, first_token_ts=at(0.1 * n + 1)) for n in range(9)]
    con = database(requests=[*done, request(0.9, status="unfinished")], events=[event(0, "warning")])
    assert rows_of(con, TTFT) == [(0, "client", 10, 1.0, None, None, math.inf)]
    row = row_of(con, "q01_ttft")
    assert (row["ttft_p99_s"], row["ttft_p99_at_least_s"], row["ttft_p99_finished_s"]) == (math.inf, pytest.approx(1.0), 1.0)
    assert (row["ttft_n"], row["censored_n"]) == (9, 1)


def test_a_pending_request_of_unknown_arrival_waited_for_some_time() -> None:
    con = database(requests=[request(0, arrival_ts=None, ttft_s=1.0), request(0, arrival_ts=None, status="unfinished")])
    row = row_of(con, "q01_ttft")
    assert (row["ttft_p50_s"], row["ttft_p99_at_least_s"]) == (math.inf, 1.0)


def test_other_latencies_come_from_their_own_histograms() -> None:
    given = [
        one
        for name in ("queue_s", "itl_s", "e2e_s", "prefill_s", "decode_s")
        for one in told((0, []), (10, [30.0] * 4))
        if one.update(name=name) is None
    ]
    con = database(**metrics(*given), requests=[request(3, ttft_s=1.0, queue_s=0.5)])
    assert rows_of(con, "SELECT what, source, n FROM signal_latency ORDER BY what, source") == [
        *((what, "histogram", 4) for what in ("decode", "e2e", "itl", "prefill")),
        ("queue", "client", 1),
        ("queue", "histogram", 4),
        ("ttft", "client", 1),
    ]


def test_the_histogram_is_split_by_the_incident() -> None:
    queue = [
        report(t, kind="prefill", new_seqs=1, new_tokens=9, running=4, waiting=10 * (100 <= t < 200), kv_usage=0.9)
        for t in range(0, 300, 2)
    ]
    scrapes = [(t, [1.0] * t + [50.0] * max(0, min(t, 200) - 100)) for t in range(0, 300, 20)]
    row = row_of(database(scheduler=queue, **metrics(told(*scrapes))), "q01_ttft")
    assert (row["observer"], row["ttft_n"], row["ttft_p99_outside_s"], row["ttft_p99_low_s"]) == ("histogram", 380, 19.8, 40)
    assert row_of(database(scheduler=queue, **metrics(told(*scrapes))), "q02_ttft_split")["ttft_mean_s"] is None
