"""The seconds that a replay's work takes by the model are those it took, and shared prefixes are read by each request that has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analyzer.replay.fit.reads import ReadTwice, as_read
from analyzer.replay.fit.tuned import work_done
from analyzer.replay.fit.work import Work
from analyzer.replay.run import replay
from analyzer.replay.settings import Settings, Sglang, Vllm
from analyzer.replay.step_time import StepTime
from analyzer.replay.workload import Distinct, Request, Workload

_SGLANG = Sglang(l1_tokens=60_000, max_running=32, chunked_prefill_tokens=1024, overlap=False)
_VLLM = Vllm(num_blocks=4001, max_running=32, step_tokens=1024, async_scheduling=False)


def _requests(prefix_tokens: int) -> tuple[Request, ...]:
    """All at once, so that the engine is never idle; half with one prefix, half with another."""
    return tuple(
        Request(str(n), 0.0, 1100 + 13 * n, 80, 80, prefix=((f"p{n % 2}", prefix_tokens),) if prefix_tokens else ()) for n in range(40)
    )


@pytest.mark.parametrize("settings", [_SGLANG, _VLLM])
@pytest.mark.parametrize("prefix_tokens", [0, 1024])
@pytest.mark.parametrize("step", [StepTime(0.01, 0.0, 0.002), StepTime(0.002, 0.00001, 0.0, kv_token_s=1e-6)])
def test_work_takes_the_seconds_it_took(settings: Settings, prefix_tokens: int, step: StepTime) -> None:
    requests = _requests(prefix_tokens)
    workload = Workload(requests, Distinct(requests))
    made = replay(workload, settings, step)
    edges = np.array([made.curves.end_s[-1] / 2, made.curves.end_s[-1]])
    # the step that runs in the middle is not done
    assert work_done(step, edges, {}, workload, settings, made) == pytest.approx(edges, rel=0.05)


def _three() -> ReadTwice:
    """A prefix of 100 tokens that is read by one, by two, by three, and by two again, second by second."""
    requests = [Request(str(n), 0.0, 200, 10, 10, prefix=(("p", 100),)) for n in range(3)]
    return ReadTwice(requests, [("0", 0.0, 4.0), ("1", 1.0, 5.0), ("2", 2.0, 3.0)], _VLLM)


def test_a_prefix_is_read_by_each_that_has_it_and_held_once() -> None:
    at = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert _three().mean(at[:-1], at[1:]).tolist() == pytest.approx([0, 100, 200, 100, 0, 0])
    assert _three().mean(np.array([0.0]), np.array([5.0])).tolist() == pytest.approx([80])


def test_without_a_prefix_cache_each_holds_its_own() -> None:
    requests = [Request(str(n), 0.0, 200, 10, 10, prefix=(("p", 100),)) for n in range(2)]
    alone = ReadTwice(requests, [("0", 0.0, 4.0), ("1", 0.0, 4.0)], replace(_VLLM, prefix_caching=False))
    assert alone.mean(np.array([0.0]), np.array([4.0])).tolist() == [0.0]


def test_rows_to_fit_to_count_what_is_read_and_not_what_is_held() -> None:
    held = Work(1.0, 2.0, 1.0, 10.0, 30.0, 20.0, prefills=4.0, kv_tokens=10 * 300.0)
    (vllm,) = as_read([held], _three(), _VLLM)
    (sglang,) = as_read([held], _three(), _SGLANG)
    assert (vllm.kv_tokens, sglang.kv_tokens) == pytest.approx((3000 + 10 * 100, 3000 + 6 * 100))
    (untold,) = as_read([Work(1.0, 2.0, 1.0, 10.0, 30.0, 20.0)], _three(), _VLLM)
    assert untold.kv_tokens == 0.0
