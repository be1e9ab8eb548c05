"""make_workload.py OUT.json SEED [key=value ...]: a workload file.

Keys: phases=rate:seconds,... prompt=low:high output=low:high prefixes=N prefix_len=N, and those of the config.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {
    "block_size": 16,
    "num_blocks": 257,
    "max_num_seqs": 64,
    "max_num_batched_tokens": 2048,
    "max_model_len": 2048,
    "watermark": 0.0,
    "enable_prefix_caching": True,
}
COST = {"a": 0.007, "b": 0.00002, "c": 0.0002}


def make(seed: int, given: dict[str, str]) -> dict[str, Any]:
    """The workload of a seed and the keys given."""
    phases = [_pair(phase, float) for phase in given.pop("phases", "2:60").split(",")]
    prompt = _pair(given.pop("prompt", "64:128"), int)
    output = _pair(given.pop("output", "100:200"), int)
    prefixes, prefix_len = (int(given.pop(key, "0")) for key in ("prefixes", "prefix_len"))
    draw, now = random.Random(seed), 0.0
    requests: list[dict[str, Any]] = []
    for rate, seconds in phases:
        end = now + seconds
        while (now := now + draw.expovariate(rate)) <= end:
            request = {
                "id": len(requests),
                "arrival": round(now, 4),
                "prompt_len": draw.randint(*prompt) + prefix_len,
                "output_len": draw.randint(*output),
            }
            if prefixes:
                request |= {"prefix_id": draw.randrange(prefixes), "prefix_len": prefix_len}
            requests.append(request)
        now = end
    return {"config": CONFIG | {key: _value(value) for key, value in given.items()}, "cost": COST, "requests": requests}


def _pair(text: str, kind: Any) -> Any:
    return tuple(kind(part) for part in text.split(":"))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(make(int(sys.argv[2]), dict(key.split("=", 1) for key in sys.argv[3:]))))
