"""The pool in HBM is what binds, in shapes that look like something else; and pools that do not bind."""

from __future__ import annotations

import random
from collections.abc import Callable

from special_engine import Request, Settings
from special_load import Fields, numbered, phases, prefix, share, stream
from special_scene import Scene


def _busy(
    prompt: tuple[int, int], output: tuple[int, int], quiet: float, busy: float, *, until: float = 330, more: Fields | None = None
) -> Callable[[random.Random], list[Request]]:
    """Quiet, then more than the pool holds from 60 to 150 s, then quiet."""

    def load(rng: random.Random) -> list[Request]:
        return numbered(stream(rng, until - 20, phases((0, quiet), (60, busy), (150, quiet)), prompt, output, more=more))

    return load


SG_TIER = Settings(pool=90_000, cap=96, prefill_first=True, chunk=8192, page=1, ratio=0.25, load="step", load_rate=120_000)


def _title() -> list[Scene]:
    """L1 is full while L2 is half empty, hits are fine and loads are quick."""
    l2 = {"load_rate": 1_200_000.0}
    sg = {"host_tokens": 400_000, "host_share": 0.47, "args": {"hicache_ratio": 4.4}}
    vl = Settings(pool=120_000, cap=128, chunk=8192, load="hold", load_rate=150_000)
    sync = Settings(pool=100_000, cap=128, chunk=4096, load="step", load_rate=160_000)
    return [
        Scene(
            "title-sglang", "l1_bound", "sglang", "0.5.23", 1,
            "L1 is full while the host tier is 47 % full throughout",
            SG_TIER, _busy((3000, 5000), (200, 600), 0.5, 1.75, more=share(0.5)), 330,
            lever={"pool": 180_000}, idle=(l2, {"cap": 192}), server=sg,
        ),
        Scene(
            "title-sglang-old", "l1_bound", "sglang", "0.5.12", 2,
            "L1 is full while the host tier is 55 % full throughout",
            SG_TIER, _busy((2500, 6000), (300, 700), 0.45, 1.55, more=share(0.6)), 330,
            lever={"pool": 180_000}, idle=(l2, {"cap": 192}), server={**sg, "host_share": 0.55},
        ),
        Scene(
            "title-vllm-offload", "l1_bound", "vllm", "0.33.0", 3,
            "L1 is full while a load takes 20 ms",
            vl, _busy((4000, 8000), (200, 500), 0.35, 1.2, more=share(0.5)), 330,
            lever={"pool": 240_000}, idle=(l2, {"cap": 256}), server={"connector": "offload", "args": {"kv_offloading_size": 64}},
        ),
        Scene(
            "title-vllm-lmcache", "l1_bound", "vllm", "0.11.2", 4,
            "L1 is full while LMCache holds 42 % of its memory and retrieves at 20 GB/s",
            sync, _busy((3000, 5000), (300, 600), 0.5, 1.6, more=share(0.5)), 330,
            lever={"pool": 200_000}, idle=(l2, {"cap": 256}), server={"connector": "lmcache", "l2_gb": 48.0, "l2_share": 0.42},
        ),
    ]  # fmt: skip


def _hybrid() -> list[Scene]:
    """Several pools, one of which is full."""
    windowed = Settings(pool=60_000, cap=128, prefill_first=True, chunk=4096, page=1, ratio=0.3, window=128, window_pool=60_000)
    states = Settings(pool=400_000, cap=256, prefill_first=True, chunk=8192, page=1, ratio=0.3, states=96, states_each=3)
    return [
        Scene(
            "swa-full-pool", "l1_bound", "sglang", "0.5.9", 5,
            "the full-attention pool stands at 1.00 while the sliding-window pool stays below 0.07; only the former binds",
            windowed, _busy((2000, 4000), (200, 500), 0.4, 1.4), 330,
            lever={"pool": 120_000}, idle=({"window_pool": 120_000}, {"cap": 256}), server={"pools": ("swa",)},
        ),
        Scene(
            "mamba-full", "l1_bound", "sglang", "0.5.12", 6,
            "32 requests hold all 96 state slots while the token pool is used to less than a third",
            states, _busy((800, 2000), (300, 700), 0.6, 1.95), 330,
            lever={"states": 192}, idle=({"pool": 800_000}, {"cap": 512}), server={"pools": ("mamba",)},
        ),
    ]  # fmt: skip


