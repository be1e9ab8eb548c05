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
