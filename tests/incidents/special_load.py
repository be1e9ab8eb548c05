"""Workloads of the special cases: requests in phases of different rate."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from special_engine import Request, arrivals

Span = tuple[int, int]
Fields = Callable[[random.Random, float, int], dict[str, Any]]


def phases(*steps: tuple[float, float]) -> Callable[[float], float]:
    """A rate that is that of the last step begun: (from second, requests per second)."""
    return lambda t: next((rate for start, rate in reversed(steps) if t >= start), 0.0)


def stream(
    rng: random.Random,
    end: float,
    rate: Callable[[float], float],
    prompt: Span,
    output: Span,
    limit: int | None = None,
    more: Fields | None = None,
) -> list[Request]:
    """Requests of evenly spread sizes. `limit` None: they ask for what they generate. `more`: other fields, of time and prompt."""
    made = []
    for t in arrivals(rng, 0.0, end, rate):
        tokens, out = rng.randint(*prompt), rng.randint(*output)
        made.append(Request(0, t, tokens, out, limit or out, **(more(rng, t, tokens) if more else {})))
    return made


def numbered(*streams: Iterable[Request]) -> list[Request]:
    """All requests in the order of time, numbered."""
    together = sorted((r for s in streams for r in s), key=lambda r: r.at)
    for number, r in enumerate(together):
        r.number = number
    return together


def at(times: Sequence[float], prompt: int, output: int, **fields: Any) -> list[Request]:
    """Requests at known times, all of one size."""
    return [Request(0, t, prompt, output, output, **fields) for t in times]


def share(part: float) -> Fields:
    """That part of each prompt is in a lower tier."""
    return lambda rng, t, prompt: {"remote": int(prompt * part * rng.uniform(0.9, 1.05)) // 64 * 64}


def prefix(tokens: int) -> Fields:
    """A prefix that all prompts share and the pool holds."""
    return lambda rng, t, prompt: {"cached": min(tokens, prompt - 1)}
