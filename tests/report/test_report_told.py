"""Notes under the charts: where each number was read, what a gap means, and what is not known."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pytest
from report_fakes import T0, add_bucket, at, connection, diagnosis, insert, instance

from analyzer.diagnosis.model import Window
from analyzer.report.charts import Lane, Panel, TimeAxis, render_panel
from analyzer.report.data import build_report
from analyzer.report.model import InstanceView
from analyzer.report.render import render_html

S = T0.timestamp()
NBSP = "\u00a0"


def view(con: duckdb.DuckDBPyConnection, **values: Any) -> InstanceView:
    return build_report(con, diagnosis(instance(**values))).instances.rows[0]


def panel(con: duckdb.DuckDBPyConnection, key: str, **values: Any) -> Panel:
    timeline = view(con, **values).timeline
    assert timeline is not None
    return next(p for p in timeline.panels if p.key == key)


def lanes(con: duckdb.DuckDBPyConnection, **values: Any) -> dict[str, Lane]:
    timeline = view(con, **values).timeline
    assert timeline is not None
    return {lane.key: lane for lane in timeline.lanes}


def histogram(con: duckdb.DuckDBPyConnection, *rows: tuple[int, float, float, float, int]) -> None:
    """Buckets of ten seconds with (second, P99, its lower and upper bound, n) and the scrapes that show them."""
    for second, p99, low, high, n in rows:
        add_bucket(
            con, second, ttft_p50_s=low, ttft_p95_s=p99, ttft_p99_s=p99, ttft_p99_low_s=low, ttft_p99_high_s=high, ttft_n=n,
            ttft_source="histogram",
        )  # fmt: skip
        rise = {"instance": "pod-a", "name": "ttft_s", "part": "count", "prev_ts": at(second - 29), "ts": at(second + 1), "delta": n}
        insert(con, "counter_delta", [rise])


def pending(con: duckdb.DuckDBPyConnection, *seconds: float) -> None:
    rows = [{"instance": "pod-a", "observer": "client", "arrival_ts": at(s), "censored": True} for s in seconds]
    insert(con, "request_best", rows)


def test_a_histogram_s_band_lies_between_its_bounds_and_reaches_back_to_the_scrape_before() -> None:
    con = connection()
    for second in range(0, 100, 10):
        if second not in (40, 70):
            add_bucket(con, second, waiting=1)
    histogram(con, (40, 1.5, 1.0, 2.0, 4), (70, 3.0, 2.0, 4.0, 5))
    p = panel(con, "ttft")
    band, p99 = p.series[0], p.series[1]
    assert (band.name, band.band) == ("bounds between which the P99 lies", True)
    assert [s.points for s in band.segments] == [((S + 12 - 1, 1.0, 2.0), (S + 50, 2.0, 4.0))]
    assert [(s.points[0][0], s.end) for s in p99.segments] == [(S + 11, S + 80)]
    assert p.note.startswith("From histograms of 9 first tokens, interpolated inside a bucket")
    assert p.top is None


def test_scrapes_without_a_first_token_between_them_leave_a_gap() -> None:
    con = connection()
    histogram(con, (40, 1.5, 1.0, 2.0, 4), (130, 3.0, 2.0, 4.0, 5))
    assert len(panel(con, "ttft").series[1].segments) == 2


def test_a_p99_beyond_the_last_bound_is_drawn_to_the_top_and_said() -> None:
    con = connection()
    histogram(con, (40, 400.0, 400.0, math.inf, 4))
    p = panel(con, "ttft")
    band = p.series[0]
    assert p.top == pytest.approx(460)
    svg = render_panel(p, TimeAxis(S + 11, S + 50), uid="a")
    assert 'd="M0 6H1000L1000 42H0Z"' in svg  # from 400 of 600 s to the upper edge
    assert band.peak is None
    assert f"beyond the last bound, 6{NBSP}min{NBSP}40{NBSP}s: it is longer than the curve" in p.note


def test_the_lowest_bound_is_said_where_it_hides_fast_answers() -> None:
    con = connection()
    histogram(con, (40, 0.09, 0.0, 0.1, 4))
    insert(con, "series", [{"instance": "pod-a", "name": "ttft_s", "part": "bucket", "le": le} for le in (0.1, 0.2)])
    assert f"The lowest bound is 100{NBSP}ms: what is shorter cannot be told apart." in panel(con, "ttft").note
    con.execute("UPDATE series SET le = 0.001 WHERE le = 0.1")
    assert "lowest bound" not in panel(con, "ttft").note


def test_exact_ttft_counts_the_requests_and_names_the_client() -> None:
    con = connection()
    add_bucket(con, 0, ttft_p99_s=2.0, ttft_p99_low_s=2.0, ttft_p99_high_s=2.0, ttft_n=30, ttft_source="client")
    p = panel(con, "ttft")
    assert p.note == "Exact, of 30 requests by the time of their arrival, from client records."
    assert [s.name for s in p.series] == ["P99"]


def test_pending_requests_explain_the_gap_and_are_drawn() -> None:
    con = connection()
    add_bucket(con, 0, ttft_p50_s=1.0, ttft_p99_s=2.0, ttft_n=5, ttft_source="client")
    add_bucket(con, 10, ttft_p50_s=1.5, ttft_p99_high_s=math.inf, ttft_n=4, ttft_source="client")
    add_bucket(con, 20, waiting=3)
    pending(con, 12, 14.5, 21)
    p = panel(con, "ttft")
    assert "Exact, of 7 requests" in p.note  # two of the nine are pending
    assert "3 requests that arrived here had no first token when the capture ended." in p.note
    assert "In 2 buckets (07:00:10 to 07:00:30) the P99 falls on one of them" in p.note
    lane = lanes(con)["pending"]
    assert lane.summary.startswith(f"3{NBSP}requests in this time range")
    assert sum(m.count for m in lane.marks) == 3


def test_nothing_but_pending_requests_is_no_silence() -> None:
    con = connection()
    add_bucket(con, 0, wait_est_s=3.0, waiting=2)
    pending(con, 1, 2)
    p = panel(con, "ttft")
    assert p.title == "Queue wait (estimate)"
    assert p.note.startswith("No request got a first token: all 2 were still pending when the capture ended.")
    con.execute("UPDATE timeline SET wait_est_s = NULL")
    timeline = view(con).timeline
    assert timeline is not None
    assert "Time to first token: none, since all 2 requests were pending when the capture ended." in timeline.notes


def test_pending_requests_are_no_part_of_what_a_histogram_tells() -> None:
    con = connection()
    histogram(con, (40, 1.5, 1.0, 2.0, 4))
    pending(con, 41)
    assert "pending" not in lanes(con)
    assert "no first token" not in panel(con, "ttft").note


def test_a_p99_among_the_pending_is_open_in_the_table_too() -> None:
    con = connection()
    add_bucket(con, 0, ttft_p99_s=2.0, ttft_n=5, ttft_source="client")
    add_bucket(con, 10, ttft_p99_high_s=math.inf, ttft_n=4, ttft_source="client")
    pending(con, 12)
    r = build_report(con, diagnosis(instance(window=Window(at(0), at(20)))))
    assert [(row.ttft_p99_s, row.ttft_open) for row in r.instances.rows[0].table] == [(2.0, False), (None, True)]
    assert '<td class="num">pending</td>' in render_html(r)


def test_an_estimate_holds_until_the_next_report_of_the_same_process() -> None:
    con = connection()
    for second, wait, run in ((0, 2.0, "r1"), (10, None, "r1"), (20, 4.0, "r1"), (30, None, "r1"), (40, 5.0, "r2")):
        add_bucket(con, second, waiting=1, wait_est_s=wait, run_id=run)
    estimate = panel(con, "ttft").series[0]
    assert [[p[2] for p in s.points] for s in estimate.segments] == [[2.0, 2.0, 4.0], [5.0]]


def test_the_load_s_note_says_which_source_is_drawn_where() -> None:
    con = connection()
    for second in range(0, 100, 10):
        add_bucket(con, second, waiting=1, running=1)
    reports = [(s, "metrics", True) for s in range(0, 60, 10)] + [(60, "log", False), (70, "log", False)]
    insert(con, "scheduler_clean", [{"instance": "pod-a", "ts": at(s), "basis": b, "preferred": p} for s, b, p in reports])
    insert(con, "peaks", [{"instance": "pod-a", "other_basis": "log", "other_running": 13, "other_waiting": 1, "other_kv_usage": 0.984}])
    note = panel(con, "requests").note
    assert "Read from the metrics (6 reports)." in note
    assert "Read from the log (2 reports) 07:01:00 to 07:01:10, where the metrics say nothing." in note
    assert f"There it shows at most 13{NBSP}requests running, 1{NBSP}request waiting, KV usage 98.4{NBSP}%." in note
    con.execute("DELETE FROM scheduler_clean WHERE basis = 'log'")
    assert "the log" not in panel(con, "requests").note


def test_many_spells_of_the_other_source_are_not_all_listed() -> None:
    con = connection()
    for second in range(0, 100, 10):
        add_bucket(con, second, waiting=1)
    rows = [
        {"instance": "pod-a", "ts": at(s), "basis": "log" if s % 20 else "metrics", "preferred": s % 20 == 0} for s in range(0, 100, 10)
    ]
    insert(con, "scheduler_clean", rows)
    assert "07:00:10, 07:00:30, 07:00:50 and 2 more times" in panel(con, "requests").note


def test_the_pool_s_note_gives_its_size_and_says_what_is_not_known() -> None:
    con = connection()
    states = {"l1_used_tokens": 50, "l1_evictable_tokens": 30, "l1_available_tokens": 20}
    add_bucket(con, 0, kv_usage=0.5, l1_capacity_tokens=100, **states)
    assert f"add up to the pool's 100{NBSP}tokens" in panel(con, "kv").note
    assert "not known" not in panel(con, "kv").note
    add_bucket(con, 10, kv_usage=0.5)
    assert "Where no bands are drawn, usage is the part that running requests hold" in panel(con, "kv").note


@pytest.mark.parametrize(
    ("engine", "said", "unsaid"),
    [("sglang", "sglang:kv_evictable_tokens", "vLLM"), ("vllm", "vLLM tells it nowhere.", "sglang"), (None, "vLLM tells it nowhere.", "?")],
)
def test_usage_alone_does_not_split_the_rest(engine: str | None, said: str, unsaid: str) -> None:
    con = connection()
    add_bucket(con, 0, kv_usage=0.5)
    note = panel(con, "kv", engine=engine).note
    assert "how much of the rest is cached and how much empty is not known" in note
    assert said in note
    assert unsaid not in note


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("counter", "Counted by counters in the metrics. A counter lags: it moves when the victim goes on, not when it is thrown out."),
        ("log", "Counted from lines of the log."),
    ],
)
def test_the_lane_of_preemptions_says_who_counted(source: str, said: str) -> None:
    con = connection()
    add_bucket(con, 0, preempted=4)
    insert(con, "signal_retract", [{"instance": "pod-a", "bucket_ts": at(0), "retract_source": source, "preempted": 4}])
    assert lanes(con)["preempted"].note == said


def test_what_l2_loaded_is_not_what_it_found() -> None:
    con = connection()
    add_bucket(con, 0, l2_used_share=0.2)
    add_bucket(con, 10, l2_used_share=0.3)
    row = {"instance": "pod-a", "l2_source": "counter", "hit_tokens": 5000, "failures": 2}
    insert(con, "signal_l2", [{**row, "bucket_ts": at(0), "loaded_tokens": 3000}, {**row, "bucket_ts": at(10), "loaded_tokens": 0}])
    lane = lanes(con)["loaded"]
    assert lane.summary == f"3,000{NBSP}tokens in this time range"
    assert lane.note == (
        f"Counted by counters in the metrics. 10,000{NBSP}tokens were hits: found in L2, which is not yet loaded. "
        "4 loads or allocations failed."
    )
    assert "L2 used, of its own size" in [s.name for s in panel(con, "kv").series]
    assert "Room in L2 does not admit requests." in panel(con, "kv").note


def test_bytes_are_drawn_where_l2_tells_no_tokens() -> None:
    con = connection()
    add_bucket(con, 0, kv_usage=0.2)
    row = {"instance": "pod-a", "bucket_ts": at(0), "l2_source": "log", "loaded_bytes": 3 << 30, "l2_used_bytes": 5 << 30}
    insert(con, "signal_l2", [row])
    assert lanes(con)["loaded"].summary == f"3{NBSP}GiB in this time range"
    assert "from lines of the log" in lanes(con)["loaded"].note
    assert f"L2 held up to 5{NBSP}GiB; its size is not known" in panel(con, "kv").note


def test_a_histogram_s_curve_ends_with_its_process() -> None:
    con = connection()
    histogram(con, (40, 1.5, 1.0, 2.0, 4), (50, 3.0, 2.0, 4.0, 5))
    assert len(panel(con, "ttft").series[1].segments) == 1
    con.execute("UPDATE timeline SET run_id = 'r2' WHERE bucket_ts = ?", [at(50)])
    assert len(panel(con, "ttft").series[1].segments) == 2
