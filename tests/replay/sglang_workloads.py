"""Random workloads for SGLang's scheduler, each of a kind that is known to be difficult; the same seed gives the same one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Draw = Callable[[random.Random], int]
COSTS = ({"a": 0.007, "b": 0.00002, "c": 0.0002}, {"a": 0.02, "b": 0.0001, "c": 0.001}, {"a": 0.01, "b": 0.0001, "c": 0.0})


def between(low: int, high: int) -> Draw:
    return lambda r: r.randint(low, max(low, high))


@dataclass
class Kind:
    """How a workload of one kind is drawn. `prefixes` groups share their beginnings; `max_new` says what is asked for, given the output."""

    config: dict[str, Any]
    requests: int = 30
    rate: float = 300.0
    prompt: Draw = field(default_factory=lambda: between(1, 80))
    output: Draw = field(default_factory=lambda: between(1, 40))
    prefixes: int = 0
    prefix: Draw = field(default_factory=lambda: between(20, 60))
    max_new: Callable[[random.Random, int], int] = field(default=lambda _r, output: output)
    ignore_eos: float = 0.1


def kinds(r: random.Random) -> dict[str, Callable[[], Kind]]:
    """All kinds, not drawn yet."""
    pool = r.choice([512, 768, 1024, 1536])
    return {
        "anything": lambda: _anything(r),
        "retraction": lambda: Kind(
            {
                "schedule_conservativeness": r.choice([0.02, 0.05, 0.1]),
                "disable_radix_cache": r.random() < 0.2,
                "max_total_num_tokens": pool,
            },
            prompt=between(4, pool // 16),
            output=between(pool // 16, pool // 5),
            max_new=lambda _r, output: int(output * 1.2) + 1,
        ),
        "retraction of shared prefixes": lambda: Kind(
            {"schedule_conservativeness": 0.05, "max_total_num_tokens": pool},
            prompt=between(4, pool // 20),
            output=between(pool // 16, pool // 6),
            prefixes=r.choice([2, 4, 8]),
            prefix=between(pool // 40, pool // 16),
        ),
        "retraction among chunks": lambda: Kind(
            {"schedule_conservativeness": 0.05, "max_total_num_tokens": pool, "chunked_prefill_size": r.choice([16, 32, 64, 100])},
            prompt=between(16, pool // 6),
            output=between(pool // 16, pool // 6),
        ),
        "prefixes of waiting requests": lambda: Kind(
            {"schedule_conservativeness": r.choice([0.1, 0.5, 1.0]), "schedule_policy": "fcfs", "max_total_num_tokens": pool},
            requests=70,
            rate=2000.0,
            prompt=between(4, pool // 12),
            output=between(1, 30),
            prefixes=r.choice([8, 20]),
            prefix=between(pool // 20, pool // 8),
        ),
        "longest prefix first": lambda: Kind(
            {"schedule_policy": "lpm", "max_total_num_tokens": r.choice([400, 800]), "max_running_requests": r.choice([2, 6])},
            requests=50,
            output=between(1, 20),
            prefixes=r.choice([4, 9]),
            prefix=between(30, 120),
        ),
        "too many to sort by prefix": lambda: Kind(
            {"schedule_policy": "lpm", "max_running_requests": r.choice([4, 16]), "max_total_num_tokens": r.choice([600, 1200])},
            requests=220,
            rate=20000.0,
            prompt=between(1, 50),
            output=between(1, 5),
            prefixes=r.choice([2, 10, 30]),
        ),
        "long answers asked for": lambda: Kind(
            {"max_total_num_tokens": r.choice([5000, 8192]), "context_length": 16384},
            prompt=between(1, 500),
            max_new=lambda r, output: max(output, r.choice([4095, 4096, 4097, 8000, 100000])),
        ),
        "never fits": lambda: Kind(
            {"max_total_num_tokens": r.choice([256, 512])},
            rate=10.0,
            prompt=lambda r: r.choice([300, 510, 600]) if r.random() < 0.06 else r.randint(1, 60),
        ),
        "tiny pool": lambda: Kind(
            {
                "max_total_num_tokens": r.choice([32, 48, 64, 80]),
                "page_size": r.choice([1, 2, 8]),
                "schedule_conservativeness": r.choice([0.02, 0.1, 1.0]),
            },
            requests=40,
            prompt=between(1, 18),
            output=between(1, 12),
            prefixes=r.choice([0, 2]),
            prefix=between(1, 10),
        ),
        "big pages": lambda: Kind(
            {"page_size": r.choice([64, 128]), "max_total_num_tokens": 2048, "chunked_prefill_size": r.choice([256, 512])},
            prompt=between(1, 300),
        ),
        "no chunks": lambda: Kind(
            {"chunked_prefill_size": -1, "max_prefill_tokens": r.choice([8, 50, 200]), "disable_radix_cache": r.random() < 0.5},
            prompt=between(1, 150),
            ignore_eos=0.5,
        ),
        "few slots": lambda: Kind(
            {"max_running_requests": r.choice([1, 2, 4]), "overlap": True},
            output=between(1, 25),
            prefixes=r.choice([0, 3]),
            ignore_eos=0.3,
        ),
        "short context": lambda: Kind(
            {"context_length": 128}, prompt=between(60, 126), max_new=lambda r, output: output + r.randint(0, 100)
        ),
        "known lengths without a cache": lambda: Kind(
            {"disable_radix_cache": True, "max_total_num_tokens": pool, "schedule_conservativeness": r.choice([0.1, 1.0])},
            prompt=between(4, pool // 8),
            output=between(4, pool // 8),
            ignore_eos=r.choice([0.5, 1.0]),
        ),
    }


def make(seed: int) -> tuple[str, dict[str, Any]]:
    """The kind and the workload of a seed; kinds take turns."""
    r = random.Random(f"workload {seed}")
    choices = kinds(r)
    name = list(choices)[seed % len(choices)]
    kind = choices[name]()
    config = {
        "max_total_num_tokens": 1024,
        "page_size": r.choice([1, 16]),
        "chunked_prefill_size": r.choice([2048, 256]),
        "max_prefill_tokens": 16384,
        "max_running_requests": 64,
        "schedule_conservativeness": r.choice([0.1, 0.5, 1.0]),
        "schedule_policy": r.choice(["fcfs", "lpm"]),
        "disable_radix_cache": False,
        "context_length": 8192,
        "overlap": r.random() < 0.5,
    } | kind.config
    return name, {"config": config, "cost": r.choice(COSTS), "requests": _requests(r, kind)}


def _requests(r: random.Random, kind: Kind) -> list[dict[str, Any]]:
    shared = [kind.prefix(r) for _ in range(kind.prefixes)]
    rows: list[dict[str, Any]] = []
    now = 0.0
    for at in range(kind.requests):
        # some at once, some after a pause in which all is done
        now += r.expovariate(kind.rate) if r.random() < 0.8 else 0.0
        now += r.uniform(0.5, 5.0) if r.random() < 0.02 else 0.0
        output = kind.output(r)
        row = {"id": at, "arrival": round(now, 4), "prompt_len": kind.prompt(r), "output_len": output}
        if shared and r.random() < 0.9:
            group = r.randrange(len(shared))
            own = 0 if r.random() < 0.2 else r.randint(0, row["prompt_len"])
            row |= {"prefix_id": group, "prefix_len": shared[group], "prompt_len": shared[group] + own}
        if r.random() < kind.ignore_eos:
            row["ignore_eos"] = True
        else:
            row["max_new_tokens"] = kind.max_new(r, output)
        rows.append(row)
    return rows


def _anything(r: random.Random) -> Kind:
    pool = r.choice([200, 500, 1000, 3000])
    longest = int(pool * r.choice([0.1, 0.25, 0.5]))
    return Kind(
        {
            "max_total_num_tokens": pool,
            "page_size": r.choice([1, 1, 4, 16]),
            "chunked_prefill_size": r.choice([-1, 16, 64, 128, 2048]),
            "max_prefill_tokens": r.choice([32, 128, 1024, 16384]),
            "max_running_requests": r.choice([1, 3, 8, 64]),
            "schedule_conservativeness": r.choice([0.02, 0.1, 0.5, 1.0, 2.0]),
            "disable_radix_cache": r.random() < 0.2,
        },
        requests=r.choice([8, 20, 40]),
        rate=r.choice([1.0, 20.0, 1000.0]),
        prompt=between(1, longest),
        output=(lambda r: 1) if r.random() < 0.15 else between(1, min(longest, 80)),
        prefixes=r.choice([0, 0, 1, 3]),
        prefix=between(1, longest // 2),
        max_new=lambda r, output: int(output * r.choice([1, 1.5, 3, 20])),
        ignore_eos=r.choice([0.0, 0.2, 1.0]),
    )
