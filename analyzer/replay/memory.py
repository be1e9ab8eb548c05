"""What a token of KV takes, as the server's start-up lines tell it."""

from __future__ import annotations

from analyzer.replay.settings import Engine
from analyzer.trace.reader import Trace


def bytes_per_token(trace: Trace, instance: str, engine: Engine) -> float | None:
    """Bytes of KV per token on each GPU; None where the lines that tell it are missing, or tell of another pool than the one in use."""
    found = trace.con.execute(
        "SELECT key, max(number) FROM fact WHERE instance = ? AND key IN "
        "('kv_bytes', 'kv_k_bytes', 'kv_v_bytes', 'kv_allocated_tokens', 'kv_capacity_tokens', 'arg.num_gpu_blocks_override') "
        "GROUP BY key HAVING count(DISTINCT number) = 1",
        [instance],
    ).fetchall()
    facts: dict[str, float] = dict(found)
    both = facts["kv_k_bytes"] + facts["kv_v_bytes"] if facts.get("kv_k_bytes") and facts.get("kv_v_bytes") else None
    size = facts.get("kv_bytes") or both
    if engine == "vllm":
        # the memory is what was free, which an override leaves unused
        tokens = None if facts.get("arg.num_gpu_blocks_override") else facts.get("kv_capacity_tokens")
    else:
        tokens = facts.get("kv_allocated_tokens")
    return size / tokens if size and tokens else None
