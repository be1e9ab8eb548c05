"""`cache_op`: one row for what several ranks, or several layers, print of the same operation."""

from __future__ import annotations

from typing import Any

import pytest
from sql_case import at, database, operation, rows_of

SQL = "SELECT ts, op, tokens, bytes, duration_s, ok, reported_by, record FROM cache_op ORDER BY record"


def load(t: float, **columns: Any) -> dict[str, Any]:
    """What LMCache's engine prints of a load."""
    return operation(t, "load", **{"engine": "lmcache", "tokens": 1024, "hit_tokens": 1024, "total_tokens": 4096, **columns})


def store(t: float, **columns: Any) -> dict[str, Any]:
    return operation(t, "store", **{"engine": "lmcache", "tokens": 2048, "total_tokens": 4096, **columns})


def count(t: float, **columns: Any) -> dict[str, Any]:
    """What its adapter prints of the same."""
    return operation(t, "load", **{"engine": "lmcache", "tokens": 1024, **columns})


def found(*rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    return rows_of(database(cache_ops=rows), SQL)


def test_ranks_share_the_tokens_and_add_up_their_bytes() -> None:
    ranks = [load(0.1 * n, tp=n, bytes=100 + n, duration_s=0.5 - 0.1 * n) for n in range(3)]
    assert found(*ranks) == [(0, "load", 1024, 303, 0.5, True, 3, 1)]


@pytest.mark.parametrize("rank", ["tp", "pp", "ep"])
def test_any_kind_of_rank_is_a_rank(rank: str) -> None:
    assert [r[6] for r in found(store(0, **{rank: 0}), store(0.1, **{rank: 1}))] == [2]


def test_it_failed_if_one_rank_failed() -> None:
    assert found(store(0, tp=0), store(0, tp=1, ok=False)) == [(0, "store", 2048, None, None, False, 2, 1)]


def test_what_no_rank_told_stays_unknown() -> None:
    (row,) = found(operation(0, "load", engine="vllm", ok=None, tp=0), operation(0, "load", engine="vllm", ok=None, tp=1))
    assert row == (0, "load", None, None, None, None, 2, 1)


def test_a_second_line_of_one_rank_is_a_second_operation() -> None:
    assert found(load(0, tp=0), load(0, tp=1), load(1, tp=0), load(1, tp=1)) == [
        (0, "load", 1024, None, None, True, 2, 1),
        (1, "load", 1024, None, None, True, 2, 3),
    ]


def test_lines_without_a_rank_are_operations_of_their_own() -> None:
    assert [r[6] for r in found(load(0), load(0))] == [1, 1]
    assert [r[6] for r in found(load(0), load(0, tp=0))] == [1, 1]


def test_what_comes_later_is_another_operation() -> None:
    assert len(found(load(0, tp=0), load(2.0, tp=1))) == 1
    assert len(found(load(0, tp=0), load(2.1, tp=1))) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"tokens": 512, "hit_tokens": 512},
        {"total_tokens": 8192},
        {"rid": "b"},
        {"dp": 1},
        {"tier": "remote"},
        {"instance": "j"},
        {"run_id": "r2"},
        {"op": "prefetch"},
    ],
    ids=lambda o: "-".join(o),
)
def test_other_keys_are_another_operation(other: dict[str, Any]) -> None:
    assert [r[6] for r in found(load(0, tp=0, rid="a", dp=0), {**load(0, tp=1, rid="a", dp=0), **other})] == [1, 1]


def test_the_other_ops_are_merged_by_rank_too() -> None:
    rows = [
        operation(0.1 * n, op, tp=n, ok=op not in ("alloc_fail",)) for op in ("alloc_fail", "evict", "prefetch", "lookup") for n in (0, 1)
    ]
    assert sorted((r[1], r[6]) for r in found(*rows)) == [("alloc_fail", 2), ("evict", 2), ("lookup", 2), ("prefetch", 2)]


def test_a_load_that_fell_short_failed() -> None:
    assert [r[5] for r in found(load(0, tokens=512), load(5), load(9, hit_tokens=None))] == [False, True, True]
    lookup = operation(0, "lookup", engine="lmcache", tokens=512, hit_tokens=1024, total_tokens=4096)
    assert [r[5] for r in found(lookup)] == [True]


