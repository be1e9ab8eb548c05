"""Requests with arrival times: Poisson arrivals in phases, reproducible from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sends. `output` is when the model stops, `max_new` what the client allowed."""

    rid: int
    arrival: float
    prompt: int
    output: int
    max_new: int
    prefix_id: int | None = None
    prefix_len: int = 0


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of arrivals. The rate moves linearly from `rate` to `rate_end` (requests/s).

    `prompt` is the length without the shared prefix; of the `prefixes` shared ones each request
    takes one (Zipf-like: low numbers more often), and all of a phase have the same length.
    `burst` more requests come within two seconds, every `burst_every` seconds: a batch job.
    """

    seconds: float
    rate: float
    prompt: Span
    output: Span
    rate_end: float | None = None
    max_new: int | None = None
    prefixes: int = 0
    prefix_len: int = 0
    burst: int = 0
    burst_every: float = 60.0


def arrivals(phases: tuple[Phase, ...], seed: int, start: float = 0.0, first_rid: int = 0) -> list[Request]:
    """All requests of the phases, in time order. Times are whole milliseconds."""
    rng = random.Random(seed)
    found: list[Request] = []
    begin = start
    for phase in phases:
        last = phase.rate if phase.rate_end is None else phase.rate_end
        top = max(phase.rate, last)
        t = begin
        while top > 0:
            t += rng.expovariate(top)
            if t >= begin + phase.seconds:
                break
            now = phase.rate + (last - phase.rate) * (t - begin) / phase.seconds
            if rng.random() * top > now:  # thinning, for the ramp
                continue
            found.append(_request(phase, rng, t))
        for k in range(int(phase.seconds // phase.burst_every) if phase.burst else 0):
            at = begin + k * phase.burst_every
            found += [_request(phase, rng, at + 2 * rng.random()) for _ in range(phase.burst)]
        begin += phase.seconds
    found.sort(key=lambda r: r.arrival)
    return [replace(r, rid=first_rid + n) for n, r in enumerate(found)]


def _request(phase: Phase, rng: random.Random, at: float) -> Request:
    output = rng.randint(*phase.output)
    prefix = min(int(phase.prefixes * rng.random() ** 2), phase.prefixes - 1) if phase.prefixes else None
    own = rng.randint(*phase.prompt)
    shared = phase.prefix_len if prefix is not None else 0
    max_new = output if phase.max_new is None else max(phase.max_new, output)
    return Request(0, round(at, 3), own + shared, output, max_new, prefix, shared)
