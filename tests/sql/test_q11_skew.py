"""`q11_skew`: the fullest and the emptiest rank in the incident."""

from __future__ import annotations

from sql_case import database, report, row_of


def test_one_rank_is_full_while_another_idles() -> None:
    lines = [report(t, dp=d, running=4, waiting=9 * (1 - d), kv_usage=(0.95, 0.1)[d]) for t in range(0, 60, 10) for d in (0, 1)]
    row = row_of(database(scheduler=lines), "q11_skew")
    assert (row["ranks"], row["fullest_rank"], row["emptiest_rank"]) == (2, 0, 1)
    assert (row["usage_fullest"], row["usage_emptiest"], row["waiting_longest"], row["waiting_shortest"]) == (0.95, 0.1, 9, 0)


def test_without_an_incident_nothing_differs() -> None:
    row = row_of(database(scheduler=[report(t, dp=d, running=1, waiting=0, kv_usage=0.1) for t in range(3) for d in (0, 1)]), "q11_skew")
    assert (row["ranks"], row["usage_fullest"]) == (2, None)


def test_sharing_alike_is_the_mean_of_the_ranks() -> None:
    lines = [
        report(t, dp=d, running=(20, 2)[d], waiting=9 * (1 - d) if t < 90 else 0, kv_usage=(0.95, 0.1)[d], kind="stats")
        for t in range(0, 120, 10)
        for d in (0, 1)
    ]
    row = row_of(database(scheduler=lines), "q11_skew")
    assert (row["queue_rank"], row["queue_share"], row["queue_usage"], row["usage_even"], row["running_even"]) == (0, 1, 0.95, 0.525, 11)


def test_an_idle_rank_that_prints_nothing_is_one() -> None:
    lines = [report(t, dp=0, running=20, waiting=9, kv_usage=0.9) for t in range(0, 200, 10)]
    lines += [report(t, dp=1, running=1, waiting=0, kv_usage=0.5) for t in (0, 10)]
    row = row_of(database(scheduler=lines), "q11_skew")
    assert row["usage_emptiest"] < 0.15


def test_another_instance_that_idles_is_told() -> None:
    lines = [
        report(t, instance=name, running=4, waiting=w, kv_usage=u)
        for t in range(0, 60, 10)
        for name, w, u in (("i", 9, 0.95), ("j", 0, 0.1))
    ]
    row = row_of(database(scheduler=lines), "q11_skew")
    assert (row["replicas"], row["replica"], row["replica_usage_min"]) == (1, "j", 0.1)
