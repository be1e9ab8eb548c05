"""SGLang 0.5.23's scheduling code, driven without a model or a GPU, in virtual time.

Real, imported and unmodified: `Scheduler` (get_next_batch_to_run and all below it, with the batch_is_full latch), `SchedulePolicy`,
`PrefillAdder`, `PrefillBudget`, `NewTokenRatioTracker`, the radix cache that create_tree_cache builds, the allocators, `ReqToTokenPool`,
`Req`, `ScheduleBatch`, release_kv_cache and checkpoint_kv_cache. Written here: the attributes that the scheduler's methods read, the
event loops around them, made-up tokens, and what is left of the handling of results without a detokenizer.
"""

from __future__ import annotations

import json
import random
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import sglang
import sgstubs
import torch
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.managers.schedule_policy import PrefillAdder, SchedulePolicy
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.scheduler_components.new_token_ratio_tracker import NewTokenRatioTracker
from sglang.srt.managers.scheduler_components.pool_stats_observer import SchedulerPoolStatsObserver
from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator, TokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.common import checkpoint_kv_cache, release_kv_cache
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.registry import TreeCacheBuildContext, create_tree_cache
from sglang.srt.runtime_context import get_context, get_parallel, get_schedule
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

EOS, TOKEN, VOCABULARY = 2, 7, 32000
LOWEST, BEYOND = 3, 1000
IDLE_PASSES = 3

torch.set_num_threads(1)


