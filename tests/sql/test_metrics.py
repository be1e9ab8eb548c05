"""`metrics`: every sample with its series, and which of them count."""

from __future__ import annotations

from sql_case import at, database, metrics, row_of, rows_of, series

SQL = "SELECT source_id, ts, hidden FROM metrics ORDER BY source_id, ts"


def test_a_sample_has_its_series() -> None:
    con = database(**metrics(series("running_requests", [(0, 4), (5, None)], labels={"engine": "1"}, unit="requests", record=9)))
    assert rows_of(
        con, "SELECT instance, name, dp, labels['engine'], ts, value, unit, counted, hidden, record FROM metrics ORDER BY ts"
    ) == [
        ("i", "running_requests", 1, "1", 0, 4, "requests", True, False, 9),
        ("i", "running_requests", 1, "1", 5, None, "requests", True, False, 9),
    ]


def test_what_does_not_count_is_shown_and_not_used() -> None:
    old = series("running_requests", [(0, 4)], counted=False, why_not="another spelling")
    unknown = series("x", [(0, 9)]) | {"name": None}
    con = database(**metrics(series("running_requests", [(0, 4)]), old, unknown))
    assert rows_of(con, "SELECT counted, hidden FROM metrics ORDER BY ALL") == [(False, False), (True, False), (True, False)]
    assert rows_of(con, "SELECT running FROM _scrape") == [(4,)]


def test_the_coarse_input_is_hidden_while_the_fine_one_is_there() -> None:
    fine = series("running_requests", [(t, 1) for t in range(30, 61)], source_id="fine")
    coarse = series("running_requests", [(t, 2) for t in range(0, 120, 15)], source_id="coarse")
    con = database(**metrics(coarse, fine))
    found = rows_of(con, SQL)
    assert [r[1:] for r in found if r[0] == "coarse"] == [(t, 30 <= t <= 60) for t in range(0, 120, 15)]
    assert not any(r[2] for r in found if r[0] == "fine")


def test_of_equals_one_is_hidden_and_never_both() -> None:
    both = [series("running_requests", [(t, 1) for t in range(0, 60, 15)], source_id=s) for s in ("a", "b")]
    hidden = {s: {r[2] for r in rows_of(database(**metrics(*both)), SQL) if r[0] == s} for s in ("a", "b")}
    assert sorted(hidden.values(), key=str) == [{False}, {True}]


def test_only_the_same_metric_of_the_same_rank_and_run_is_hidden() -> None:
    fine = series("running_requests", [(t, 1) for t in range(60)], source_id="fine", labels={"engine": "0"})
    others = [
        series("running_requests", [(0, 1), (30, 1)], source_id="x", labels={"engine": "1"}),
        series("waiting_requests", [(0, 1), (30, 1)], source_id="x", labels={"engine": "0"}),
        series("running_requests", [(0, 1), (30, 1)], source_id="x", run_id="r2", labels={"engine": "0"}),
        series("running_requests", [(0, 1), (30, 1)], source_id="x", instance="j", labels={"engine": "0"}),
        series("running_requests", [(0, 1), (30, 1)], source_id="x", part="count", labels={"engine": "0"}),
    ]
    assert rows_of(database(**metrics(fine, *others)), "SELECT count(*) FROM metrics WHERE hidden") == [(0,)]


def test_a_worker_of_lmcache_hides_no_other() -> None:
    one, two = (
        series("l2_used_bytes", [(t, 5) for t in range(0, 60, n)], source_id=f"w{n}", labels={"worker_id": str(n)}, engine="lmcache")
        for n in (1, 2)
    )
    assert rows_of(database(**metrics(one, two)), "SELECT count(*) FROM metrics WHERE hidden") == [(0,)]


def test_one_scrape_kept_twice_counts_once() -> None:
    con = database(**metrics(*(series("running_requests", [(0, 4)], source_id=s) for s in ("a", "b", "c"))))
    assert row_of(con, "peaks")["running"] == 4
    assert rows_of(con, "SELECT count(*) FROM metrics WHERE hidden") == [(2,)]


def test_a_window_bounds_the_samples() -> None:
    con = database(**metrics(series("running_requests", [(t, t) for t in range(10)])), since=at(3), until=at(5))
    assert rows_of(con, "SELECT ts FROM metrics ORDER BY ts") == [(3,), (4,), (5,)]
