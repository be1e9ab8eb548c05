"""What is known of a case by name: the facts of its run, the numbers of its answers, and what follows from both.

`advice.toml` and `settings.toml` name these in their conditions and sentences. A name that is not in the mapping is
unknown, never 0. Facts have their own key (`arg.page_size`, `kv_dtype`); the derived names are those of `DERIVED`.
"""

from __future__ import annotations

import math

from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.conditions import Value

# The step in which the share of memory is raised, and the share that is not passed.
_MEMORY_STEP, _MEMORY_MOST = 0.05, 0.95
# KV of these is halved by fp8: what is asked for, and what the log says it became.
_HALVES = ("torch.bfloat16", "torch.float16")
_FP8_FROM = ("auto", "bfloat16", "bf16", "float16", "half")

DERIVED = {
    "engine": "sglang or vllm",
    "capacity_tokens": "tokens the KV pool of one rank takes",
    "pool_tokens": "the same, summed over data-parallel ranks",
    "cap": "requests that may run at once, for each rank",
    "caps": "the same, summed over data-parallel ranks",
    "step_tokens_max": "prompt tokens one step may compute (chunk or token budget)",
    "max_len_tokens": "tokens the longest request may have",
    "memory_share": "share of GPU memory the engine may take",
    "schedule_conservativeness": "as resolved",
    "watermark": "share of blocks kept free at admission",
    "tokens_per_request": "mean tokens that a running request held",
    "ceiling_requests": "requests of that size the pool takes",
    "ceiling_rank": "those that the pool of one rank takes",
    "demand_requests": "most requests running and waiting together",
    "needed_tokens": "tokens they would hold, all running",
    "missing_tokens": "that less the pool",
    "replicas": "pools of this size that would take them",
    "cap_wanted": "a cap that would have let them run, as far as the pool takes them",
    "running_max": "most requests running in the incident",
    "usage_max": "highest usage of the pool in the incident",
    "retracted": "retractions or preemptions seen",
    "memory_step": "how much more of the memory could be asked for: 0.05, or what is left up to 0.95",
    "added_tokens": "tokens that this would add, from the sizes in the log",
    "added_requests": "requests of the mean size these take",
    "added_tokens_least": "a lower bound of it, from the pool and the share alone",
    "fp8_tokens": "tokens the pool would take with KV of half the size",
    "fp8_requests": "requests of the mean size these are",
    "ratio_start": "part of what running requests may still generate that SGLang reserves at first",
    "ratio_floor": "and after 600 decode steps without a retraction",
    "longest_steps": "steps that the longest prompt allowed needs",
    "step_tokens_doubled": "twice the step",
    "prompt_tps": "mean prompt tokens computed a second in the incident",
    "hit_share": "part of the prompt tokens found in the prefix cache in the incident",
    "l2_capacity_tokens": "tokens the cache in host memory takes",
    "l2_bytes": "bytes of it",
    "l2_ratio": "that in pools",
    "l2_failures": "loads and allocations of it that failed",
    "lmcache": "1 when LMCache spoke",
    "ranks": "data-parallel ranks",
    "usage_gap": "difference in mean usage between the fullest rank and the emptiest",
    "queue_broke": "1 when the queue broke",
    "longest_prompt_share": "the longest request allowed as a share of the pool",
}


def known(case: Case) -> dict[str, Value]:
    """Name to value for everything that is known."""
    found: dict[str, Value] = {} if case.engine is None else {"engine": case.engine}
    for key, fact in case.facts.items():
        value = fact["number"] if fact["number"] is not None else fact["value"]
        if value is not None:
            found[key] = value
    derived = {**_settings(case, found), **_load(case)}
    derived |= _pool(derived, found)
    found |= {name: value for name, value in derived.items() if value is not None}
    return found


def _settings(case: Case, facts: dict[str, Value]) -> dict[str, Value | None]:
    r = case.row("config_asked_for_it")
    told = _Names(r)
    ratio = told["schedule_conservativeness"]
    start = None if ratio is None else min(0.7 * ratio, 1.0)
    step = _first(told["max_num_batched_tokens"], told["chunk_tokens"])
    longest = told["max_len_tokens"]
    return {
        "capacity_tokens": told["capacity_tokens"],
        "cap": told["cap"],
        "step_tokens_max": step,
        "step_tokens_doubled": None if step is None else 2 * step,
        "max_len_tokens": longest,
        "longest_steps": math.ceil(longest / step) if longest and step else None,
        "memory_share": _first(_float(facts.get("arg.mem_fraction_static")), _float(facts.get("arg.gpu_memory_utilization"))),
        "schedule_conservativeness": ratio,
        "ratio_start": start,
        "ratio_floor": None if start is None else 0.14 * start,
        "watermark": told["watermark"],
        "lmcache": 1.0 if any(f["engine"] == "lmcache" for f in case.facts.values()) else None,
    }


