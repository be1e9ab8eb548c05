"""The host pool (L2) of one run: its size, when blocks go there, and how fast they come back."""

from __future__ import annotations

from typing import Literal, cast

import duckdb

from analyzer.diagnosis.diagnose import rows
from analyzer.language import _
from analyzer.replay.case.facts import Fact, Facts
from analyzer.replay.case.rows_of_settings import Chosen
from analyzer.replay.settings import L2

Write = Literal["write_through", "write_through_selective", "write_back"]
_WRITES: tuple[Write, ...] = ("write_through", "write_through_selective", "write_back")
# From this version on write_through was the default, before it the selective one.
_WRITE_THROUGH_SINCE = (0, 5, 3)
_HICACHE_RATIO = 2.0
# Where nothing tells: what a PCIe 4.0 link gives in practice, and the KV of a mid-size model.
ASSUMED_LOAD_BYTES_PER_S = 20e9
ASSUMED_BYTES_PER_TOKEN = 131_072.0
_LMCACHE_CHUNK_TOKENS = 256
# Blocks of the host pool in the model, at least: pages of one token would take most of a replay's time, and a hit is cut by less than this.
_GRAIN_TOKENS = 16


def sglang_l2(
    con: duckdb.DuckDBPyConnection, facts: Facts, chosen: Chosen, version: tuple[int, ...] | None, l1_tokens: int, page: int
) -> L2 | None:
    """HiCache's host pool; None where it is off."""
    told = facts.get("l2_capacity_tokens", "l2_bytes")
    if told is None and not facts.flag("arg.enable_hierarchical_cache"):
        return None
    per_token = _bytes_per_token(facts, l1_tokens)
    tokens = _hicache_tokens(facts, chosen, l1_tokens, per_token)
    if tokens is None:
        return None
    default: Write = "write_through" if version is None or version >= _WRITE_THROUGH_SINCE else "write_through_selective"
    write = cast(Write, chosen.word("l2.write", ("arg.hicache_write_policy",), _WRITES, default))
    return L2(tokens, _load_rate(con, facts, chosen, per_token), -(-_GRAIN_TOKENS // page) * page, write)


def vllm_l2(con: duckdb.DuckDBPyConnection, facts: Facts, chosen: Chosen, l1_tokens: int, block: int) -> L2 | None:
    """The pool of an offloading connector or of LMCache; None where there is none, or its size is not known."""
    per_token = _bytes_per_token(facts, l1_tokens)
    blocks = facts.get("l2_blocks")
    size = facts.get("l2_bytes", "l2_asked_bytes")
    if blocks is not None and blocks.number:
        tokens = int(chosen.read("l2.capacity_tokens", int(blocks.number) * block, blocks.source))
    elif size is not None and size.number and per_token is not None:
        tokens = int(_read_bytes(chosen, size, per_token))
    elif (asked := facts.get("arg.kv_offloading_size")) is not None and asked.number and per_token is not None:
        # the argument is in GiB, for all ranks together
        ranks = max(1.0, facts.number("arg.tensor_parallel_size") or 1.0)
        tokens = int(chosen.told("l2.capacity_tokens", asked, int(asked.number * 2**30 / ranks / per_token)))
    else:
        return None
    lazy = (facts.get("l2_mode") or Fact("", "", None, "")).value == "lazy"
    write = cast(Write, chosen.word("l2.write", (), (), "write_back" if lazy else "write_through", _("what this connector does")))
    grain = _LMCACHE_CHUNK_TOKENS if facts.get("lmcache_connector") is not None else block
    return L2(tokens, _load_rate(con, facts, chosen, per_token), grain, write)


def l2_without_size(facts: Facts) -> bool:
    """Whether there is a host pool of which no size is known, so that it is left out."""
    if facts.get(
        "l2_capacity_tokens", "l2_bytes", "l2_asked_bytes", "l2_blocks", "arg.hicache_ratio", "arg.hicache_size", "arg.kv_offloading_size"
    ):
        return False
    return facts.get("offloading_spec", "lmcache_connector") is not None


def _hicache_tokens(facts: Facts, chosen: Chosen, l1_tokens: int, per_token: float | None) -> int | None:
    told = facts.get("l2_capacity_tokens")
    if told is not None and told.number:
        return int(chosen.read("l2.capacity_tokens", int(told.number), told.source))
    size = facts.get("l2_bytes")
    if size is not None and size.number and per_token is not None:
        return _read_bytes(chosen, size, per_token)
    asked = facts.get("arg.hicache_size")
    if asked is not None and asked.number and per_token is not None:
        return int(chosen.told("l2.capacity_tokens", asked, int(asked.number * 1e9 / per_token)))
    ratio = facts.get("arg.hicache_ratio")
    if ratio is not None and ratio.number:
        return int(chosen.told("l2.capacity_tokens", ratio, int(ratio.number * l1_tokens)))
    return int(chosen.assume("l2.capacity_tokens", int(_HICACHE_RATIO * l1_tokens)))


def _read_bytes(chosen: Chosen, size: Fact, per_token: float) -> int:
    return int(chosen.read("l2.capacity_tokens", int((size.number or 0.0) / per_token), size.source))


def _bytes_per_token(facts: Facts, l1_tokens: int) -> float | None:
    """Of one rank's share of the KV; None where the pool's bytes are not known."""
    pool = facts.number("kv_bytes") or (facts.number("kv_k_bytes") or 0.0) + (facts.number("kv_v_bytes") or 0.0)
    tokens = facts.number("kv_allocated_tokens") or l1_tokens
    return pool / tokens if pool and tokens else None


def _load_rate(con: duckdb.DuckDBPyConnection, facts: Facts, chosen: Chosen, per_token: float | None) -> float:
    moved = rows(
        con,
        """
        SELECT
            sum(loaded_tokens) FILTER (WHERE load_s > 0) AS tokens,
            sum(loaded_bytes) FILTER (WHERE load_s > 0) AS bytes,
            sum(load_s) FILTER (WHERE loaded_tokens > 0) AS token_s,
            sum(load_s) FILTER (WHERE loaded_bytes > 0) AS byte_s
        FROM _l2_moved WHERE instance = ? AND run_id = ?
        """,
        facts.instance,
        facts.run_id,
    )[0]
    if moved["tokens"] and moved["token_s"]:
        return float(chosen.measure("l2.load_tokens_per_s", moved["tokens"] / moved["token_s"], _("tokens loaded, by the time it took")))
    per = per_token or ASSUMED_BYTES_PER_TOKEN
    if moved["bytes"] and moved["byte_s"] and per_token:
        return float(chosen.measure("l2.load_tokens_per_s", moved["bytes"] / moved["byte_s"] / per, _("bytes loaded, by the time it took")))
    return float(
        chosen.assume("l2.load_tokens_per_s", ASSUMED_LOAD_BYTES_PER_S / per, _("20 GB/s: the capture does not tell how long loads took"))
    )
