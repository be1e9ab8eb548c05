"""Curves of a replay of SGLang show what the engine's own gauges do."""

from __future__ import annotations

from analyzer.replay.run import replay
from analyzer.replay.settings import Sglang
from analyzer.replay.step_time import StepTime
from analyzer.replay.workload import Distinct, Request, Workload


def test_requests_of_a_prefill_do_not_run_yet() -> None:
    requests = [Request(name, at_s, 100, 20, 20) for name, at_s in (("a", 0.0), ("b", 0.0), ("c", 0.055))]
    rows: list[dict[str, object]] = []
    made = replay(
        Workload(tuple(requests), Distinct(requests)),
        Sglang(l1_tokens=10_000, max_running=8, overlap=False),
        StepTime(0.01, 0.0, 0.0),
        sink=rows.append,
    )
    prefills = [k for k, tokens in enumerate(made.curves.prefill_tokens) if tokens]
    assert [made.curves.running[k] for k in prefills] == [row["running"] for row in rows if row["kind"] == "prefill"] == [0, 2]
    assert [made.curves.running[k + 1] for k in prefills] == [2, 3]