@pytest.mark.parametrize("first", ["engine", "adapter"])
def test_a_load_that_two_layers_print_is_one(first: str) -> None:
    engine, adapter = load(0, rid="a", bytes=7, duration_s=0.5), count(0.5)
    rows = [engine, adapter] if first == "engine" else [{**adapter, "ts": at(0)}, {**engine, "ts": at(0.5)}]
    con = database(cache_ops=rows)
    (row,) = rows_of(con, "SELECT ts, rid, tokens, hit_tokens, total_tokens, bytes, duration_s, ok, reported_by FROM cache_op")
    assert row == (0, "a", 1024, 1024, 4096, 7, 0.5, True, 2)
    engines_line = rows.index(engine) + 1 if first == "engine" else 2
    assert rows_of(con, "SELECT source FROM cache_op") == [(f"server.log:{engines_line}",)]


def test_layers_are_paired_in_their_order() -> None:
    rows = [load(0, rid="a"), count(0.1), load(0.2, rid="b"), count(0.3), count(0.4)]
    assert rows_of(database(cache_ops=rows), "SELECT rid, reported_by FROM cache_op ORDER BY ts") == [("a", 2), ("b", 2), (None, 1)]


@pytest.mark.parametrize("other", [{"tokens": 512}, {"ts": at(2.1)}, {"instance": "j"}, {"run_id": "r2"}, {"dp": 1}, {"tier": "disk"}])
def test_another_count_time_or_place_is_another_load(other: dict[str, Any]) -> None:
    assert len(found(load(0), {**count(0), **other})) == 2


def test_the_counts_of_other_engines_repeat_nothing() -> None:
    loads = [load(0, engine="sglang"), count(0, engine="sglang")]
    assert len(found(*loads)) == 2


def test_ranks_come_before_layers() -> None:
    rows = [row for n in (0, 1) for row in (load(0.1 * n, tp=n, bytes=100), count(0.1 * n + 0.05, tp=n))]
    assert found(*rows) == [(0, "load", 1024, 200, None, True, 4, 1)]


def test_one_failed_load_is_one_failure() -> None:
    failed: dict[str, Any] = {"engine": "lmcache", "ok": False}
    rows = [
        operation(0, "load", **failed),  # a lost block
        load(0.01, tokens=512, bytes=64),  # the engine: fewer than required
        operation(0.02, "load", tokens=512, hit_tokens=1024, **failed),  # the adapter
        operation(0.03, "load", rid="a", total_tokens=512, **failed),  # the request
    ]
    con = database(cache_ops=rows)
    assert rows_of(con, "SELECT rid, tokens, hit_tokens, total_tokens, bytes, ok, reported_by, record FROM cache_op") == [
        ("a", 512, 1024, 4096, 64, False, 4, 2)
    ]


def test_a_failed_load_takes_no_good_one_with_it() -> None:
    rows = [load(0, rid="a"), operation(0.1, "load", engine="lmcache", ok=False, rid="b", total_tokens=512)]
    assert [(r[2], r[5]) for r in found(*rows)] == [(1024, True), (None, False)]


def test_a_store_and_its_announcement_are_one() -> None:
    rows = [store(0, ok=None, rid="a", text="announced", total_tokens=8192), store(0.3, bytes=9, duration_s=0.2)]
    con = database(cache_ops=rows)
    assert rows_of(con, "SELECT ts, rid, tokens, total_tokens, bytes, ok, reported_by, text, record FROM cache_op") == [
        (0, "a", 2048, 4096, 9, True, 2, None, 2)
    ]


def test_a_store_that_was_only_announced_stored_nothing_yet() -> None:
    con = database(cache_ops=[store(0, ok=None, rid="a", text="announced")])
    assert rows_of(con, "SELECT rid, tokens, ok, text FROM cache_op") == [("a", None, None, "announced")]


def test_a_window_leaves_out_what_lies_outside_and_merges_first() -> None:
    rows = [load(0, tp=0), load(1, tp=1), load(10, tp=0), load(20, tp=0)]
    assert rows_of(database(cache_ops=rows, since=at(0.5), until=at(15)), "SELECT ts FROM cache_op") == [(10,)]
    assert rows_of(database(cache_ops=rows, until=at(5)), "SELECT ts, reported_by FROM cache_op") == [(0, 2)]


def test_a_line_without_a_time_is_an_operation_outside_any_window() -> None:
    rows = [{**store(0, tp=n), "ts": None} for n in (0, 1)]
    assert len(found(*rows)) == 2
    assert rows_of(database(cache_ops=rows, since=at(0)), SQL) == []


def test_every_row_leads_to_a_line() -> None:
    assert rows_of(database(cache_ops=[load(0, tp=1), load(0.5, tp=0)]), "SELECT source FROM cache_op") == [("server.log:1",)]
