"""The workloads behind the oracle cases, and the same workloads with one resource changed.

`write(folder)` makes one JSON file per run, in the form that the schedulers' driver reads: `NAME/base.json` and one for each knob.
How the runs become labels is told in oracle_truth.md.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Config = dict[str, Any]
Workload = dict[str, Any]
Range = tuple[int, int]

# Seconds of a step: a + b x tokens + c x requests; about what one large GPU takes for a mid-size model.
COST = {"a": 0.025, "b": 0.00003, "c": 0.0002}
SLOW_PREFILL = {"a": 0.025, "b": 0.0003, "c": 0.0002}

SGLANG: Config = {
    "max_total_num_tokens": 65536, "page_size": 1, "chunked_prefill_size": 2048, "max_prefill_tokens": 16384, "max_running_requests": 96,
    "schedule_conservativeness": 1.0, "schedule_policy": "fcfs", "disable_radix_cache": False, "context_length": 16384, "overlap": True,
}  # fmt: skip
VLLM: Config = {
    "block_size": 16, "num_blocks": 4097, "max_num_seqs": 96, "max_num_batched_tokens": 2048, "max_model_len": 8192, "watermark": 0.0,
    "enable_prefix_caching": True, "reserve_full_isl": True,
}  # fmt: skip
KNOBS = ("pool", "cap", "compute", "reservation")


@dataclass(frozen=True, slots=True)
class Design:
    """Arrivals, lengths (tokens) and configuration of one kind of incident.

    `phases` are (requests per second, seconds); the first is the quiet one. `bursts` are (seconds from the start, requests at once).
    `max_new` is what clients ask for, if that is more than the answers' lengths.
    """

    name: str
    engine: str
    phases: tuple[tuple[float, float], ...]
    prompt: Range
    output: Range
    config: Config = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=lambda: COST)
    max_new: int = 0
    prefixes: int = 0
    prefix_len: int = 0
    bursts: tuple[tuple[float, int], ...] = ()


def _both(name: str, rates: tuple[float, float], **same: Any) -> list[Design]:
    """One design for both engines: `pool` (tokens), `cap` and `budget` (tokens of a step) by each engine's own names.

    Unless `phases` are given: 45 s at the quiet rate, 100 s at the busy one, 75 s at the quiet one.
    """
    pool, cap, budget = same.pop("pool", 65536), same.pop("cap", 96), same.pop("budget", 2048)
    quiet, busy = rates
    phases = same.pop("phases", ((quiet, 45), (busy, 100), (quiet, 75)))
    return [
        Design(
            name, "sglang", phases,
            config={"max_total_num_tokens": pool, "max_running_requests": cap, "chunked_prefill_size": budget} | same.get("sglang", {}),
            **{k: v for k, v in same.items() if k not in ("sglang", "vllm")},
        ),
        Design(
            name, "vllm", phases,
            config={"num_blocks": pool // 16 + 1, "max_num_seqs": cap, "max_num_batched_tokens": budget} | same.get("vllm", {}),
            **{k: v for k, v in same.items() if k not in ("sglang", "vllm")},
        ),
    ]  # fmt: skip


def _every(first: float, gap: float, times: int, requests: int) -> tuple[tuple[float, int], ...]:
    return tuple((first + gap * k, requests) for k in range(times))


DESIGNS = [
    # The pool is short of what the admitted requests hold.
    *_both("l1-short", (0.8, 3.9), pool=8192, prompt=(300, 500), output=(120, 200)),
    *_both("l1-long", (0.6, 2.3), pool=16384, prompt=(50, 150), output=(400, 900), phases=((0.6, 45), (2.3, 120), (0.4, 90))),
    *_both("l1-prompts", (0.12, 0.6), pool=32768, prompt=(5000, 7500), output=(250, 500), phases=((0.12, 60), (0.6, 150), (0.1, 100))),
    *_both("l1-prefix", (0.8, 4.6), pool=12288, prompt=(200, 400), output=(120, 220), prefixes=4, prefix_len=1024),
    Design("l1-twice", "sglang", ((0.6, 40), (3.1, 45), (0.4, 60), (3.3, 40), (0.4, 60)), (200, 600), (200, 400),
           {"max_total_num_tokens": 10240, "max_running_requests": 96, "chunked_prefill_size": 2048}),
    # Room is there, kept back for what requests might still write, or as a reserve.
    Design("reserved-tokens", "sglang", ((0.35, 45), (2.9, 100), (0.4, 75)), (300, 600), (100, 300),
           {"max_total_num_tokens": 20480}, max_new=4096),
    Design("reserved-ratio", "sglang", ((0.7, 45), (3.0, 110), (0.6, 75)), (200, 400), (250, 450),
           {"max_total_num_tokens": 20480, "schedule_conservativeness": 1.4}, max_new=2048),
    Design("watermark", "vllm", ((0.8, 45), (4.8, 100), (0.6, 75)), (200, 400), (120, 200),
           {"num_blocks": 1025, "watermark": 0.5}),
    Design("watermark-prompts", "vllm", ((0.12, 60), (0.62, 140), (0.1, 90)), (2500, 4500), (300, 500),
           {"num_blocks": 2049, "watermark": 0.45}),
    # More requests than the cap.
    *_both("cap-small", (0.6, 2.8), cap=8, prompt=(200, 400), output=(100, 200)),
    *_both("cap-half", (0.8, 3.2), cap=24, pool=22016, prompt=(300, 500), output=(200, 400)),
    *_both("cap-bursts", (0.1, 0.1), cap=11, prompt=(200, 400), output=(400, 500), phases=((0.1, 45), (0.05, 185)),
           bursts=_every(45, 30, 6, 12)),
    # More prompt tokens than the engine computes.
    *_both("prefill-long", (0.25, 1.15), pool=786432, cap=256, prompt=(2500, 4500), output=(10, 40), cost=SLOW_PREFILL,
           phases=((0.25, 45), (1.15, 90), (0.2, 75))),
    Design("prefill-chunk", "sglang", ((0.6, 45), (3.4, 80), (0.5, 75)), (1500, 2500), (30, 80),
           {"max_total_num_tokens": 786432, "max_running_requests": 384, "chunked_prefill_size": 512},
           {"a": 0.05, "b": 0.00005, "c": 0.0002}),
    # Nothing lasts.
    *_both("healthy", (1.0, 2.0), prompt=(200, 600), output=(100, 300)),
    *_both("bursts", (0.5, 0.5), prompt=(100, 300), output=(50, 150), phases=((0.5, 40), (0.5, 180)), bursts=_every(40, 20, 8, 30)),
    *_both("shared", (1.0, 3.0), pool=32768, prompt=(50, 150), output=(100, 200), prefixes=5, prefix_len=1536),
    *_both("chunked", (0.3, 0.5), pool=98304, prompt=(4000, 7000), output=(100, 300)),
]  # fmt: skip


def requests_of(design: Design, rng: random.Random) -> list[dict[str, Any]]:
    """Poisson arrivals of all phases, and the bursts."""
    moments: list[float] = []
    t = 0.0
    for rate, seconds in design.phases:
        end = t + seconds
        while (t := t + rng.expovariate(rate)) < end:
            moments.append(t)
        t = end
    for at, count in design.bursts:
        moments += [at + rng.uniform(0, 0.05) for _ in range(count)]
    made = []
    for number, moment in enumerate(sorted(moments)):
        one: dict[str, Any] = {"id": number, "arrival": round(moment, 4)}
        one["prompt_len"] = rng.randint(*design.prompt) + design.prefix_len
        one["output_len"] = rng.randint(*design.output)
        if design.engine == "sglang":
            one["max_new_tokens"] = max(design.max_new, one["output_len"])
        if design.prefixes:
            one |= {"prefix_id": rng.randrange(design.prefixes), "prefix_len": design.prefix_len}
        made.append(one)
    return made


def base(design: Design, seed: int) -> Workload:
    """The workload as it happened. The seed also varies hardware and pool a little: two seeds are two servers."""
    rng = random.Random(f"{design.engine}-{design.name}-{seed}")
    config = {**(SGLANG if design.engine == "sglang" else VLLM), **design.config}
    size = "max_total_num_tokens" if design.engine == "sglang" else "num_blocks"
    config[size] = round(config[size] * rng.uniform(0.97, 1.03))
    cost = {k: round(v * rng.uniform(0.95, 1.05), 9) for k, v in design.cost.items()}
    return {"config": config, "cost": cost, "quiet_s": design.phases[0][1], "requests": requests_of(design, rng)}


def turned(workload: Workload, engine: str, knob: str) -> Workload:
    """The same arrivals with one resource doubled, or with half of the reservation."""
    config, cost, requests = dict(workload["config"]), dict(workload["cost"]), [dict(r) for r in workload["requests"]]
    sglang = engine == "sglang"
    if knob == "pool":
        name = "max_total_num_tokens" if sglang else "num_blocks"
        config[name] = 2 * config[name] if sglang else 2 * (config[name] - 1) + 1  # block 0 is never handed out
    elif knob == "cap":
        config["max_running_requests" if sglang else "max_num_seqs"] *= 2
    elif knob == "compute":
        cost["b"] /= 2
        config["chunked_prefill_size" if sglang else "max_num_batched_tokens"] *= 2
    elif sglang:
        config["schedule_conservativeness"] /= 2
        for one in requests:
            one["max_new_tokens"] = min(one["max_new_tokens"], 2 * one["output_len"])
    else:
        config |= {"watermark": 0.0, "reserve_full_isl": False}
    return {**workload, "config": config, "cost": cost, "requests": requests}


def write(folder: Path, engine: str, seeds: tuple[int, ...]) -> None:
    """One folder per case, one file per run."""
    for design in DESIGNS:
        if design.engine != engine:
            continue
        for seed in seeds:
            place = folder / f"{engine}-{design.name}-s{seed}"
            place.mkdir(parents=True, exist_ok=True)
            workload = base(design, seed)
            (place / "base.json").write_text(json.dumps(workload))
            for knob in KNOBS:
                (place / f"{knob}.json").write_text(json.dumps(turned(workload, engine, knob)))


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], tuple(int(s) for s in sys.argv[3:]))