class OracleScheduler(Scheduler):
    """The real methods do the work; a few are wrapped to write down what they did."""

    def __init__(self, config: dict[str, Any], server_args: Any) -> None:
        self.server_args = server_args
        self.max_running_requests = config["max_running_requests"]
        self.max_prefill_tokens = config["max_prefill_tokens"]
        chunk = config.get("chunked_prefill_size")
        self.chunked_prefill_size = chunk if chunk and chunk > 0 else None
        self._set_memory(config)
        self._set_features(bool(config.get("overlap")))
        self._set_state()
        self._set_mocks()
        self.retracted: list[str] = []
        self.aborted: list[str] = []
        self.checks: list[dict[str, Any]] = []

    def _set_memory(self, config: dict[str, Any]) -> None:
        total, page, context = config["max_total_num_tokens"], config["page_size"], config.get("context_length", 8192)
        cache = MagicMock(name="kvcache")
        self.device = cache.device = "cpu"
        self.page_size, self.max_total_num_tokens = page, total
        self.max_req_len = min(context - 1, total - 1)
        self.max_new_tokens_limit = self.sliding_window_size = None
        self.kv_shard_widening = 1
        self.req_to_token_pool = ReqToTokenPool(self.max_running_requests, context + 4, "cpu", False)
        self.token_to_kv_pool_allocator = (
            TokenToKVPoolAllocator(total, torch.float16, "cpu", cache, False)
            if page == 1
            else PagedTokenToKVPoolAllocator(total, page, torch.float16, "cpu", cache, False)
        )
        self.model_config = SimpleNamespace(is_encoder_decoder=False, vocab_size=VOCABULARY, num_key_value_heads=1)
        params = CacheInitParams(
            disable=bool(config.get("disable_radix_cache")),
            req_to_token_pool=self.req_to_token_pool,
            token_to_kv_pool_allocator=self.token_to_kv_pool_allocator,
            page_size=page,
            chunked_prefill_size=self.chunked_prefill_size,
        )
        self.tree_cache = create_tree_cache(
            TreeCacheBuildContext(
                server_args=self.server_args,
                params=params,
                is_hybrid_swa=False,
                is_hybrid_ssm=False,
                enable_hierarchical_cache=False,
                disable_radix_cache=params.disable,
                tp_worker=None,
                model_config=self.model_config,
                tp_size=1,
                tp_rank=0,
                tp_group=None,
            )
        )

    def _set_features(self, overlap: bool) -> None:
        self.enable_overlap = self.enable_skip_finishing_decode = overlap
        self.enable_hierarchical_cache = self.enable_hicache_storage = self.enable_lmcache = False
        self.enable_unified_cache_external_linker = self.enable_hisparse = self.enable_lora = False
        self.is_hybrid_swa = self.is_hybrid_ssm = self.is_mixed_chunk = False
        self.enable_priority_scheduling = self.enable_priority_preemption = False
        self.schedule_low_priority_values_first = self.abort_on_priority_when_disabled = False
        self.require_mlp_sync = False
        self.priority_scheduling_preemption_threshold = 0
        self.prefill_decode_interval = self.max_prefill_bs = self.dp_tp_rank = 0
        self.disaggregation_mode = DisaggregationMode.NULL
        self.spec_algorithm = SpeculativeAlgorithm.NONE
        self.dllm_config = self.dynamic_chunk_sizer = self.min_free_slots_delayer = self.prefill_delayer = None
        self.truncation_align_size = self.hisparse_coordinator = self.decode_offload_manager = self.lora_drainer = None
        self.max_queued_requests = self.scheduler_stage_metrics = None

    def _set_state(self) -> None:
        self.policy = SchedulePolicy(get_schedule().schedule_policy, self.tree_cache, False, False, False)
        self.new_token_ratio_tracker = NewTokenRatioTracker.from_config()
        self.waiting_queue = []
        self.running_batch = ScheduleBatch(reqs=[], batch_is_full=False)
        self.last_batch = self.chunked_req = self._pending_chunked_abort_req = None
        self.result_queue = []
        self.forward_ct = self._prefill_decode_interval_remaining = self.processed_tokens_counter = 0

    def _set_mocks(self) -> None:
        """Helpers that change nothing here."""
        self.grammar_manager = MagicMock()
        self.grammar_manager.has_waiting_grammars.return_value = False
        self.dp_attn_adapter = MagicMock()
        self.dp_attn_adapter.maybe_prepare_mlp_sync_batch.side_effect = lambda batch, **_: batch
        self.dp_attn_adapter.maybe_convert_decode_to_extend.side_effect = lambda batch: batch
        self.ngram_embedding_manager = MagicMock()
        self.ngram_embedding_manager.prepare_for_forward.side_effect = lambda batch, **_: batch
        self.beam_coordinator = MagicMock()
        self.beam_coordinator.pending_member_rows.return_value = 0
        self.metrics_reporter = MagicMock()
        self.metrics_reporter.enable_metrics = False
        self.load_inquirer = MagicMock()
        self.load_inquirer._get_num_pending_tokens.return_value = 0
        self.tp_worker = SimpleNamespace(model_runner=SimpleNamespace(attn_backend=object(), prefill_aware_swa=False))

    def _add_request_to_queue(self, req: Req, is_retracted: bool = False) -> None:
        if is_retracted:
            self.retracted.append(req.rid)
        super()._add_request_to_queue(req, is_retracted=is_retracted)

    def get_prefill_adder_class(self) -> type[PrefillAdder]:
        checks = self.checks

        class RecordingAdder(PrefillAdder):
            def _check_prefill_budget(self, req: Req, **told: Any) -> tuple[bool, int | None]:
                # called while the candidate's own prefix is locked
                answer = super()._check_prefill_budget(req, **told)
                room = round(self.memory_budget.remaining_total, 3)
                checks.append(
                    {"id": req.rid, "need": told["total_tokens"], "rem_total": room, "ok": bool(answer[0]), "prefix": req.prefix_len}
                )
                return answer

        return RecordingAdder

    def send_abort_output(self, abort: Any, req: Req) -> None:
        self.aborted.append(req.rid)

    def stats(self) -> Any:
        return SchedulerPoolStatsObserver._get_token_info(self)


