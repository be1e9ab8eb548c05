"""What a replay gives: each request's times, and the curves of load and pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# One step in the columns of the engine's oracle; called for every step, in order.
StepSink = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class Served:
    """One request as the replay served it; times in seconds of the workload, None where it did not come to that.

    `added_s` is when the scheduler took it in: at the first pass after its arrival. `cached_tokens` are those of its first admission,
    `l2_tokens` of them loaded from L2. `refused` says why it can never be served.
    """

    id: str
    arrival_s: float
    first_scheduled_s: float | None = None
    first_token_s: float | None = None
    finish_s: float | None = None
    retractions: int = 0
    cached_tokens: int = 0
    l2_tokens: int = 0
    output_tokens: int = 0
    aborted: bool = False
    refused: str = ""
    added_s: float | None = None


@dataclass(slots=True)
class Curves:
    """The steps in runs of equal ones: plain lists, one entry per run, all of the same length.

    Within a run `running` and `waiting` stand still and `used_tokens` moves evenly from start to end. `used_tokens` is the KV
    pool's used state after the step's memory was taken, `evictable_tokens` what nobody holds. `retracted` counts retractions and
    preemptions at its start; `prefill_tokens` and `decode_tokens` are sums over the run.
    """

    start_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    used_tokens_start: list[float] = field(default_factory=list)
    used_tokens_end: list[float] = field(default_factory=list)
    evictable_tokens: list[float] = field(default_factory=list)
    retracted: list[int] = field(default_factory=list)
    prefill_tokens: list[int] = field(default_factory=list)
    decode_tokens: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Replayed:
    """One replay: `requests` in the order of the workload, as far as they arrived by `end_s`, where it stopped; `l1_tokens` is its pool."""

    requests: list[Served]
    curves: Curves
    end_s: float
    l1_tokens: int
    retractions: int = 0
    l2_loaded_tokens: int = 0
    l2_load_s: float = 0.0
