"""Server arguments as facts: typed, and without secrets.

Numbers, booleans and nulls are kept for every argument. Text is kept only for arguments that this
tool needs or that say which model and policy ran; anything else may hold a key, a name or a prompt.
"""

from __future__ import annotations

import math
import re
from typing import Any

from analyzer.formats.values import as_int64, read_text

_SECRET = re.compile(
    r"(?:^|_)(?:api_?keys?|admin_api_key|key|secret|passw(?:or)?d|token|credentials?|authorization|auth)(?:$|_(?:id|file|path))",
    re.IGNORECASE,
)
# Text values that the diagnosis or a reader of the report needs.
_TEXT_ARGUMENTS = frozenset(
    [
        "model",
        "model_path",
        "served_model_name",
        "dtype",
        "kv_cache_dtype",
        "quantization",
        "schedule_policy",
        "scheduling_policy",
        "attention_backend",
        "disaggregation_mode",
        "hicache_write_policy",
        "hicache_storage_backend",
        "hicache_io_backend",
        "hicache_storage_prefetch_policy",
        "hicache_mem_layout",
        "retraction_policy",
        "device",
        "load_format",
        "host",
        "kv_connector",
        "kv_role",
        "kv_offloading_backend",
        "prefix_caching_hash_algo",
        "swap_space",
        "tokenizer_mode",
        "distributed_executor_backend",
        "speculative_algorithm",
        "method",
        "runner",
        "radix_eviction_policy",
        "load_balance_method",
        "engine_type",
        "preemption_mode",
    ]
)
_NESTED = frozenset(("kv_transfer_config", "speculative_config", "compilation_config", "scheduler_config"))


def argument_facts(arguments: Any) -> list[tuple[str, Any, str]]:
    """(name, value, type) for each argument worth keeping; type is int, float, bool, str, list or null."""
    facts: list[tuple[str, Any, str]] = []
    if not isinstance(arguments, dict):
        return facts
    for name, value in arguments.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or _SECRET.search(name):
            continue
        if value is None:
            facts.append((name, None, "null"))
        elif isinstance(value, bool):
            facts.append((name, value, "bool"))
        elif isinstance(value, int):
            if as_int64(value) is not None:
                facts.append((name, value, "int"))
        elif isinstance(value, float):
            if not math.isfinite(value):
                continue
            facts.append((name, value, "float"))
        elif isinstance(value, str) and name in _TEXT_ARGUMENTS:
            facts.append((name, _shown(value), "str"))
        elif isinstance(value, list) and name in _TEXT_ARGUMENTS:
            facts.append((name, ",".join(_shown(str(v)) for v in value[:8]), "list"))
        elif isinstance(value, dict) and name in _NESTED:
            facts += [(f"{name}.{n}", v, t) for n, v, t in argument_facts(value)]
    return facts


def _shown(value: str) -> str:
    """The value without credentials in an address, of bounded length."""
    return read_text(re.sub(r"(?<=://)[^/@\s]*@|(?<=\S)\?\S*$", "", value)[:200])
