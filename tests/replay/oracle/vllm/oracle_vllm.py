#!/usr/bin/env python3
"""Drive vLLM's own V1 scheduler and KV cache manager, without a model and in virtual time.

    oracle_vllm.py WORKLOAD.json OUT_PREFIX [WORKLOAD.json OUT_PREFIX ...]

A workload is {"config": {...}, "cost": {"a", "b", "c"}, "requests": [{"id", "arrival", "prompt_len", "output_len", ...}]}. A step takes
a + b x scheduled tokens + c x running requests seconds. config: num_blocks (with vLLM's null block: one less is usable), block_size,
max_num_seqs, max_num_batched_tokens, and where they differ from the default max_model_len, watermark, enable_prefix_caching,
reserve_full_isl, chunked_prefill, long_prefill_token_threshold, policy, async. A request may have prefix_id and prefix_len, priority, and
max_new_tokens above output_len, which is where it stops then.

Written are OUT_PREFIX.steps.jsonl, OUT_PREFIX.requests.jsonl and OUT_PREFIX.summary.json. Of a step, `t` and `t_end` are when it runs;
running, waiting and kv_usage are taken right after it was scheduled, the ones with _end after its output was taken in (what the metrics
endpoint shows).

With "async": true it is the AsyncScheduler in the order of the engine core's batch queue: a step is scheduled while the one before it is on
the device, and starts when that one ends; first_scheduled is then when the pass was made. A step without tokens takes no time there.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

import torch
import vllm
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

MODEL = os.environ.get("ORACLE_MODEL", str(Path(__file__).resolve().parent / "model"))
TOKEN, STOP_TOKEN = 7, 9
# a scheduler that can do nothing any more is given up after this many steps
PATIENCE = 10


@dataclass
class Launched:
    """A step that was scheduled, with what was true right after."""

    output: SchedulerOutput
    samples: dict[str, bool]
    start: float
    end: float
    row: dict[str, Any]


class Oracle:
    """One workload in one scheduler."""

    def __init__(self, workload: dict[str, Any]) -> None:
        self.config, self.cost = workload["config"], workload["cost"]
        self.behind = bool(self.config.get("async"))
        init_none_hash(sha256)
        self.hasher = get_request_block_hasher(self.config["block_size"], sha256)
        self.scheduler = make(self.config)
        self.coming = deque(sorted(workload["requests"], key=lambda r: r["arrival"]))
        self.info: dict[str, dict[str, Any]] = {}
        self.requests: dict[str, Request] = {}
        self.now = self.device_free = 0.0
        self.preemptions = 0
        self.prefix = dict.fromkeys(("prefix_queries", "prefix_hits", "preempted_queries", "preempted_hits"), 0)
        self.steps: list[dict[str, Any]] = []
        self.under_way: deque[Launched] = deque()

    def run(self) -> None:
        """To the end, or until nothing can be scheduled any more."""
        scheduler = self.scheduler
        while self.coming or scheduler.has_unfinished_requests() or self.under_way:
            if not scheduler.has_unfinished_requests() and not self.under_way:
                self.now = max(self.now, self.coming[0]["arrival"])
            while self.coming and self.coming[0]["arrival"] <= self.now:
                self.add(self.coming.popleft())
            if scheduler.has_unfinished_requests():
                self.launch()
                if len(self.under_way) < (2 if self.behind else 1):
                    continue
            last = self.under_way[-1]
            done = self.under_way.popleft()
            self.complete(done)
            if self.stuck(done, last):
                print("STUCK: waiting but nothing schedulable")
                break

    def add(self, row: dict[str, Any]) -> None:
        """A request arrives."""
        rid = str(row["id"])
        stops = row.get("max_new_tokens", row["output_len"]) > row["output_len"]
        params = SamplingParams(
            ignore_eos=True,
            max_tokens=row["max_new_tokens"] if stops else row["output_len"],
            stop_token_ids=[STOP_TOKEN] if stops else None,
        )
        request = Request(
            request_id=rid,
            prompt_token_ids=prompt(row),
            pooling_params=None,
            arrival_time=row["arrival"],
            sampling_params=params,
            priority=row.get("priority", 0),
            block_hasher=self.hasher,
        )
        self.scheduler.add_request(request)
        self.requests[rid] = request
        self.info[rid] = {
            "id": rid,
            "arrival": row["arrival"],
            "added": self.now,
            "prompt_len": row["prompt_len"],
            "output_len": row["output_len"],
            "prefix_id": row.get("prefix_id"),
            "first_scheduled": None,
            "first_token": None,
            "finish": None,
            "preemptions": 0,
        }

    def launch(self) -> None:
        """Schedule a step and send it off."""
        output = self.scheduler.schedule()
        preempted = set(getattr(output, "preempted_req_ids", None) or ())
        self.preemptions += len(preempted)
        running, waiting = self.scheduler.get_request_counts()
        tokens = output.total_num_scheduled_tokens
        seconds = self.cost["a"] + self.cost["b"] * tokens + self.cost["c"] * running
        start = max(self.now, self.device_free)
        end = start + seconds if tokens or not self.behind else start
        self.device_free = end
        samples, prefill = {}, 0
        for rid, n in output.num_scheduled_tokens.items():
            samples[rid] = not self.requests[rid].is_prefill_chunk
            if n > 1 or not samples[rid]:
                prefill += n
            if self.info[rid]["first_scheduled"] is None:
                self.info[rid]["first_scheduled"] = self.now
        row = {
            "scheduled_tokens": tokens,
            "prefill_tokens": prefill,
            "running": running,
            "waiting": waiting,
            "kv_usage": round(self.scheduler.kv_cache_manager.usage, 6),
            "preempted": sorted(preempted),
            "preemptions": self.preemptions,
        }
        self.under_way.append(Launched(output, samples, start, end, row))

    def complete(self, step: Launched) -> None:
        """Wait for a step and take in its output."""
        self.now = max(self.now, step.end)
        ids = list(step.samples)
        sampled = [self.sampled(rid) if step.samples[rid] else [] for rid in ids]
        for rid in ids:
            if step.samples[rid] and self.info[rid]["first_token"] is None:
                self.info[rid]["first_token"] = step.end
        output = ModelRunnerOutput(req_ids=ids, req_id_to_index={rid: at for at, rid in enumerate(ids)}, sampled_token_ids=sampled)
        outs = self.scheduler.update_from_output(step.output, output)
        # update_from_output makes the stats itself, which sets the prefix counters back
        stats = next((o.scheduler_stats for o in outs.values() if o.scheduler_stats is not None), None) or self.scheduler.make_stats()
        seen = stats.prefix_cache_stats
        for key, more in zip(self.prefix, (seen.queries, seen.hits, seen.preempted_queries, seen.preempted_hits), strict=True):
            self.prefix[key] += more
        for rid in ids:
            if self.info[rid]["finish"] is None and self.requests[rid].is_finished():
                self.info[rid]["finish"] = step.end
        running, waiting = self.scheduler.get_request_counts()
        row = step.row
        self.steps.append(
            {
                "step": len(self.steps),
                "t": round(step.start, 6),
                "t_end": round(step.end, 6),
                **{key: row[key] for key in ("scheduled_tokens", "prefill_tokens", "running", "waiting", "kv_usage")},
                "running_end": running,
                "waiting_end": waiting,
                "kv_usage_end": round(stats.kv_cache_usage, 6),
                "preempted": row["preempted"],
                "preemptions": row["preemptions"],
                **self.prefix,
            }
        )

    def sampled(self, rid: str) -> list[int]:
        """A request's next token."""
        request = self.requests[rid]
        last = request.num_output_tokens + 1 == self.info[rid]["output_len"] < request.max_tokens
        return [STOP_TOKEN if last else TOKEN]

    def stuck(self, done: Launched, last: Launched) -> bool:
        """Whether nothing will be scheduled any more; where only an arrival helps, async time goes on to it."""
        idle = not any(step.row["scheduled_tokens"] for step in (done, last, *self.under_way)) and not last.row["preempted"]
        if not idle:
            return False
        if not self.behind:
            waits = self.scheduler.get_request_counts()[1] > 0 and last.row["running"] == 0
            return not self.coming and waits and len(self.steps) > PATIENCE
        if self.coming and self.scheduler.has_unfinished_requests():
            self.now = max(self.now, self.coming[0]["arrival"])
        return not self.coming and self.scheduler.has_unfinished_requests()

    def write(self, out: str) -> None:
        """The steps, the requests and a summary."""
        rows = list(self.info.values())
        for row in rows:
            row["preemptions"] = self.requests[row["id"]].num_preemptions
        assert sum(row["preemptions"] for row in rows) == self.preemptions
        Path(f"{out}.steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.steps))
        Path(f"{out}.requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        Path(f"{out}.summary.json").write_text(json.dumps(self.summary(rows), indent=1))

    def summary(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The run in a few numbers."""
        ttft = sorted(row["first_token"] - row["arrival"] for row in rows if row["first_token"] is not None)
        queries = self.prefix["prefix_queries"]
        return {
            "vllm": vllm.__version__,
            "requests": len(rows),
            "finished": sum(row["finish"] is not None for row in rows),
            "steps": len(self.steps),
            "sim_seconds": round(self.now, 3),
            "max_waiting": max(step["waiting"] for step in self.steps),
            "max_running": max(step["running"] for step in self.steps),
            "max_kv_usage": max(step["kv_usage"] for step in self.steps),
            "preemptions": self.preemptions,
            "preempted_requests": sum(row["preemptions"] > 0 for row in rows),
            "ttft_p50": round(ttft[len(ttft) // 2], 4) if ttft else None,
            "ttft_p99": round(ttft[min(len(ttft) - 1, int(len(ttft) * 0.99))], 4) if ttft else None,
            "prefix_hit_rate": round(self.prefix["prefix_hits"] / queries, 4) if queries else 0,
            "preempted_queries": self.prefix["preempted_queries"],
            "preempted_hits": self.prefix["preempted_hits"],
        }


def make(config: dict[str, Any]) -> Scheduler:
    """A scheduler with a pool of one full-attention layer."""
    behind = bool(config.get("async"))
    longest = config.get("max_model_len", 8192)
    scheduler = SchedulerConfig(
        max_num_seqs=config["max_num_seqs"],
        max_num_batched_tokens=config["max_num_batched_tokens"],
        max_model_len=longest,
        enable_chunked_prefill=config.get("chunked_prefill", True),
        is_encoder_decoder=False,
        async_scheduling=behind,
        watermark=config.get("watermark", 0.0),
        scheduler_reserve_full_isl=config.get("reserve_full_isl", True),
        long_prefill_token_threshold=config.get("long_prefill_token_threshold", 0),
        policy=config.get("policy", "fcfs"),
    )
    model = ModelConfig(model=MODEL, dtype="float32", seed=0, max_model_len=longest)
    cache = CacheConfig(block_size=config["block_size"], enable_prefix_caching=config.get("enable_prefix_caching", True))
    everything = VllmConfig(scheduler_config=scheduler, model_config=model, cache_config=cache)
    # vLLM switches async scheduling off on a CPU; there is no device here that it could not be done on
    everything.scheduler_config.async_scheduling = behind
    spec = FullAttentionSpec(block_size=config["block_size"], num_kv_heads=1, head_size=1, dtype=torch.float32)
    pool = KVCacheConfig(num_blocks=config["num_blocks"], kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    cache.num_gpu_blocks = config["num_blocks"]
    return (AsyncScheduler if behind else Scheduler)(
        vllm_config=everything,
        kv_cache_config=pool,
        structured_output_manager=StructuredOutputManager(everything),
        block_size=config["block_size"],
        log_stats=True,
    )


def prompt(row: dict[str, Any]) -> list[int]:
    """Its token ids: those of its prefix, then its own."""
    shared = row.get("prefix_len", 0) if row.get("prefix_id") is not None else 0
    own = drawn(f"r{row['id']}", row["prompt_len"] - shared)
    return drawn(f"p{row['prefix_id']}", shared) + own if shared else own


def drawn(seed: str, tokens: int) -> list[int]:
    """Token ids that are the same for the same seed."""
    dice = random.Random(seed)
    return [dice.randrange(3, 1000) for _ in range(tokens)]


def main(arguments: list[str]) -> None:
    """Run each workload and write what came of it."""
    for workload, out in zip(arguments[::2], arguments[1::2], strict=True):
        oracle = Oracle(json.loads(Path(workload).read_text()))
        oracle.run()
        oracle.write(out)
        print(Path(out).name, oracle.summary(list(oracle.info.values())))


if __name__ == "__main__":
    main(sys.argv[1:])
