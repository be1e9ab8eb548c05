"""`q12_pd`: the queues of prefill/decode disaggregation."""

from __future__ import annotations

from sql_case import database, report, row_of


def test_levels_and_time() -> None:
    con = database(
        scheduler=[
            report(0, role="decode", running=4, waiting=0, kv_usage=0.95, prealloc_reqs=10, transfer_reqs=1),
            report(10, role="decode", running=4, waiting=0, kv_usage=0.95, prealloc_reqs=20, transfer_reqs=0),
            report(20, role="decode", running=4, waiting=0, kv_usage=0.5, prealloc_reqs=0, transfer_reqs=0),
        ]
    )
    row = row_of(con, "q12_pd")
    assert (row["pd_reports"], row["role"], row["prealloc_max"], row["transfer_max"], row["bootstrap_max"]) == (3, "decode", 20, 1, None)
    assert (row["prealloc_request_s"], row["transfer_request_s"], row["usage_prealloc_p50"]) == (300, 10, 0.95)


def test_not_disaggregated() -> None:
    row = row_of(database(scheduler=[report(0, running=4, waiting=0)]), "q12_pd")
    assert (row["pd_reports"], row["prealloc_max"], row["kv_fetch_max"]) == (0, None, None)
