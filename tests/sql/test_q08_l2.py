"""`q08_l2`: what the log tells of L2."""

from __future__ import annotations

from sql_case import database, fact, operation, report, row_of


def test_operations_add_up() -> None:
    con = database(
        scheduler=[report(0, running=1)],
        cache_ops=[
            operation(1, "lookup", tokens=200, hit_tokens=800),
            operation(2, "load", tokens=200, duration_s=0.5),
            operation(3, "load", tokens=100, duration_s=1.5),
            operation(4, "alloc_fail", ok=False),
        ],
        facts=[fact("l2_capacity_tokens", 5000)],
    )
    row = row_of(con, "q08_l2")
    assert (row["operations"], row["lookups"], row["hit_tokens"], row["need_to_load_tokens"]) == (4, 1, 800, 200)
    assert (row["loaded_tokens"], row["load_s"], row["load_max_s"], row["failures"], row["alloc_failures"]) == (300, 2, 1.5, 1, 1)
    assert (row["l2_capacity_tokens"], row["l2_source"]) == (5000, "server.log:1")


def test_no_traffic_is_no_number() -> None:
    row = row_of(database(scheduler=[report(0, running=1)]), "q08_l2")
    assert (row["operations"], row["loaded_tokens"], row["load_max_s"], row["l2_capacity_tokens"]) == (0, None, None, None)
