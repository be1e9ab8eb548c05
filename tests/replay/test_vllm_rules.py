"""What the model of vLLM does beside the steps themselves: versions, limits, pace, the end of time, L2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from vllm_expected import read
from vllm_workloads import make

from analyzer.replay.result import Replayed
from analyzer.replay.settings import L2, Vllm
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.vllm import loop, serve
from analyzer.replay.vllm.decode import DecodeAhead
from analyzer.replay.vllm.keys import shared_keys
from analyzer.replay.vllm.schedule import Scheduler
from analyzer.replay.vllm.versions import rules_of
from analyzer.replay.workload import Distinct, Request, Workload

STEP = StepTime(base_s=0.01, token_s=0.0001, request_s=0.0002)
BUSY = StepTime(base_s=0.008, token_s=0.00003, request_s=0.0002, prefill_s=0.004, attended_s=1e-8, kv_token_s=2e-7)
PACE = Pace(at_s=(0.0, 2.0, 3.5), slower=(1.0, 1.7, 0.9), pauses=((1.2, 0.8), (4.0, 0.3)))
POOL = Vllm(num_blocks=41, max_running=8, step_tokens=256, max_model_tokens=640)


def workload(*requests: Request) -> Workload:
    return Workload(requests=requests, contents=Distinct(requests))


def request(name: str, at: float, prompt: int, output: int, **more: Any) -> Request:
    return Request(id=name, arrival_s=at, prompt_tokens=prompt, output_tokens=output, max_new_tokens=output, **more)


def crowd(seed: int) -> Workload:
    draw = np.random.default_rng(seed)
    at = np.cumsum(draw.exponential(0.08, 60))
    lengths = zip(at.tolist(), draw.integers(10, 200, 60).tolist(), draw.integers(5, 120, 60).tolist(), strict=True)
    return workload(*(request(f"r{i}", a, p, o, prefix=((f"p{i % 3}", min(p, 50)),)) for i, (a, p, o) in enumerate(lengths)))


def test_versions() -> None:
    assert rules_of((0, 11, 2)) == {"async_scheduling": False, "reserve_full_isl": False, "watermark_share": 0.0}
    assert rules_of((0, 14, 0))["async_scheduling"]
    assert not rules_of((0, 14, 0))["reserve_full_isl"]
    assert rules_of((0, 19, 1)) == rules_of(None) == {"async_scheduling": True, "reserve_full_isl": True, "watermark_share": 0.0}


@pytest.mark.parametrize("behind", [False, True])
def test_decodes_taken_in_one_go_are_the_same_as_one_by_one(behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class OneByOne(DecodeAhead):
        def __init__(self, scheduler: Scheduler) -> None:
            super().__init__(scheduler)
            self.passes = 0

    settings = replace(POOL, async_scheduling=behind, l2=L2(capacity_tokens=4000, load_tokens_per_s=50_000, block_tokens=16))
    for given in (settings, replace(settings, l2=None), replace(settings, l2=None, reserve_full_isl=False)):
        told: list[dict[str, Any]] = []
        quick = serve(crowd(1), given, BUSY, pace=PACE, sink=told.append)
        with monkeypatch.context() as patch:
            patch.setattr(loop, "DecodeAhead", OneByOne)
            single: list[dict[str, Any]] = []
            slow = serve(crowd(1), given, BUSY, pace=PACE, sink=single.append)
        assert told == single
        assert quick.requests == slow.requests
        assert quick.retractions > 0
        assert sum(quick.curves.steps) == sum(slow.curves.steps)
        # else nothing was taken in one go
        assert len(quick.curves.steps) < len(slow.curves.steps)


def test_curves_add_up() -> None:
    told: list[dict[str, Any]] = []
    replayed = serve(crowd(2), POOL, STEP, sink=told.append)
    curves = replayed.curves
    assert sum(curves.steps) == len(told)
    assert sum(curves.prefill_tokens) == sum(row["prefill_tokens"] for row in told)
    assert sum(curves.decode_tokens) == sum(row["scheduled_tokens"] - row["prefill_tokens"] for row in told)
    assert sum(curves.retracted) == replayed.retractions == sum(served.retractions for served in replayed.requests)
    assert curves.used_tokens_start[0] == round(told[0]["kv_usage"] * 40) * 16
    assert max(curves.used_tokens_end) <= replayed.l1_tokens == 640
    assert all(used + free <= 640 for used, free in zip(curves.used_tokens_end, curves.evictable_tokens, strict=True))
    # under async scheduling a pass that finds nothing to do takes no time
    assert all(begin <= end for begin, end in zip(curves.start_s, curves.end_s, strict=True))


@pytest.mark.parametrize("behind", [False, True])
def test_the_end_of_time_cuts_and_changes_nothing_before(behind: bool) -> None:
    settings = replace(POOL, async_scheduling=behind)
    whole_rows: list[dict[str, Any]] = []
    whole = serve(crowd(3), settings, STEP, sink=whole_rows.append)
    rows: list[dict[str, Any]] = []
    cut = serve(crowd(3), settings, STEP, until_s=2.5, sink=rows.append)
    assert cut.end_s == 2.5
    assert len(cut.requests) == sum(r.arrival_s <= 2.5 for r in crowd(3).requests) < 60
    # what async scheduling saw of the future after a step differs, the step does not
    assert [row["t_end"] for row in rows] == [row["t_end"] for row in whole_rows if row["t_end"] <= 2.5]
    for mine, other in zip(cut.requests, whole.requests, strict=False):
        assert mine.first_token_s == (other.first_token_s if other.first_token_s and other.first_token_s <= 2.5 else None)
        assert mine.finish_s == (other.finish_s if other.finish_s and other.finish_s <= 2.5 else None)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    ("change", "prompt", "why"),
    [
        ({}, 700, "700 tokens, more than the KV pool's 640"),
        ({"chunked_prefill": False}, 300, "300 tokens, more than a step's 256, and chunked prefill is off"),
        ({"max_model_tokens": 300}, 320, "320 tokens, more than the model's 300"),
    ],
)
def test_a_request_that_never_fits_says_why_and_what_is_behind_it_waits(behind: bool, change: Any, prompt: int, why: str) -> None:
    settings = replace(POOL, **({"max_model_tokens": 2000} | change), async_scheduling=behind, max_running=1)
    small, large, late = request("small", 0.0, 20, 5), request("large", 0.01, prompt, 5), request("late", 9.0, 20, 5)
    replayed = serve(workload(small, large, late), settings, STEP)
    served = {one.id: one for one in replayed.requests}
    assert served["small"].finish_s is not None
    assert served["large"].refused == why
    assert served["late"].finish_s is None
    assert not served["late"].refused
    assert 9.0 <= replayed.end_s < 9.2


def test_requests_that_preempt_each_other_for_ever_come_to_an_end() -> None:
    # grows beyond the pool, is computed again from the start, and grows beyond it again
    settings = replace(POOL, num_blocks=5, reserve_full_isl=False, prefix_caching=False, async_scheduling=False, step_tokens=16)
    replayed = serve(workload(request("large", 0.0, 50, 30), request("small", 0.5, 20, 5)), settings, STEP)
    assert replayed.requests[0].refused == "65 tokens, more than the KV pool's 64"
    assert replayed.requests[0].finish_s is None
    assert replayed.retractions > 1000


def test_an_early_end_of_sequence_is_found_out_a_step_late() -> None:
    given = replace(POOL, async_scheduling=True)
    rows: list[dict[str, Any]] = []
    early = replace(request("a", 0.0, 20, 3), max_new_tokens=50)
    serve(workload(early), given, STEP, sink=rows.append)
    assert [row["scheduled_tokens"] for row in rows] == [20, 1, 1, 1]
    rows.clear()
    serve(workload(request("a", 0.0, 20, 3)), given, STEP, sink=rows.append)
    assert [row["scheduled_tokens"] for row in rows] == [20, 1, 1, 0]


def test_keys_are_equal_where_prefixes_are() -> None:
    requests = (
        request("a", 0.0, 40, 10, prefix=(("x", 20), ("y", 10))),
        request("b", 0.0, 40, 10, prefix=(("x", 20), ("z", 10))),
        request("c", 0.0, 40, 10, prefix=(("z", 10),)),
        request("d", 0.0, 40, 10, prefix=(("x", 20), ("y", 10))),
        request("e", 0.0, 40, 10),
    )
    a, b, c, d, e = shared_keys(workload(*requests), 8)
    assert a == d
    assert (len(a), len(b), len(c), len(e)) == (3, 2, 0, 0)
    assert a[:2] == b
    every = shared_keys(workload(*requests), 8, every=True)
    assert [len(keys) for keys in every] == [6] * 5
    assert every[0][:3] == a
    assert len({key for keys in every for key in keys}) == 6 * 5 - 3 - 2


def test_contents_that_are_looked_at_share_the_same() -> None:
    class Spelled:
        def __init__(self, contents: Distinct) -> None:
            self.prompt, self.output = contents.prompt, contents.output

    given = crowd(4)
    assert shared_keys(given, 16) == shared_keys(replace(given, contents=Spelled(given.contents)), 16)


def l2(settings: Vllm, tokens: int, rate: float = 40_000.0, block: int = 16) -> Vllm:
    return replace(settings, l2=L2(capacity_tokens=tokens, load_tokens_per_s=rate, block_tokens=block))


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("block", [8, 16, 32, 48])
def test_l2_gives_back_what_l1_has_lost(behind: bool, block: int) -> None:
    settings = replace(POOL, async_scheduling=behind, max_running=1)
    first = request("first", 0.0, 200, 4, prefix=(("x", 192),))
    other = request("other", 1.0, 560, 4)
    again = request("again", 2.0, 200, 4, prefix=(("x", 192),))
    rows: list[dict[str, Any]] = []
    replayed = serve(workload(first, other, again), l2(settings, 10_000, block=block), STEP, sink=rows.append)
    served = replayed.requests[2]
    # 'other' has left 16 tokens of the prefix in L1, or its blocks have taken all
    assert served.cached_tokens == 192
    assert served.l2_tokens == replayed.l2_loaded_tokens > 100
    assert replayed.l2_load_s == pytest.approx(served.l2_tokens / 40_000)
    without = serve(workload(first, other, again), settings, STEP)
    assert without.requests[2].cached_tokens == 192 - served.l2_tokens
    prefill = next(row for row in rows if row["t"] >= 2.0)
    assert prefill["scheduled_tokens"] == 8
    assert prefill["t_end"] - prefill["t"] == pytest.approx(0.01 + 8 * 0.0001 + 0.0002 + replayed.l2_load_s, abs=1e-5)
    # what was loaded has its blocks all the same
    assert prefill["kv_usage"] == round(1 - 27 / 40, 6)


def test_l2_is_in_no_admission_test() -> None:
    settings = replace(POOL, async_scheduling=False)
    holds = request("holds", 0.0, 400, 60)
    waits = request("waits", 0.3, 300, 4, prefix=(("x", 288),))
    before = request("before", -0.0, 300, 1, prefix=(("x", 288),))
    order = (before, holds, waits)
    with_l2, without = serve(workload(*order), l2(settings, 10_000, rate=1e9), STEP), serve(workload(*order), settings, STEP)
    assert with_l2.requests[2].first_scheduled_s == without.requests[2].first_scheduled_s
    assert with_l2.requests[2].first_token_s < without.requests[2].first_token_s


def test_an_l2_that_holds_nothing_changes_nothing() -> None:
    for seed in range(12):
        loaded = read(make(seed))
        plain, rows = _served(loaded.workload, loaded.settings, loaded.step_time)
        empty, empty_rows = _served(loaded.workload, l2(loaded.settings, 0), loaded.step_time)
        assert rows == empty_rows
        assert plain.requests == empty.requests


def _served(given: Workload, settings: Vllm, step_time: StepTime) -> tuple[Replayed, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    return serve(given, settings, step_time, sink=rows.append), rows
