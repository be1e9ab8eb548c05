"""`q05_cap`: running against the cap while requests waited."""

from __future__ import annotations

from sql_case import database, fact, report, row_of


def lines(running: list[int]) -> list[dict[str, object]]:
    return [report(10 * n, running=r, waiting=5, kv_usage=0.3) for n, r in enumerate(running)]


def test_at_the_cap() -> None:
    row = row_of(database(scheduler=lines([4, 8, 8, 8]), facts=[fact("max_running_requests", 8)]), "q05_cap")
    assert (row["cap"], row["cap_source"], row["running_max"]) == (8, "server.log:1", 8)
    assert (row["waiting_s"], row["at_cap_s"], row["cap_s"], row["plateau_share"]) == (30, 30, 30, 0.75)


def test_the_argument_is_shared_by_ranks_that_share_attention() -> None:
    facts = [fact("arg.max_running_requests", 30), fact("arg.dp_size", 4), fact("arg.enable_dp_attention", True, number=1.0)]
    assert row_of(database(scheduler=lines([7, 7]), facts=facts), "q05_cap")["cap"] == 7
    assert row_of(database(scheduler=lines([7, 7]), facts=facts[:2]), "q05_cap")["cap"] == 30
    # the capacity line is each rank's own
    assert row_of(database(scheduler=lines([7, 7]), facts=[*facts, fact("max_running_requests", 9)]), "q05_cap")["cap"] == 9


def test_without_a_cap_only_the_plateau_is_known() -> None:
    row = row_of(database(scheduler=lines([8, 8, 8, 8])), "q05_cap")
    assert (row["cap"], row["plateau_share"], row["at_cap_s"]) == (None, 1.0, 0)


def test_pipeline_stages_share_the_cap() -> None:
    known = [fact("max_running_requests", 16), fact("arg.pp_size", 2)]
    assert row_of(database(scheduler=lines([8, 8, 8]), facts=known), "q05_cap")["cap"] == 8
    told = [*known, fact("arg.pp_max_micro_batch_size", 12)]
    assert row_of(database(scheduler=lines([8, 8, 8]), facts=told), "q05_cap")["cap"] == 12
