"""A host pool beside SGLang's pool: what it saves, what it costs, and that no admission test reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from analyzer.replay.run import replay
from analyzer.replay.settings import L2, Sglang
from analyzer.replay.step_time import StepTime
from analyzer.replay.workload import Distinct, Request, Workload

STEP = StepTime(base_s=0.01, token_s=0.0001, request_s=0.001)
WRITES = ["write_through", "write_through_selective", "write_back"]
HOST = L2(capacity_tokens=100_000, load_tokens_per_s=50_000.0, block_tokens=4)
SETTINGS = Sglang(l1_tokens=1200, max_running=8, page_tokens=4, overlap=False, chunked_prefill_tokens=256)


def turns(rounds: int = 4, users: int = 6, asks: int = 2) -> Workload:
    """Users who ask `asks` times and come back later with what they had before; all of them are more than L1 holds."""
    requests = tuple(
        Request(f"{user}.{turn}.{ask}", 6.0 * turn + user + 0.4 * ask, 300 + 20 * turn, 10, 10, prefix=((f"u{user}", 300 + 20 * turn - 5),))
        for turn in range(rounds)
        for user in range(users)
        for ask in range(asks)
    )
    return Workload(requests, Distinct(requests))


def rows_of(work: Workload, settings: Sglang) -> tuple[Any, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    return replay(work, settings, STEP, sink=rows.append), rows


def test_an_empty_host_changes_nothing() -> None:
    without, rows = rows_of(turns(), SETTINGS)
    empty, same = rows_of(turns(), replace(SETTINGS, l2=replace(HOST, capacity_tokens=0)))

    assert same == rows
    assert empty == without
    assert empty.l2_loaded_tokens == 0


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("overlap", [False, True])
def test_what_left_l1_is_loaded_and_not_computed(write: Any, overlap: bool) -> None:
    settings = replace(SETTINGS, overlap=overlap)
    without, _ = rows_of(turns(), settings)
    told, rows = rows_of(turns(), replace(settings, l2=replace(HOST, write=write)))

    assert told.l2_loaded_tokens == sum(r.l2_tokens for r in told.requests) > 0
    assert told.l2_load_s == pytest.approx(told.l2_loaded_tokens / HOST.load_tokens_per_s)
    assert sum(told.curves.prefill_tokens) < sum(without.curves.prefill_tokens)
    for served in told.requests:
        assert served.l2_tokens <= served.cached_tokens
        assert served.l2_tokens % 4 == 0
    assert all(r.finish_s is not None for r in told.requests)
    # nothing leaks
    assert rows[-1]["available_end"] + rows[-1]["evictable_end"] == 1200


def test_loading_takes_time() -> None:
    fast = replay(turns(), replace(SETTINGS, l2=HOST), STEP)
    slow = replay(turns(), replace(SETTINGS, l2=replace(HOST, load_tokens_per_s=2000.0)), STEP)

    assert slow.l2_loaded_tokens == fast.l2_loaded_tokens
    for a, b in zip(fast.requests, slow.requests, strict=True):
        assert a.first_token_s is not None
        assert b.first_token_s is not None
        waited = b.l2_tokens / 2000.0 - a.l2_tokens / 50_000.0
        assert b.first_token_s - a.first_token_s == pytest.approx(waited, abs=1e-9)


def test_selective_writes_keep_only_what_was_computed_twice() -> None:
    selective = replace(SETTINGS, l2=replace(HOST, write="write_through_selective"))

    assert replay(turns(asks=1), replace(SETTINGS, l2=HOST), STEP).l2_loaded_tokens > 0
    assert replay(turns(asks=1), selective, STEP).l2_loaded_tokens == 0
    assert replay(turns(asks=2), selective, STEP).l2_loaded_tokens > 0


def test_no_admission_test_reads_it() -> None:
    """The pool is full of requests that run: with everything on the host, the same requests are refused at the same need."""
    requests = tuple(Request(f"r{at}", 20.0 + 0.001 * at, 300, 60, 60, prefix=((f"u{at}", 296),)) for at in range(8))
    before = tuple(Request(f"b{at}", 2.0 * at, 300, 1, 1, prefix=((f"u{at}", 296),)) for at in range(8))
    work = Workload(before + requests, Distinct(before + requests))

    (_a, plain), (told, hosted) = rows_of(work, SETTINGS), rows_of(work, replace(SETTINGS, l2=HOST))

    first = [next(row for row in rows if row["t"] >= 20.0 and any(not c["ok"] for c in row["checks"])) for rows in (plain, hosted)]
    refused = [next(c for c in row["checks"] if not c["ok"]) for row in first]
    assert refused[0]["id"] == refused[1]["id"]
    assert refused[0]["need"] == refused[1]["need"] >= refused[1]["rem_total"]
    assert told.l2_loaded_tokens > 0


def test_longest_prefix_first_counts_what_the_host_has() -> None:
    settings = replace(SETTINGS, policy="lpm", max_running=1, l2=HOST)
    early = tuple(Request(f"b{at}", 2.0 * at, 300, 1, 1, prefix=((f"u{at}", 300),)) for at in range(6))
    # u0 has left L1 by now, and is on the host
    late = (
        Request("busy", 20.0, 20, 40, 40),
        Request("new", 20.01, 300, 1, 1),
        Request("host", 20.02, 300, 1, 1, prefix=(("u0", 300),)),
    )
    work = Workload(early + late, Distinct(early + late))

    told = {r.id: r for r in replay(work, settings, STEP).requests}
    without = {r.id: r for r in replay(work, replace(settings, l2=None), STEP).requests}

    assert told["host"].first_token_s < told["new"].first_token_s
    assert without["new"].first_token_s < without["host"].first_token_s
