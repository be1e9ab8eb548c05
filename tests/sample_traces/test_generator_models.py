"""The models against hand-computed cases and against results of the engines' real schedulers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from sample_traces.generator.sglang_model import (  # noqa: E402
    Cost,
    DecodeReport,
    PrefillReport,
    RetractReport,
    SGLangConfig,
    SGLangModel,
)
from sample_traces.generator.vllm_model import StepCost, VLLMConfig, VLLMModel  # noqa: E402
from sample_traces.generator.workload import Phase, Request, arrivals  # noqa: E402

ORACLE: dict[str, Any] = json.loads((HERE / "oracle_cases.json").read_text())


def sglang(requests: list[Request], capacity: int, **more: Any) -> SGLangModel:
    cfg = SGLangConfig(capacity, **{"max_running_requests": 64, "decode_log_interval": 1, **more})
    return SGLangModel(cfg, requests)


def ttft(seqs: list[Any]) -> list[float]:
    return sorted(s.first_token - s.req.arrival for s in seqs)


# -- the engines' own schedulers ------------------------------------------------------------


def oracle_requests(name: str) -> list[Request]:
    return [Request(n, *row) for n, row in enumerate(ORACLE[name]["requests"])]


@pytest.mark.parametrize("name", ["sglang_l1_retract", "sglang_reservation_bound"])
def test_sglang_as_its_own_scheduler(name: str) -> None:
    cfg, cost, want = (ORACLE[name][k] for k in ("config", "cost", "result"))
    a, b, c = cost["a"], cost["b"], cost["c"]
    model = sglang(
        oracle_requests(name), cfg["max_total_num_tokens"], conservativeness=cfg["schedule_conservativeness"],
        chunked_prefill_size=cfg["chunked_prefill_size"], page_size=cfg["page_size"], context_len=8192,
        cost=Cost(a, b, c, a, b + c),
    )  # fmt: skip
    model.run()
    steps = [r for r in model.reports if not isinstance(r, RetractReport)]
    waits = ttft(model.seqs)
    assert len(steps) == want["steps"]
    assert sum(s.retractions for s in model.seqs) == want["retractions"]
    assert max(r.queue for r in steps) == want["max_waiting"]
    assert max(r.running for r in steps) == want["max_running"]
    assert max(r.usage for r in steps) == pytest.approx(want["max_token_usage"], abs=1e-5)
    queued = [r.usage for r in steps if r.queue]
    assert sum(queued) / len(queued) == pytest.approx(want["mean_token_usage_while_waiting"], abs=0.001)
    assert waits[len(waits) // 2] == pytest.approx(want["ttft_p50"], abs=0.001)
    assert waits[int(len(waits) * 0.99)] == pytest.approx(want["ttft_p99"], abs=0.001)
    assert model.pool.used == 0


def test_vllm_as_its_own_scheduler() -> None:
    name = "vllm_l1_bound"
    cfg, cost, want = (ORACLE[name][k] for k in ("config", "cost", "result"))
    model = VLLMModel(
        VLLMConfig(
            cfg["num_blocks"] - 1, cfg["max_num_seqs"], cfg["max_num_batched_tokens"], cfg["block_size"],
            reserve_full_isl=True, cost=StepCost(cost["a"], cost["b"], cost["c"]),
        ),
        oracle_requests(name),
    )  # fmt: skip
    model.run()
    waits = ttft(model.seqs)
    assert len(model.preemptions) == want["preemptions"]
    assert sum(s.preemptions > 0 for s in model.seqs) == want["preempted_requests"]
    assert (model.peak_running, model.peak_waiting) == (want["max_running"], want["max_waiting"])
    assert model.peak_usage == pytest.approx(want["max_kv_usage"], abs=1e-5)
    assert waits[len(waits) // 2] == pytest.approx(want["ttft_p50"], abs=0.001)
    assert waits[int(len(waits) * 0.99)] == pytest.approx(want["ttft_p99"], abs=0.001)
    assert model.pool.used == 0


# -- SGLang by hand -------------------------------------------------------------------------


@pytest.mark.parametrize(("prompt", "admitted"), [(390, True), (391, False)])
def test_admission_is_strict_and_discounts_running_requests(prompt: int, admitted: bool) -> None:
    # After the first prefill: free 1000 - 100; reserved (300 - 1) x 0.7 = 209.3; so 690.7 are left
    # and the second request needs prompt + 299 + 1 page.
    first, second = Request(0, 0.0, 100, 300, 300), Request(1, 0.01, prompt, 299, 299)
    model = sglang([first, second], 1000)
    model.run(until=0.1)
    assert (model.seqs[1].first_token is not None) == admitted
    assert model.batch_is_full != admitted


def test_ratio_decays_in_600_decode_steps_and_returns_when_idle() -> None:
    model = sglang([Request(0, 0.0, 10, 1000, 1000)], 10_000)
    model.run(until=0.0305 * 500)
    assert 0.098 < model.ratio < 0.7
    model.run(until=0.0305 * 900)
    assert model.ratio == pytest.approx(0.098)
    model.run()
    assert model.ratio == pytest.approx(0.7)


def test_retraction_takes_the_youngest_and_lifts_the_ratio() -> None:
    # Three requests of 100 + 200 tokens do not fit into 600 together.
    requests = [Request(n, 0.2 * n, 100, 200, 200) for n in range(3)]
    model = sglang(requests, 600, conservativeness=0.1)
    model.run()
    events = [r for r in model.reports if isinstance(r, RetractReport)]
    assert [s.retractions for s in model.seqs] == [0, 0, 1]
    assert [e.requests for e in events] == [1]
    assert events[0].ratio_after > events[0].ratio_before
    assert model.recomputed_tokens > 0
    # One token a step and request: full when the three hold 600 tokens.
    before = [r for r in model.reports if isinstance(r, DecodeReport) and r.t <= events[0].t][-1]
    assert before.running == 3
    assert 597 < before.tokens <= 600
    assert all(s.out == 200 for s in model.seqs)


def test_the_reservation_can_be_full_while_the_pool_is_empty() -> None:
    phases = (Phase(30.0, 6.0, (60, 120), (20, 60), max_new=4000),)
    model = sglang(arrivals(phases, 1), 8192)
    model.run()
    queued = [r for r in model.reports if not isinstance(r, RetractReport) and r.queue]
    assert queued
    assert max(r.usage for r in queued) < 0.1
    assert not [r for r in model.reports if isinstance(r, RetractReport)]


def test_the_cap_stops_admission_in_front_of_an_empty_pool() -> None:
    model = sglang(arrivals((Phase(20.0, 4.0, (50, 90), (40, 60)),), 2), 50_000, max_running_requests=2)
    model.run()
    steps = [r for r in model.reports if isinstance(r, DecodeReport)]
    assert max(r.running for r in steps) == 2
    assert {r.running for r in steps if r.queue} == {2}
    assert max(r.usage for r in steps) < 0.02


def test_long_prompts_go_in_chunks() -> None:
    model = sglang([Request(0, 0.0, 1000, 3, 3)], 5000, chunked_prefill_size=400)
    model.run()
    chunks = [r for r in model.reports if isinstance(r, PrefillReport)]
    assert [r.new_tokens for r in chunks] == [400, 400, 200]
    assert [r.pending_tokens for r in chunks] == [600, 200, 0]


def test_a_shared_prefix_is_held_once_and_counted_as_cached() -> None:
    requests = [Request(n, 0.5 * n, 300, 100, 100, prefix_id=0, prefix_len=200) for n in range(4)]
    model = sglang(requests, 5000)
    model.run()
    prefills = [r for r in model.reports if isinstance(r, PrefillReport)]
    assert [(r.new_tokens, r.cached_tokens) for r in prefills] == [
        (300, 0),
        (100, 200),
        (100, 200),
        (100, 200),
    ]
    assert max(r.tokens for r in model.reports if isinstance(r, DecodeReport)) <= 200 + 4 * 200


# -- vLLM by hand ---------------------------------------------------------------------------


def vllm(requests: list[Request], blocks: int, **more: Any) -> VLLMModel:
    model = VLLMModel(VLLMConfig(blocks, **{"max_num_seqs": 64, **more}), requests)
    model.run()
    assert model.pool.used == 0
    assert all(s.out == s.req.output for s in model.seqs)
    return model


def test_the_last_running_request_is_preempted() -> None:
    # 2 x (32 + 64) tokens are 12 blocks of 16, and there are 10.
    model = vllm([Request(n, 0.0, 32, 64, 64) for n in range(2)], 10)
    assert [p.rid for p in model.preemptions] == [1]
    assert model.peak_usage == 1.0


def test_the_whole_sequence_must_fit_in_recent_versions() -> None:
    # 100 of 128 blocks are taken; 40 blocks of prompt start in chunks of 16 before, and wait now.
    requests = [Request(0, 0.0, 1600, 400, 400), Request(1, 0.5, 640, 10, 10)]
    early = vllm(requests, 128, max_num_batched_tokens=256)
    late = vllm(requests, 128, max_num_batched_tokens=256, reserve_full_isl=True)
    assert len(early.preemptions) > 0
    assert len(late.preemptions) == 0


def test_v0_keeps_a_watermark_and_recomputes() -> None:
    requests = arrivals((Phase(40.0, 3.0, (50, 90), (60, 120)),), 3)
    model = vllm(requests, 60, v0=True, watermark=0.05, stats_interval=5.0)
    assert model.watermark_blocks == 3
    assert model.preemptions
    assert max(s.waiting for s in model.stats) > 0


def test_stats_lines_stop_after_one_of_zeros() -> None:
    requests = [Request(0, 1.0, 32, 20, 20), Request(1, 95.0, 32, 20, 20)]
    model = vllm(requests, 100)
    assert [s.t for s in model.stats] == [10.0, 20.0, 100.0, 110.0]
    assert [s.prompt_tps for s in model.stats] == [3.2, 0.0, 3.2, 0.0]


def test_arrivals_are_reproducible_and_in_order() -> None:
    phases = (Phase(60.0, 1.0, (10, 20), (5, 9), rate_end=3.0, burst=4, burst_every=20.0),)
    one, two = arrivals(phases, 7), arrivals(phases, 7)
    assert one == two
    assert [r.arrival for r in one] == sorted(r.arrival for r in one)
    assert [r.rid for r in one] == list(range(len(one)))
