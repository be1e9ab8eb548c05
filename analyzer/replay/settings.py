"""What an engine's admission is set to. One dataclass per engine, all that its model reads and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Engine = Literal["sglang", "vllm"]


@dataclass(frozen=True, slots=True)
class L2:
    """A host pool. `load_tokens_per_s` is how fast it fills L1; no admission test reads any of this.

    `write` is when a block goes to the host: computed (`write_through`), computed and hit again (`write_through_selective`),
    or evicted from L1 (`write_back`).
    """

    capacity_tokens: int
    load_tokens_per_s: float
    block_tokens: int
    write: Literal["write_through", "write_through_selective", "write_back"] = "write_through"


@dataclass(frozen=True, slots=True)
class Sglang:
    """SGLang's admission and retraction. Rules that moved between versions are fields of their own (`rules_of`)."""

    l1_tokens: int
    max_running: int
    page_tokens: int = 1
    chunked_prefill_tokens: int | None = 8192
    max_prefill_tokens: int = 16384
    conservativeness: float = 1.0
    policy: Literal["fcfs", "lpm"] = "fcfs"
    prefix_caching: bool = True
    context_tokens: int = 131072
    overlap: bool = True
    clip_max_new_tokens: int = 4096
    init_ratio: float = 0.7
    min_ratio_factor: float = 0.14
    ratio_decay_steps: int = 600
    retract_decode_steps: int = 20
    # before 0.5.3 retraction went on until every survivor had `retract_decode_steps` tokens; since then until the next step fits
    retract_until_steps_fit: bool = False
    # before 0.5.3 the sum of max_new_tokens in the ratio after a retraction had no + 1
    ratio_plus_one: bool = True
    max_queued: int | None = None
    l2: L2 | None = None


@dataclass(frozen=True, slots=True)
class Vllm:
    """vLLM's (V1) admission and preemption. `num_blocks` counts the null block, as the engine prints it: one less is usable."""

    num_blocks: int
    max_running: int
    block_tokens: int = 16
    step_tokens: int = 2048
    max_model_tokens: int = 131072
    prefix_caching: bool = True
    chunked_prefill: bool = True
    watermark_share: float = 0.0
    reserve_full_isl: bool = True
    async_scheduling: bool = True
    policy: Literal["fcfs", "priority"] = "fcfs"
    long_prefill_threshold: int = 0
    l2: L2 | None = None

    @property
    def l1_tokens(self) -> int:
        """What the pool holds."""
        return (self.num_blocks - 1) * self.block_tokens


Settings = Sglang | Vllm