def run(workload: dict[str, Any], out: str) -> dict[str, Any]:
    """Serve `workload` and write the three files; the summary."""
    config = workload["config"]
    arguments = {
        "page_size": config["page_size"],
        "chunked_prefill_size": config.get("chunked_prefill_size") or -1,
        "max_prefill_tokens": config["max_prefill_tokens"],
        "max_running_requests": config["max_running_requests"],
        "schedule_conservativeness": config.get("schedule_conservativeness", 1.0),
        "schedule_policy": config.get("schedule_policy", "fcfs"),
        "disable_radix_cache": bool(config.get("disable_radix_cache")),
        "disable_overlap_schedule": not config.get("overlap"),
        "attention_backend": "torch_native",
        "device": "cpu",
    }
    with (
        get_context().override_server_args(**arguments) as server_args,
        get_parallel().override(pp_max_micro_batch_size=config["max_running_requests"]),
        torch.inference_mode(),
    ):
        server = Server(OracleScheduler(config, server_args), workload)
        server.run()
        return server.write(out)


@dataclass
class Server:
    """The event loop around the scheduler. With overlap batch k is scheduled when result k - 2 is in and starts when batch k - 1 ends."""

    scheduler: OracleScheduler
    workload: dict[str, Any]
    now: float = 0.0
    device_free: float = 0.0
    retractions: int = 0
    idle_passes: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    reqs: dict[str, Req] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.coming = sorted(self.workload["requests"], key=lambda r: r["arrival"])
        self.overlap = self.scheduler.enable_overlap

    def run(self) -> None:
        """Until all are served, or nothing moves any more."""
        while self._one_pass():
            pass

    def _one_pass(self) -> bool:
        s, queue = self.scheduler, self.scheduler.result_queue
        self._take_in()
        s.retracted.clear()
        s.aborted.clear()
        s.checks.clear()
        ratio_before = s.new_token_ratio_tracker.current
        plan = s.get_next_batch_to_run(running_batch=s.running_batch, last_batch=s.last_batch)
        s.running_batch = plan.running_batch
        batch = plan.batch_to_run
        for rid in s.retracted:
            self.told[rid]["retractions"] += 1
        for rid in s.aborted:
            self.told[rid].update(aborted=True, finish=self.now)
        self.retractions += len(s.retracted)
        row = self._row(batch, ratio_before) if batch else None
        if not batch and s.checks and self.rows:
            self.rows[-1]["checks_no_batch"] = list(s.checks)
        one_behind = self.overlap and not s.is_disable_overlap_for_batch(batch, last_batch=s.last_batch)
        if self.overlap and not one_behind:
            self._land()
        if row is not None:
            s.forward_ct += 1
            self.idle_passes = 0
            self._launch(batch, row)
            if not self.overlap:
                self._land()
        alive = True
        if one_behind and s.last_batch:
            self._land()
        elif not batch and (not self.overlap or not s.last_batch):
            alive = self._wait(bool(queue))
        s.last_batch = batch
        return alive

    def _take_in(self) -> None:
        while self.coming and self.coming[0]["arrival"] <= self.now:
            request = self.coming.pop(0)
            rid, shared = str(request["id"]), request.get("prefix_len", 0) if request.get("prefix_id") is not None else 0
            prompt = drawn(f"p{request['prefix_id']}", shared) if shared else []
            prompt += drawn(f"r{rid}", request["prompt_len"] - shared)
            ignores = bool(request.get("ignore_eos"))
            limit = request["output_len"] if ignores else request.get("max_new_tokens", request["output_len"])
            sampling = SamplingParams(max_new_tokens=limit, ignore_eos=ignores, temperature=0)
            sampling.normalize(None)
            req = Req(rid, "", array("q", prompt), sampling, eos_token_ids={EOS}, vocab_size=VOCABULARY)
            self.scheduler.init_req_max_new_tokens(req)
            self.reqs[rid] = req
            self.told[rid] = {
                "id": rid,
                "arrival": request["arrival"],
                "added": self.now,
                "prompt_len": request["prompt_len"],
                "output_len": request["output_len"],
                "max_new_tokens": limit,
                "max_new_tokens_clipped": sampling.max_new_tokens,
                "prefix_id": request.get("prefix_id"),
                "first_scheduled": None,
                "first_token": None,
                "finish": None,
                "retractions": 0,
                "cached_tokens": 0,
                "aborted": False,
            }
            self.scheduler._add_request_to_queue(req)

    def _row(self, batch: ScheduleBatch, ratio_before: float) -> dict[str, Any]:
        """Right after scheduling: the step's memory is taken."""
        s = self.scheduler
        stats, prefill, size = s.stats(), batch.forward_mode.is_extend(), batch.batch_size()
        for req in batch.reqs:
            if self.told[req.rid]["first_scheduled"] is None:
                self.told[req.rid]["first_scheduled"] = self.now
        return {
            "step": len(self.rows),
            "t": round(self.now, 6),
            "t_start": 0,
            "t_end": 0,
            "kind": "prefill" if prefill else "decode",
            "running": len(s.running_batch.reqs),
            "batch": size,
            "waiting": len(s.waiting_queue),
            "tokens": batch.extend_num_tokens if prefill else size,
            "new_ids": [q.rid for q in batch.reqs] if prefill else [],
            "chunked": s.chunked_req.rid if s.chunked_req is not None else None,
            "token_usage": round(stats.full_token_usage, 6),
            "available": stats.full_available_size,
            "evictable": stats.full_evictable_size,
            "new_token_ratio_before": round(ratio_before, 6),
            "new_token_ratio": round(s.new_token_ratio_tracker.current, 6),
            "batch_is_full": bool(s.running_batch.batch_is_full),
            "checks": list(s.checks),
            "retracted": list(s.retracted),
            "aborted": list(s.aborted),
            "retractions": self.retractions,
        }

    def _launch(self, batch: ScheduleBatch, row: dict[str, Any]) -> None:
        cost, start = self.workload["cost"], max(self.now, self.device_free)
        self.device_free = start + cost["a"] + cost["b"] * row["tokens"] + cost["c"] * row["batch"]
        row.update(t_start=round(start, 6), t_end=self.device_free)
        self.rows.append(row)
        self.scheduler.result_queue.append((batch.copy() if self.overlap else batch, row))

    def _land(self) -> None:
        """The oldest result comes in."""
        s = self.scheduler
        batch, row = s.result_queue.pop(0)
        self.now = max(self.now, row["t_end"])
        # the last token the workload wants ends it, but never where the length alone does
        tokens = [
            EOS if len(q.output_ids) + 1 >= self.told[q.rid]["output_len"] and not q.sampling_params.ignore_eos else TOKEN
            for q in batch.reqs
        ]
        got = (finish_prefill if row["kind"] == "prefill" else finish_decode)(s, batch, tokens)
        for req in got:
            told = self.told[req.rid]
            if told["first_token"] is None:
                told["first_token"] = self.now
            if req.finished() and told["finish"] is None:
                told["finish"] = self.now
        stats = s.stats()
        row.update(
            finished=[q.rid for q in got if q.finished()],
            token_usage_end=round(stats.full_token_usage, 6),
            available_end=stats.full_available_size,
            evictable_end=stats.full_evictable_size,
        )

    def _wait(self, results_out: bool) -> bool:
        """On to the next arrival: at once when there is nothing to do, after some passes when nothing can be done. False at the end."""
        s = self.scheduler
        if not s.waiting_queue and s.running_batch.is_empty() and s.chunked_req is None and not results_out:
            s.new_token_ratio_tracker.reset()
        else:
            self.idle_passes += 1
            if self.idle_passes <= IDLE_PASSES:
                return True
            self.idle_passes = 0
            if not self.coming:
                print("STUCK: waiting", len(s.waiting_queue), "running", len(s.running_batch.reqs))
        if not self.coming:
            return False
        self.now = max(self.now, self.coming[0]["arrival"])
        return True

    def write(self, out: str) -> dict[str, Any]:
        """Steps, requests and summary."""
        for row in self.rows:
            row["t_end"] = round(row["t_end"], 6)
        _write_rows(out + ".steps.jsonl", self.rows)
        for rid, told in self.told.items():
            told.update(cached_tokens=self.reqs[rid].cached_tokens, out_tokens=len(self.reqs[rid].output_ids))
        _write_rows(out + ".requests.jsonl", list(self.told.values()))
        summary = self._summary()
        Path(out + ".summary.json").write_text(json.dumps(summary, indent=1))
        return summary

    def _summary(self) -> dict[str, Any]:
        s, rows, told = self.scheduler, self.rows, list(self.told.values())
        waits = sorted(r["first_token"] - r["arrival"] for r in told if r["first_token"] is not None)
        waiting = [row["token_usage"] for row in rows if row["waiting"]]
        return {
            "sglang": sglang.__version__,
            "tree_cache": type(s.tree_cache).__name__,
            "tree_core": type(s.tree_cache.tree_core).__name__,
            "allocator": type(s.token_to_kv_pool_allocator).__name__,
            "requests": len(told),
            "finished": sum(r["finish"] is not None and not r["aborted"] for r in told),
            "aborted": sum(r["aborted"] for r in told),
            "steps": len(rows),
            "prefill_steps": sum(row["kind"] == "prefill" for row in rows),
            "sim_seconds": round(self.now, 3),
            "max_waiting": max((row["waiting"] for row in rows), default=0),
            "max_running": max((row["running"] for row in rows), default=0),
            "max_token_usage": max((row["token_usage"] for row in rows), default=0.0),
            "max_token_usage_while_waiting": max(waiting, default=None),
            "mean_token_usage_while_waiting": round(sum(waiting) / max(1, len(waiting)), 4),
            "steps_waiting": len(waiting),
            "steps_latched": sum(row["batch_is_full"] for row in rows),
            "retractions": self.retractions,
            "retracted_requests": sum(r["retractions"] > 0 for r in told),
            "min_ratio": min((row["new_token_ratio"] for row in rows), default=None),
            "max_ratio": max((row["new_token_ratio"] for row in rows), default=None),
            "ttft_p50": round(waits[len(waits) // 2], 4) if waits else None,
            "ttft_p99": round(waits[min(len(waits) - 1, int(len(waits) * 0.99))], 4) if waits else None,
            "prefix_hit_rate": round(sum(r["cached_tokens"] for r in told) / max(1, sum(r["prompt_len"] for r in told)), 4),
            "leaked_tokens": s.stats().full_num_used - s.max_total_num_tokens % s.page_size if not s.waiting_queue else None,
            "stubbed": sorted({name.split(".")[0] for name in sgstubs.faked}),
        }


def drawn(seed: str, tokens: int) -> list[int]:
    """Token ids that depend on the seed only."""
    draw = random.Random(seed)
    return [draw.randrange(LOWEST, BEYOND) for _ in range(tokens)]


def finish_prefill(s: OracleScheduler, batch: ScheduleBatch, tokens: list[int]) -> list[Req]:
    """Who got a token. A prompt that is not through gets none."""
    s.token_to_kv_pool_allocator.free_group_begin()
    got = []
    for req, token in zip(batch.reqs, tokens, strict=True):
        if (req.finished() and req.inflight_middle_chunks <= 0) or req.is_retracted:
            continue
        if req.inflight_middle_chunks > 0:
            req.inflight_middle_chunks -= 1
            continue
        req.output_ids.append(token)
        req.update_finish_state()
        got.append(req)
        if req.finished():
            release_kv_cache(req, s.tree_cache, checkpoint=True)
        else:
            checkpoint_kv_cache(req, s.tree_cache)
    s.token_to_kv_pool_allocator.free_group_end()
    return got


def finish_decode(s: OracleScheduler, batch: ScheduleBatch, tokens: list[int]) -> list[Req]:
    """Who got a token. With overlap the batch may hold requests that have ended or were retracted since."""
    s.token_to_kv_pool_allocator.free_group_begin()
    got = []
    for req, token in zip(batch.reqs, tokens, strict=True):
        if s.enable_overlap and (req.finished() or req.is_retracted):
            continue
        req.output_ids.append(token)
        req.update_finish_state(1)
        got.append(req)
        if req.finished():
            release_kv_cache(req, s.tree_cache, checkpoint=True)
    s.token_to_kv_pool_allocator.free_group_end()
    return got


def _write_rows(path: str, rows: list[dict[str, Any]]) -> None:
    with Path(path).open("w") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
