"""SGLang's rules one by one, where no stored workload shows them: older versions, refusals, the end of a replay, step times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analyzer.replay.result import Replayed
from analyzer.replay.run import replay
from analyzer.replay.settings import Sglang
from analyzer.replay.sglang import pool as pool_module
from analyzer.replay.sglang.loop import longest_output
from analyzer.replay.sglang.versions import rules_of
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.workload import Distinct, Request, Workload

STEP = StepTime(base_s=0.01, token_s=0.0001, request_s=0.001)
SETTINGS = Sglang(l1_tokens=1000, max_running=8, overlap=False)


def request(name: str, arrival_s: float, prompt: int, output: int, max_new: int | None = None, **more: Any) -> Request:
    return Request(name, arrival_s, prompt, output, output if max_new is None else max_new, **more)


def workload(*requests: Request) -> Workload:
    return Workload(requests, Distinct(requests))


def crowd(count: int = 30, prompt: int = 40, output: int = 120) -> Workload:
    """More than the pool of 1000 has room for."""
    return workload(*(request(f"r{at}", at * 0.01, prompt + at, output + 3 * at) for at in range(count)))


def rows_of(work: Workload, settings: Sglang, **more: Any) -> tuple[Replayed, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    return replay(work, settings, STEP, sink=rows.append, **more), rows


@pytest.mark.parametrize(
    ("version", "rules"),
    [
        (None, {}),
        ((0, 5, 23), {}),
        ((0, 5, 3), {}),
        ((0, 5, 1), {"retract_until_steps_fit": True, "ratio_plus_one": False}),
        ((0, 4, 6, 5), {"retract_until_steps_fit": True, "ratio_plus_one": False}),
        ((0, 4, 1), {"retract_until_steps_fit": True, "ratio_plus_one": False, "policy": "lpm"}),
    ],
)
def test_rules_of_versions(version: tuple[int, ...] | None, rules: dict[str, Any]) -> None:
    assert rules_of(version) == rules
    assert replace(SETTINGS, **rules_of(version)).l1_tokens == 1000


def test_the_old_rule_retracts_until_twenty_steps_fit() -> None:
    tight = replace(SETTINGS, conservativeness=0.05)
    _new, now = rows_of(crowd(), tight)
    _old, before = rows_of(crowd(), replace(tight, retract_until_steps_fit=True))

    first_now = next(row for row in now if row["retracted"])
    first_before = next(row for row in before if row["retracted"])

    assert first_now["step"] == first_before["step"]
    assert len(first_before["retracted"]) > len(first_now["retracted"])
    left = first_before["batch"]
    # one step of the twenty is taken already
    assert first_before["available"] >= left * 20 - left


def test_the_ratio_after_a_retraction_had_no_one_added() -> None:
    tight = replace(SETTINGS, conservativeness=0.05)
    (_a, new), (_b, old) = rows_of(crowd(), tight), rows_of(crowd(), replace(tight, ratio_plus_one=False))

    after = [next(row["new_token_ratio"] for row in rows if row["retracted"]) for rows in (new, old)]

    assert after[0] < after[1]
    assert after[1] == pytest.approx(after[0], rel=0.01)


def test_a_full_queue_turns_away_and_so_it_does_with_retracted_ones() -> None:
    tight = replace(SETTINGS, conservativeness=0.05, max_queued=3)

    told, _rows = rows_of(crowd(), tight)

    away = [r for r in told.requests if r.aborted]
    assert away
    assert all(r.finish_s is not None for r in told.requests)
    assert max(told.curves.waiting) == 3
    assert any(r.aborted and r.retractions for r in told.requests)


def test_who_can_never_be_admitted_is_refused_and_so_are_those_behind() -> None:
    told, _rows = rows_of(
        workload(request("a", 0, 10, 5), request("b", 1, 1000, 5), request("c", 2, 10, 5), request("d", 3, 10, 5)), SETTINGS
    )

    assert [r.finish_s is not None for r in told.requests] == [True, False, False, False]
    assert told.requests[1].refused == "It needs 1001 tokens to be admitted, and the pool has 1000."
    assert told.requests[2].refused == told.requests[3].refused == "It waits behind a request that can never be admitted."


def test_a_prompt_beyond_the_context_is_refused_on_arrival() -> None:
    told, _rows = rows_of(workload(request("a", 0, 200, 5), request("b", 0, 10, 5)), replace(SETTINGS, context_tokens=100))

    assert told.requests[0].aborted
    assert "100" in told.requests[0].refused
    assert told.requests[1].finish_s is not None


@pytest.mark.parametrize(
    ("prompt", "wanted", "context", "page", "made"),
    [
        (10, 50, 1000, 1, 50),
        (10, 5000, 100, 1, 88),
        (10, 5000, 8192, 1, 988),
        (10, 5000, 8192, 16, 967),
        (995, 50, 8192, 1, 3),
        (1100, 50, 8192, 1, 0),
    ],
)
def test_max_new_tokens_is_cut_to_context_and_pool(prompt: int, wanted: int, context: int, page: int, made: int) -> None:
    assert longest_output(prompt, wanted, Sglang(l1_tokens=1000, max_running=1, context_tokens=context, page_tokens=page)) == made


@pytest.mark.parametrize("overlap", [False, True])
def test_a_replay_can_stop_early(overlap: bool) -> None:
    settings = replace(SETTINGS, overlap=overlap, conservativeness=0.05)
    whole, rows = rows_of(crowd(), settings)
    until = whole.end_s / 3

    part, some = rows_of(crowd(), settings, until_s=until)

    assert some == rows[: len(some)]
    assert some[-1]["t"] < until <= rows[len(some) + 1]["t"]
    assert part.end_s == until
    assert [r.id for r in part.requests] == [r.id for r in crowd().requests if r.arrival_s <= until]
    for mine, full in zip(part.requests, whole.requests, strict=False):
        assert mine.finish_s == (full.finish_s if full.finish_s is not None and full.finish_s <= until else None)
        assert mine.first_token_s == (full.first_token_s if full.first_token_s is not None and full.first_token_s <= until else None)


def test_who_arrives_in_the_last_step_is_told_of() -> None:
    told, _rows = rows_of(workload(request("a", 0, 500, 5), request("b", 0.05, 10, 5), request("c", 0.07, 10, 5)), SETTINGS, until_s=0.06)

    # the first prefill takes 0.061 s
    assert [(r.id, r.added_s, r.first_token_s) for r in told.requests] == [("a", 0.0, None), ("b", None, None)]


def test_a_pause_holds_all_up() -> None:
    work = workload(request("a", 0, 10, 100))
    plain = replay(work, SETTINGS, STEP).requests[0].finish_s
    slow = replay(work, SETTINGS, STEP, pace=Pace(pauses=((0.5, 3.0),))).requests[0].finish_s
    half = replay(work, SETTINGS, STEP, pace=Pace(slower=(2.0,))).requests[0].finish_s
    same = replay(work, SETTINGS, STEP, pace=Pace()).requests[0].finish_s

    assert plain is not None
    assert same == pytest.approx(plain, abs=1e-9)
    assert slow == pytest.approx(plain + 3.0, abs=1e-9)
    assert half == pytest.approx(2 * plain, abs=1e-9)


def test_step_times_know_prefill_attention_and_cached_tokens() -> None:
    step = StepTime(base_s=0.01, token_s=0.0, request_s=0.0, prefill_s=0.5, attended_s=0.001, kv_token_s=0.0001)

    told = replay(workload(request("a", 0, 11, 3)), replace(SETTINGS, chunked_prefill_tokens=8), step).requests[0]

    # chunks of 8 and 3: 28 pairs in the first, 3 x 8 + 3 in the second; then decodes that read 12 and 13 tokens
    assert told.first_token_s == pytest.approx(2 * 0.51 + 0.001 * (28 + 27))
    assert told.finish_s == pytest.approx(told.first_token_s + 2 * 0.01 + 0.0001 * (12 + 13))


def test_many_steps_at_once_take_what_they_take_one_by_one() -> None:
    step = StepTime(base_s=0.01, token_s=0.0001, request_s=0.001, kv_token_s=0.00001)

    once = replay(workload(request("a", 0, 10, 300)), SETTINGS, step)
    # a stream of arrivals that are turned away cuts the steps apart
    nobody = [request(f"x{at}", 0.05 + at * 0.01, 2000, 1) for at in range(500)]
    cut = replay(workload(request("a", 0, 10, 300), *nobody), replace(SETTINGS, context_tokens=1999), step)

    assert len(cut.curves.steps) > 3 * len(once.curves.steps)
    assert cut.requests[0].finish_s == pytest.approx(once.requests[0].finish_s, abs=1e-9)


def test_curves_add_up() -> None:
    told, rows = rows_of(crowd(), replace(SETTINGS, conservativeness=0.05))
    curves = told.curves

    assert sum(curves.steps) == len(rows)
    assert sum(curves.prefill_tokens) + sum(curves.decode_tokens) == sum(row["tokens"] for row in rows)
    assert sum(curves.retracted) == told.retractions == rows[-1]["retractions"] > 0
    assert max(curves.used_tokens_end) <= 1000
    ends = np.cumsum(curves.steps) - 1
    assert [round(t, 6) for t in curves.end_s] == [rows[at]["t_end"] for at in ends]
    assert curves.used_tokens_end == [1000 - rows[at]["available"] - rows[at]["evictable"] for at in ends]


def test_an_engine_that_runs_out_of_memory_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    extend = pool_module.Pool.extend

    def short_of_memory(self: pool_module.Pool, reqs: Any) -> None:
        # what a prefill was promised is gone
        if any(r.id == "b" for r in reqs):
            self.free = 0
        extend(self, reqs)

    monkeypatch.setattr(pool_module.Pool, "extend", short_of_memory)

    told = replay(
        workload(request("a", 0, 10, 2), request("b", 1, 10, 2), request("c", 1, 10, 2)), replace(SETTINGS, prefix_caching=False), STEP
    )

    assert told.requests[0].finish_s is not None
    assert [r.refused for r in told.requests[1:]] == ["The engine ran out of memory in a prefill."] * 2
