"""vLLM's admission as one run's start-up lines, arguments and metrics have it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, cast

import duckdb

from analyzer.diagnosis.diagnose import rows
from analyzer.language import _
from analyzer.replay.case.cap_seen import measured_cap
from analyzer.replay.case.facts import Facts
from analyzer.replay.case.l2_settings import vllm_l2
from analyzer.replay.case.rows_of_settings import Chosen
from analyzer.replay.settings import Vllm
from analyzer.replay.vllm.versions import rules_of

_GIB = float(2**30)
# An API server's caps by the memory of its GPU (GiB, at least): tokens of a step, running requests. The last one is for all others.
_BY_MEMORY = ((160.0, 16384, 1024), (70.0, 8192, 1024), (0.0, 2048, 256))
_ON_CPU = (2048, 128)


def vllm_settings(con: duckdb.DuckDBPyConnection, facts: Facts, version: tuple[int, ...] | None, chosen: Chosen) -> Vllm | None:
    """The settings, each said in `chosen`; None where the pool's size is not known."""
    default: dict[str, Any] = {f.name: f.default for f in fields(Vllm)} | rules_of(version)
    block = chosen.whole("block_tokens", ("arg.block_size",), int(default["block_tokens"]))
    num_blocks = _blocks(facts, chosen, block)
    if num_blocks is None:
        return None
    told_length = ("max_model_len", "arg.max_model_len", "max_concurrency_len_tokens")
    step_tokens, running, why = _caps(con, facts)
    settings: dict[str, Any] = default | {
        "num_blocks": num_blocks,
        "block_tokens": block,
        "max_running": _max_running(con, chosen, running, why),
        "step_tokens": chosen.whole("step_tokens", ("max_num_batched_tokens", "arg.max_num_batched_tokens"), step_tokens, why),
        "max_model_tokens": chosen.whole("max_model_tokens", told_length, int(default["max_model_tokens"])),
        "prefix_caching": chosen.flag(
            "prefix_caching", ("arg.enable_prefix_caching",), ("arg.no_enable_prefix_caching",), bool(default["prefix_caching"])
        ),
        "chunked_prefill": chosen.flag(
            "chunked_prefill", ("arg.enable_chunked_prefill",), ("arg.no_enable_chunked_prefill",), bool(default["chunked_prefill"])
        ),
        "watermark_share": chosen.share("watermark_share", ("arg.watermark",), float(default["watermark_share"])),
        "reserve_full_isl": chosen.flag("reserve_full_isl", ("arg.scheduler_reserve_full_isl",), (), bool(default["reserve_full_isl"])),
        "async_scheduling": _asynchronous(con, facts, chosen, bool(default["async_scheduling"])),
        "policy": cast(
            Literal["fcfs", "priority"], chosen.word("policy", ("arg.scheduling_policy",), ("fcfs", "priority"), str(default["policy"]))
        ),
        "long_prefill_threshold": chosen.whole(
            "long_prefill_threshold", ("arg.long_prefill_token_threshold",), int(default["long_prefill_threshold"])
        ),
        "l2": vllm_l2(con, facts, chosen, num_blocks * block, block),
    }
    return Vllm(**settings)


def _blocks(facts: Facts, chosen: Chosen, block: int) -> int | None:
    told = facts.get("num_gpu_blocks")
    if told is not None and told.number:
        return int(chosen.read("num_blocks", int(told.number), told.source))
    told = facts.get("kv_capacity_tokens")
    if told is not None and told.number:
        return int(chosen.read("num_blocks", int(told.number) // block, told.source))
    return None


def _caps(con: duckdb.DuckDBPyConnection, facts: Facts) -> tuple[int, int, str]:
    """(tokens of a step, running requests, why) that this engine takes when nobody says."""
    if _on_cpu(con, facts):
        ranks = int((facts.number("arg.tensor_parallel_size") or 1) * (facts.number("arg.pipeline_parallel_size") or 1))
        return _ON_CPU[0] * ranks, _ON_CPU[1] * ranks, _("the engine's default on a CPU")
    # the GPU's size is not printed; what the KV pool takes of it bounds it from below
    pool_gib = (facts.number("kv_bytes") or 0.0) / _GIB
    step, running = next((s, r) for gib, s, r in _BY_MEMORY if pool_gib >= gib)
    return step, running, _("the engine's default, which depends on the GPU's memory")


def _on_cpu(con: duckdb.DuckDBPyConnection, facts: Facts) -> bool:
    device = facts.get("device")
    if device is not None:
        return (device.value or "").upper() == "CPU"
    # a stats line names the device that its KV cache is on
    told = "SELECT 1 FROM scheduler_clean WHERE instance = ? AND run_id = ? AND extra['kv_device'] = 'CPU' LIMIT 1"
    return bool(rows(con, told, facts.instance, facts.run_id))


def _max_running(con: duckdb.DuckDBPyConnection, chosen: Chosen, default: int, why: str) -> int:
    if chosen.facts.get("arg.max_num_seqs") is None:
        if cap := measured_cap(con, chosen):
            return cap
        seen = rows(
            con,
            "SELECT max(running)::BIGINT AS n FROM scheduler_clean WHERE instance = ? AND run_id = ?",
            chosen.facts.instance,
            chosen.facts.run_id,
        )[0]["n"]
        if seen and seen > default:
            return int(
                chosen.measure(
                    "max_running", next((r for _g, _s, r in _BY_MEMORY[::-1] if r >= seen), seen), _("as many were seen running")
                )
            )
    return chosen.whole("max_running", ("arg.max_num_seqs",), default, why)


def _asynchronous(con: duckdb.DuckDBPyConnection, facts: Facts, chosen: Chosen, default: bool) -> bool:
    if facts.get("arg.async_scheduling") is None and default:
        if _on_cpu(con, facts):
            return bool(chosen.assume("async_scheduling", False, _("off on a CPU")))
        stages = facts.number("arg.pipeline_parallel_size") or 1
        if stages > 1 or facts.get("arg.speculative_config") is not None:
            return bool(chosen.assume("async_scheduling", False, _("off by default with pipeline stages or speculative decoding")))
    return chosen.flag("async_scheduling", ("arg.async_scheduling",), ("arg.no_async_scheduling",), default)