def _few_long() -> list[Scene]:
    """Very long requests that fill the pool, and requests that are thrown out again and again."""

    def long_ones(rng: random.Random) -> list[Request]:
        made = [Request(0, 70 + 3.0 * n, rng.randint(90_500, 91_500), 3000, 3200) for n in range(4)]
        return numbered(stream(rng, 60, phases((0, 0.5)), (300, 900), (50, 150)), made)

    few = Settings(pool=370_200, cap=64, prefill_first=True, chunk=8192, page=1, ratio=0.05, context_s=1e-7, token_s=0.00006)
    thrash = Settings(pool=30_000, cap=64, prefill_first=True, chunk=4096, page=1, ratio=0.08)
    tight = Settings(pool=48_000, cap=256, chunk=2048, page=16)
    return [
        Scene(
            "few-long", "l1_bound", "sglang", "0.5.7", 7,
            "four requests of 90,000 tokens fill the pool to 1.00 and throw each other out, with at most two waiting",
            few, long_ones, 420,
            lever={"pool": 740_400}, idle=({"cap": 128},), measure="thrown", server={"context": 131072},
        ),
        Scene(
            "thrash-sglang", "l1_bound", "sglang", "0.5.3", 8,
            "requests that grow far beyond what is reserved for them are retracted again and again",
            thrash, _busy((100, 400), (900, 1600), 0.2, 1.25), 420,
            lever={"pool": 60_000}, idle=({"cap": 128},),
        ),
        Scene(
            "thrash-vllm", "l1_bound", "vllm", "0.8.5", 9,
            "requests that grow after their admission are preempted again and again at a usage near 100 %",
            tight, _busy((100, 400), (1200, 2200), 0.12, 0.75), 420,
            lever={"pool": 96_000}, idle=({"cap": 512},),
        ),
    ]  # fmt: skip


def _not_full_yet() -> list[Scene]:
    """Nothing waits."""

    def filling(rng: random.Random) -> list[Request]:
        made = [Request(0, 60 + 4.2 * n, rng.randint(2400, 2800), 9000, 9000) for n in range(50)]
        return numbered(stream(rng, 260, phases((0, 0.5)), (200, 600), (50, 150)), made)

    room = Settings(pool=330_000, cap=128, chunk=8192)
    v0 = Settings(pool=36_000, cap=48, chunk=8192, watermark=0.01)
    return [
        Scene(
            "filling", "none", "vllm", "0.19.1", 10,
            "the pool fills at a steady rate to four fifths, and not one request waits; P99 TTFT is below 1 s",
            room, filling, 262, keep=("log", "metrics", "client"),
        ),
        Scene(
            "filling-sglang", "none", "sglang", "0.5.15", 11,
            "the pool fills at a steady rate to three quarters, and not one request waits; P99 TTFT is below 1 s",
            Settings(pool=340_000, cap=128, prefill_first=True, chunk=8192, page=1, ratio=0.02), filling, 275,
        ),
        Scene(
            "watermark-v0", "none", "vllm", "0.6.6", 12,
            "the load is what the server can take all the time: P99 TTFT is below 1 s although blocks are kept back by the watermark",
            v0, lambda rng: numbered(stream(rng, 280, phases((0, 1.0), (60, 1.4), (150, 1.0)), (1000, 1800), (150, 350))), 300,
        ),
    ]  # fmt: skip


def _nothing_to_load() -> list[Scene]:
    """LMCache finds nearly everything, and the engine has it already."""
    compute = Settings(pool=400_000, cap=128, chunk=1024, load="step", load_rate=150_000, token_s=0.00018)
    reuse = Settings(pool=900_000, cap=128, prefill_first=True, chunk=2048, page=1, ratio=0.1, token_s=0.0002)
    return [
        Scene(
            "hits-nothing-to-load", "prefill_bound", "vllm", "0.19.1", 13,
            "LMCache reports 2,048 hit tokens of each prompt and nothing to load, since the pool has them",
            compute, _busy((5000, 8000), (20, 60), 0.12, 1.6, until=420, more=prefix(2048)), 420,
            lever={"token_s": 0.00006}, idle=({"pool": 800_000}, {"cap": 256}, {"load_rate": 1.5e6}),
            server={"connector": "lmcache", "l2_gb": 32.0, "l2_share": 0.7},
        ),
        Scene(
            "hits-nothing-to-load-sglang", "prefill_bound", "sglang", "0.5.12", 16,
            "half of each prompt is a hit in the device pool, the host tier is 90 % full and nothing is loaded from it",
            reuse, _busy((5000, 8000), (20, 60), 0.12, 1.6, until=420, more=prefix(3072)), 420,
            lever={"token_s": 0.00006}, idle=({"pool": 1_800_000}, {"cap": 256}), server={"host_tokens": 800_000, "host_share": 0.9},
        ),
        Scene(
            "hits-and-healthy", "none", "vllm", "0.11.2", 14,
            "LMCache reports 2,048 hit tokens of each prompt and nothing to load, and P99 TTFT stays below 1 s",
            compute, lambda rng: numbered(stream(rng, 280, phases((0, 0.5), (60, 0.8)), (2300, 3200), (60, 160), more=prefix(2048))), 300,
            server={"connector": "lmcache", "l2_gb": 32.0, "l2_share": 0.7},
        ),
    ]  # fmt: skip


def scenes() -> list[Scene]:
    """All of them."""
    return [*_title(), *_hybrid(), *_few_long(), *_not_full_yet(), *_nothing_to_load()]