def _load(case: Case) -> dict[str, Value | None]:
    demand, cap, skew = _Names(case.row("demand_over_ceiling")), _Names(case.row("queue_on_cap")), _Names(case.row("load_skewed"))
    prefill, cache, l2 = (
        _Names(case.row("prefill_bottleneck")),
        _Names(case.row("cache_stopped_helping")),
        _Names(case.row("l2_bottleneck")),
    )
    thrown = _Names(case.row("retracted"))
    fullest, emptiest = skew["usage_fullest"], skew["usage_emptiest"]
    counts = [n for n in (thrown["retracted_requests"], thrown["retraction_events"], thrown["preemptions"], thrown["gauge_max"]) if n]
    return {
        "pool_tokens": demand["capacity_tokens"],
        "tokens_per_request": demand["tokens_per_request"],
        "ceiling_requests": _floor(demand["ceiling_requests"]),
        "demand_requests": demand["demand_max"],
        "running_max": cap["running_max"],
        "usage_max": cap["usage_max"],
        "retracted": max(counts, default=None),
        "prompt_tps": _first(prefill["counted_prompt_tps"], prefill["prompt_tps_mean"]),
        "hit_share": _first(cache["counted_inside"], cache["reported_inside"]),
        "l2_capacity_tokens": l2["l2_capacity_tokens"],
        "l2_bytes": l2["l2_bytes"],
        "l2_failures": l2["failures"],
        "ranks": skew["ranks"],
        "usage_gap": None if fullest is None or emptiest is None else fullest - emptiest,
        "queue_broke": 1.0 if case.queue_broke else None,
    }


def _pool(derived: dict[str, Value | None], facts: dict[str, Value]) -> dict[str, Value | None]:
    """What follows: how much is missing, and what more memory or smaller KV would add."""
    d = _Names(derived)
    pool, each, demand, ceiling = d["pool_tokens"], d["tokens_per_request"], d["demand_requests"], d["ceiling_requests"]
    needed = each * demand if each and demand else None
    share = d["memory_share"]
    step = None if share is None else round(max(0.0, min(_MEMORY_STEP, _MEMORY_MOST - share)), 2)
    added = _added(d, facts, step)
    least = step / share * pool if pool and share and step else None
    dtype = facts.get("arg.kv_cache_dtype", facts.get("arg.cache_dtype"))
    wide = dtype in _FP8_FROM and facts.get("kv_dtype", "torch.bfloat16") in _HALVES and facts.get("arg.dtype") not in ("float", "float32")
    halved = 2 * pool if pool and wide else None
    # a share below one is of two lifetimes with another capacity each
    pools = max(1, round(pool / d["capacity_tokens"])) if pool and d["capacity_tokens"] else 1
    return {
        "caps": None if d["cap"] is None else d["cap"] * pools,
        "ceiling_rank": None if ceiling is None else _floor(ceiling / pools),
        "needed_tokens": needed,
        "missing_tokens": needed - pool if needed and pool and needed > pool else None,
        "replicas": math.ceil(needed / pool) if needed and pool and needed > pool else None,
        "cap_wanted": min(ceiling, demand) if ceiling and demand else None,
        "memory_step": step,
        "added_tokens": added,
        "added_requests": math.floor(added / each) if added and each and added >= each else None,
        "added_tokens_least": least,
        "fp8_tokens": halved,
        "fp8_requests": math.floor(halved / each) if halved and each else None,
        "l2_ratio": d["l2_capacity_tokens"] / d["capacity_tokens"] if d["l2_capacity_tokens"] and d["capacity_tokens"] else None,
        "longest_prompt_share": d["max_len_tokens"] / d["capacity_tokens"] if d["max_len_tokens"] and d["capacity_tokens"] else None,
    }


def _added(d: _Names, facts: dict[str, Value], step: float | None) -> float | None:
    """Tokens in one step of memory, over all pools: SGLang's share is one of what was free before the weights."""
    f = _Names(facts)
    both = f["kv_k_bytes"] + f["kv_v_bytes"] if f["kv_k_bytes"] and f["kv_v_bytes"] else None
    size, tokens, memory = _first(f["kv_bytes"], both), f["kv_allocated_tokens"], f["mem_before_weights_bytes"]
    pool, capacity = d["pool_tokens"], d["capacity_tokens"]
    if not (step and size and tokens and memory and pool and capacity):
        return None
    return step * memory / (size / tokens) * (pool / capacity)


class _Names:
    """The numbers of a row; None for what is missing, no number, or infinite."""

    def __init__(self, row: Row | dict[str, Value | None] | dict[str, Value]) -> None:
        self._row = row

    def __getitem__(self, name: str) -> float | None:
        return _float(self._row.get(name))


def _float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _first(*values: float | None) -> float | None:
    return next((v for v in values if v is not None), None)


def _floor(value: float | None) -> float | None:
    return None if value is None else float(math.floor(value))
