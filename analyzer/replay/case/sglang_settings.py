"""SGLang's admission as one run's start-up lines, arguments and metrics have it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, cast

import duckdb

from analyzer.diagnosis.diagnose import rows
from analyzer.language import _
from analyzer.replay.case.cap_seen import measured_cap
from analyzer.replay.case.facts import Facts
from analyzer.replay.case.l2_settings import sglang_l2
from analyzer.replay.case.rows_of_settings import Chosen
from analyzer.replay.settings import Sglang
from analyzer.replay.sglang.versions import rules_of

# The ratio with data-parallel attention, where the engine scales it down before it prints its arguments.
_DP_ATTENTION_CONSERVATIVENESS = 0.3
# Below this usage a line's two digits say too little of the pool's size.
_LEAST_USAGE = 0.2
_LEAST_LINES = 5


def sglang_settings(con: duckdb.DuckDBPyConnection, facts: Facts, version: tuple[int, ...] | None, chosen: Chosen) -> Sglang | None:
    """The settings, each said in `chosen`; None where the pool's size is not known."""
    l1_tokens = _pool(con, facts, chosen)
    if l1_tokens is None:
        return None
    default: dict[str, Any] = {f.name: f.default for f in fields(Sglang)} | rules_of(version)
    context = chosen.whole("context_tokens", ("context_len", "arg.context_length"), int(default["context_tokens"]))
    page = chosen.whole("page_tokens", ("page_size", "arg.page_size"), int(default["page_tokens"]))
    conservative = _DP_ATTENTION_CONSERVATIVENESS if facts.flag("arg.enable_dp_attention") else float(default["conservativeness"])
    settings: dict[str, Any] = default | {
        "l1_tokens": l1_tokens,
        "max_running": _max_running(con, chosen, l1_tokens, context),
        "page_tokens": page,
        "chunked_prefill_tokens": _chunk(chosen, default["chunked_prefill_tokens"]),
        "max_prefill_tokens": chosen.whole(
            "max_prefill_tokens", ("max_prefill_tokens", "arg.max_prefill_tokens"), int(default["max_prefill_tokens"])
        ),
        "conservativeness": chosen.share("conservativeness", ("arg.schedule_conservativeness",), conservative),
        "policy": _policy(chosen, default["policy"]),
        "prefix_caching": chosen.flag("prefix_caching", (), ("arg.disable_radix_cache",), bool(default["prefix_caching"])),
        "context_tokens": context,
        "overlap": _overlap(chosen, bool(default["overlap"])),
        "max_queued": _max_queued(facts, chosen),
        "l2": sglang_l2(con, facts, chosen, version, l1_tokens, page),
    }
    return Sglang(**settings)


def _pool(con: duckdb.DuckDBPyConnection, facts: Facts, chosen: Chosen) -> int | None:
    told = facts.get("kv_capacity_tokens", "kv_full_tokens", "kv_allocated_tokens")
    if told is not None and told.number:
        return int(chosen.read("l1_tokens", int(told.number), told.source))
    states = rows(
        con,
        """
        SELECT max(kv_used_tokens + kv_evictable_tokens + kv_available_tokens)::BIGINT AS tokens
        FROM scheduler_clean WHERE instance = ? AND run_id = ?
        """,
        facts.instance,
        facts.run_id,
    )[0]["tokens"]
    if states:
        return int(chosen.measure("l1_tokens", states, _("used, evictable and available tokens of the metrics, added up")))
    # tokens and their share are printed side by side, the share with two digits: each line bounds the size, all of them narrowly
    told_by = rows(
        con,
        """
        SELECT max(kv_used_tokens / (kv_usage + 0.005)) AS low, min(kv_used_tokens / (kv_usage - 0.005)) AS high, count(*) AS n
        FROM scheduler_clean
        WHERE instance = ? AND run_id = ? AND basis = 'log' AND kv_used_tokens > 0 AND kv_usage BETWEEN ? AND 0.99
        """,
        facts.instance,
        facts.run_id,
        _LEAST_USAGE,
    )[0]
    if told_by["n"] < _LEAST_LINES:
        return None
    return int(
        chosen.measure("l1_tokens", round((told_by["low"] + told_by["high"]) / 2), _("used tokens and their share, from the decode lines"))
    )


def _max_running(con: duckdb.DuckDBPyConnection, chosen: Chosen, l1_tokens: int, context: int) -> int:
    # the argument is for all ranks that share the attention's work
    ranks = int(chosen.facts.number("arg.dp_size") or 1) if chosen.facts.flag("arg.enable_dp_attention") else 1
    told = chosen.facts.get("max_running_requests")
    if told is not None and told.number:
        return chosen.whole("max_running", ("max_running_requests",), 0)
    asked = chosen.facts.get("arg.max_running_requests")
    if asked is not None and asked.number:
        return int(chosen.told("max_running", asked, min(int(asked.number) // ranks, l1_tokens // 2)))
    if cap := measured_cap(con, chosen):
        return cap
    default = min(max(int(l1_tokens / context * 512), 2048), 4096)
    return int(chosen.assume("max_running", min(default, l1_tokens // 2), _("the engine's default for this pool and context length")))


def _chunk(chosen: Chosen, default: int | None) -> int | None:
    told = chosen.facts.get("chunked_prefill_size", "arg.chunked_prefill_size")
    if told is None or told.number is None:
        made: int | None = chosen.assume("chunked_prefill_tokens", default, _("the engine's default, which depends on the GPU's memory"))
        return made
    read: int | None = chosen.told("chunked_prefill_tokens", told, int(told.number) if told.number > 0 else None)
    return read


def _policy(chosen: Chosen, default: str) -> Literal["fcfs", "lpm"]:
    return cast(Literal["fcfs", "lpm"], chosen.word("policy", ("arg.schedule_policy",), ("fcfs", "lpm"), default))


def _overlap(chosen: Chosen, default: bool) -> bool:
    return chosen.flag("overlap", ("arg.enable_overlap_schedule",), ("arg.disable_overlap_schedule",), default)


def _max_queued(facts: Facts, chosen: Chosen) -> int | None:
    told = facts.get("arg.max_queued_requests")
    if told is None or not told.number or told.number < 0:
        return None
    return int(chosen.told("max_queued", told, int(told.number)))
