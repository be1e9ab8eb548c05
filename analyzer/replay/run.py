"""One door to the engines' models."""

from __future__ import annotations

from analyzer.replay.result import Replayed, StepSink
from analyzer.replay.settings import Settings, Sglang
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.workload import Workload


def replay(
    workload: Workload,
    settings: Settings,
    step_time: StepTime,
    *,
    pace: Pace | None = None,
    until_s: float | None = None,
    sink: StepSink | None = None,
) -> Replayed:
    """Serve `workload` with the engine that `settings` are of; deterministic.

    Runs until every request is served or refused, or to `until_s`. With `sink` every step is told, one by one; without, equal steps
    in a row are taken in one go, and the result is the same.
    """
    if isinstance(settings, Sglang):
        from analyzer.replay.sglang import serve as serve_sglang

        return serve_sglang(workload, settings, step_time, pace=pace, until_s=until_s, sink=sink)
    from analyzer.replay.vllm import serve as serve_vllm

    return serve_vllm(workload, settings, step_time, pace=pace, until_s=until_s, sink=sink)
