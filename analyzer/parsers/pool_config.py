"""The pool's configuration in the labels of an info metric, as facts."""

from __future__ import annotations

import math
from collections.abc import Mapping


def pool_facts(labels: Mapping[str, str], engine: str) -> list[tuple[str, float | str, str]]:
    """Facts in the labels of the pool's configuration: what the start-up lines would have said.

    vLLM V1 counts its null block here as its start-up line does; V0 (no `engine` label) has none.
    """
    facts: list[tuple[str, float | str, str]] = []
    blocks, block = _number(labels.get("num_gpu_blocks")), _number(labels.get("block_size"))
    if engine == "vllm" and block:
        facts.append(("arg.block_size", block, "tokens"))
        if blocks:
            facts.append(("num_gpu_blocks", blocks, "blocks"))
            if "engine" in labels:
                facts.append(("kv_capacity_tokens", blocks * block, "tokens"))
    for label in ("gpu_memory_utilization", "cache_dtype", "enable_prefix_caching", "cpu_offload_gb", "watermark", "swap_space"):
        text = labels.get(label)
        if text not in (None, "", "None"):
            assert text is not None
            number = {"True": 1.0, "False": 0.0}.get(text, _number(text))
            facts.append((f"arg.{label}", text if number is None else number, ""))
    pages, page = _number(labels.get("num_pages")), _number(labels.get("page_size"))
    if engine == "sglang" and pages and page:
        facts.append(("kv_capacity_tokens", pages * page, "tokens"))
    return facts


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None
