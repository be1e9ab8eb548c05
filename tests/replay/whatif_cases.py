"""Small cases for what-ifs: a burst that a small pool cannot hold, and a calibration that fits."""

from __future__ import annotations

from dataclasses import replace

from analyzer.replay.bare import bare_case
from analyzer.replay.model import Calibration, Case, Measure, Outcome, Trust, WhatIf
from analyzer.replay.run import replay
from analyzer.replay.settings import Settings, Sglang, Vllm
from analyzer.replay.step_time import StepTime
from analyzer.replay.workload import Distinct, Request, Workload

STEP_TIME = StepTime(base_s=0.01, token_s=0.00002, request_s=0.0002)
SGLANG = Sglang(l1_tokens=2048, max_running=32, page_tokens=16, chunked_prefill_tokens=512, context_tokens=4096, overlap=False)
VLLM = Vllm(num_blocks=129, max_running=32, block_tokens=16, step_tokens=512, max_model_tokens=4096, async_scheduling=False)


def requests(n: int = 40, *, gap_s: float = 0.1, prompt: int = 150, output: int = 100, asks: int = 200) -> tuple[Request, ...]:
    """`n` requests, `gap_s` apart, no two of one length."""
    return tuple(Request(f"r{i}", i * gap_s, prompt + i % 7, output + i % 11, asks) for i in range(n))


def case(settings: Settings = SGLANG, given: tuple[Request, ...] | None = None) -> Case:
    """A case of these requests; nothing was observed of it."""
    served = requests() if given is None else given
    return bare_case("a server", Workload(served, Distinct(served)), settings, (), STEP_TIME)


def calibrated(of: Case, trust: Trust = "good", *, p50: float = 0.0, p99: float = 0.0) -> Calibration:
    """A calibration with these biases of the TTFT; one that is to be low misses the waiting."""
    waiting = Measure("waiting", "requests", 10.0, 4.0, 0.6, -0.6, 0.1, False)
    measures = (
        *([waiting] if trust == "low" else []),
        Measure("ttft_p50", "s", 1.0, 1.0 + p50, abs(p50), p50, 0.15, abs(p50) <= 0.15),
        Measure("ttft_p99", "s", 2.0, 2.0 + 2 * p99, abs(p99), p99, 0.15, abs(p99) <= 0.15),
    )
    unchanged = replay(of.workload, of.settings, of.fitted.step_time)
    return Calibration(measures, trust, (), thrash=False, unchanged=unchanged)


def outcome(p99: float | None, p50: float | None = None) -> Outcome:
    """An outcome of which only TTFT matters."""
    return Outcome(p99 if p50 is None else p50, p99, 5, 0.5, 1.0, 0, 40, 0, 0, 0.0)


def what_if(p99: float | None) -> WhatIf:
    """The same with nothing changed."""
    return WhatIf((), outcome(p99), None, None, trusted=True)


def with_settings(of: Case, **changed: object) -> Case:
    """`of` with other settings."""
    return replace(of, settings=replace(of.settings, **changed))
