"""vLLM's metrics endpoint over time, from what the model did; names and labels as each version has them.

Gauges are the state the last step left behind. All series are there from the start, with 0.
"""

from __future__ import annotations

from functools import partial

from sample_traces.generator.exposition import Clock, Event, Family, Histogram
from sample_traces.generator.render import VLLMServer
from sample_traces.generator.vllm_model import Seq, Step, VLLMModel

LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
FINISHED = {"0.11.2": ("stop", "length", "abort"), "0.33": ("stop", "length", "abort", "error", "repetition")}


class VLLMEndpoint:
    """One API server with one engine core (V1)."""

    def __init__(self, server: VLLMServer, model: VLLMModel, process_start: float) -> None:
        self._server, self._model, self._process_start = server, model, process_start
        self._step: Step | None = None
        self._totals = dict.fromkeys(("queried", "hit", "preemptions", "prompt", "generated"), 0)
        self._finished = dict.fromkeys(FINISHED[server.version], 0)
        self._ttft, self._itl, self._e2e, self._queue = (Histogram(b) for b in (TTFT, ITL, LATENCY, LATENCY))
        events: list[Event] = [(s.t, partial(self._count, s)) for s in model.steps]
        for seq in model.seqs:
            if seq.first_token is not None:
                events.append((seq.first_token, partial(self._ttft.observe, seq.first_token - seq.req.arrival)))
            if seq.finish is not None:
                events.append((seq.finish, partial(self._finish, seq, seq.finish)))
        self._clock = Clock(events)

    def _count(self, step: Step) -> None:
        self._step = step
        for name, more in (
            ("queried", step.queried_tokens),
            ("hit", step.hit_tokens),
            ("preemptions", step.preemptions),
            ("prompt", step.prompt_tokens),
            ("generated", step.generated_tokens),
        ):
            self._totals[name] += more
        for gap, times in step.gaps.items():
            self._itl.observe(gap, times)

    def _finish(self, seq: Seq, t: float) -> None:
        self._e2e.observe(t - seq.req.arrival)
        if seq.admitted is not None:  # waits after a preemption are not in it
            self._queue.observe(seq.admitted - seq.req.arrival)
        self._finished["length" if seq.out >= seq.req.max_new else "stop"] += 1

    def read(self, t: float) -> list[Family]:
        """All families at t."""
        self._clock.advance(t)
        engine = {"model_name": self._server.model.path, "engine": "0"}
        step, totals = self._step, self._totals
        waiting = step.waiting if step else 0
        families = [
            Family("process_start_time_seconds", "gauge").add({}, self._process_start),
            Family("vllm:num_requests_running", "gauge").add(engine, step.running if step else 0),
            Family("vllm:num_requests_waiting", "gauge").add(engine, waiting),
        ]
        if self._server.format.one_capacity_line:
            reasons = Family("vllm:num_requests_waiting_by_reason", "gauge")
            reasons.add({**engine, "reason": "capacity"}, waiting).add({**engine, "reason": "deferred"}, 0)
            families.append(reasons)
        usage = step.used / self._model.cfg.blocks if step else 0.0
        families.append(Family("vllm:kv_cache_usage_perc", "gauge").add(engine, usage))
        for name, total in (
            ("prefix_cache_queries", "queried"),
            ("prefix_cache_hits", "hit"),
            ("num_preemptions", "preemptions"),
            ("prompt_tokens", "prompt"),
            ("generation_tokens", "generated"),
        ):
            families.append(Family(f"vllm:{name}_total", "counter").add(engine, totals[total]))
        success = Family("vllm:request_success_total", "counter")
        for reason, requests in self._finished.items():
            success.add({**engine, "finished_reason": reason}, requests)
        families.append(success)
        for name, histogram in (
            ("time_to_first_token_seconds", self._ttft),
            ("inter_token_latency_seconds", self._itl),
            ("e2e_request_latency_seconds", self._e2e),
            ("request_queue_time_seconds", self._queue),
        ):
            families.append(Family(f"vllm:{name}", "histogram").add(engine, histogram))
        families.append(self._cache_config())
        return families

    def _cache_config(self) -> Family:
        blocks, size = self._server.blocks + 1, self._server.block_size  # with the null block
        new = self._server.format.one_capacity_line
        labels = {
            "engine": "0",
            "block_size": str(size),
            "cache_dtype": "auto",
            "enable_prefix_caching": "True",
            "gpu_memory_utilization": "0.92" if new else "0.9",
            "num_gpu_blocks": str(blocks),
            "num_gpu_blocks_override": "None",
            "num_cpu_blocks": "None",
        }
        if new:
            labels["kv_cache_size_tokens"] = str(blocks * size)
        return Family("vllm:cache_config_info", "gauge").add(labels, 1)
