"""Random workloads for vLLM's scheduler, small and difficult ones; the same seed gives the same one."""

from __future__ import annotations

import random
from typing import Any

COST = {"a": 0.007, "b": 0.00002, "c": 0.0002}


def make(seed: int) -> dict[str, Any]:
    """Blocks of 1 to 32 tokens, pools from two blocks on, all of the settings, prefixes, arrivals at the same instant, early ends."""
    draw = random.Random(seed)
    config = _config(draw)
    pool = (config["num_blocks"] - 1) * config["block_size"]
    # a request that is never admitted is a kind of its own
    never = draw.random() < 0.1 and config["reserve_full_isl"] and config["policy"] == "fcfs"
    longest = min(config["max_model_len"], pool) - 1
    prefixes, prefix = draw.choice([0, 0, 1, 2, 5]), draw.randint(1, max(1, longest // 2))
    output, rate = draw.choice([1, 3, 20, 100]), draw.choice([0.5, 5, 50, 500])
    now, requests = 0.0, []
    for place in range(draw.choice([1, 3, 10, 30, 80])):
        now += draw.choice([0.0, draw.expovariate(rate), draw.expovariate(rate)])
        wanted = draw.randint(1, output)
        prompt = draw.randint(1, min(max(1, longest - wanted), draw.choice([4, 20, 100, 1000])))
        if never and draw.random() < 0.1:
            prompt = min(config["max_model_len"] - 1, pool + draw.randint(0, 30))
        request: dict[str, Any] = {"id": place, "arrival": round(now, 4), "prompt_len": prompt, "output_len": wanted}
        if prefixes and draw.random() < 0.8:
            shared = min(prefix, prompt) if draw.random() < 0.8 else draw.randint(1, prompt)
            request |= {"prefix_id": draw.randrange(prefixes), "prefix_len": shared}
            if draw.random() < 0.2:
                # nothing but its prefix
                request["prompt_len"] = shared
        if config["policy"] == "priority":
            request["priority"] = draw.randint(0, 3)
        if config["async"] and draw.random() < 0.4:
            request["max_new_tokens"] = wanted + draw.randint(1, 20)
        if not never:
            request["output_len"] = min(wanted, max(1, pool - request["prompt_len"]))
        requests.append(request)
    return {"config": config, "cost": COST, "requests": requests}


def _config(draw: random.Random) -> dict[str, Any]:
    block = draw.choice([1, 2, 4, 16, 16, 32])
    blocks = draw.choice([16, 40, 64, 200, 400] if block == 1 else [2, 3, 5, 8, 16, 40, 40, 64, 130])
    pool = block * blocks
    longest = draw.choice([pool, pool, max(8, pool // 2), max(8, pool // 3), 8192])
    running = draw.choice([1, 2, 4, 8, 64])
    chunked, caching, priority = draw.random() < 0.85, draw.random() < 0.8, draw.random() < 0.2
    return {
        "block_size": block,
        "num_blocks": blocks + 1,
        "max_num_seqs": running,
        "max_num_batched_tokens": max(running, draw.choice([4, 16, 32, 64, 256, 2048]), 0 if chunked else longest),
        "max_model_len": longest,
        "watermark": draw.choice([0.0, 0.0, 0.01, 0.1, 0.3]),
        "enable_prefix_caching": caching,
        # with neither this test nor a cache, priorities can make requests preempt each other for ever
        "reserve_full_isl": draw.random() < 0.6 or (priority and not caching),
        "chunked_prefill": chunked,
        "long_prefill_token_threshold": min(longest, draw.choice([0, 0, 0, 3, 8, 40])),
        "policy": "priority" if priority else "fcfs",
        "async": draw.random() < 0.5,
    }
