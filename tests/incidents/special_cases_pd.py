"""Prefill and decode on different servers: the network between them is slow, or the decode side has no room."""

from __future__ import annotations

import random
from collections.abc import Callable

from special_engine import Request, Settings
from special_load import Fields, numbered, phases, stream
from special_scene import Scene


def _all(rng: random.Random, t: float, prompt: int) -> dict[str, int]:
    """The whole prompt comes from the other server."""
    return {"remote": prompt}


def _load(
    prompt: tuple[int, int], output: tuple[int, int], quiet: float, busy: float, until: float, more: Fields | None = None
) -> Callable[[random.Random], list[Request]]:
    return lambda rng: numbered(stream(rng, until - 30, phases((0, quiet), (70, busy), (160, quiet)), prompt, output, more=more))


NETWORK = (70.0, 160.0, 8.0)
DECODE = Settings(
    pool=600_000, cap=256, prefill_first=True, chunk=8192, page=1, ratio=0.1, load="hold", load_rate=100_000, remote_only=True, slow=NETWORK
)
FULL = Settings(pool=70_000, cap=256, prefill_first=True, chunk=8192, page=1, ratio=0.1, load="hold", load_rate=400_000, remote_only=True)
PREFILL = Settings(pool=500_000, cap=128, prefill_first=True, chunk=8192, page=1, send_rate=100_000, slow=NETWORK, token_s=0.00004)
NIXL = Settings(pool=700_000, cap=256, chunk=8192, load="hold", load_rate=100_000, slow=NETWORK)
FAST = {"slow": None}


def scenes() -> list[Scene]:
    """All of them."""
    return [
        Scene(
            "pd-decode-transfer", "transfer_bound", "sglang", "0.5.9", 31,
            "the network becomes 8 times slower from second 70 to 160 and requests pile up in the transfer queue at a usage below 0.9",
            DECODE, _load((3000, 6000), (150, 400), 3.2, 3.2, 360, _all), 360, quiet=70,
            lever=FAST, idle=({"pool": 1_200_000}, {"cap": 512}), server={"role": "decode", "port": 30001},
        ),
        Scene(
            "pd-decode-transfer-old", "transfer_bound", "sglang", "0.5.3", 32,
            "the network becomes 8 times slower from second 70 to 160 and requests pile up in the transfer queue at a usage below 0.9",
            DECODE, _load((2000, 4000), (200, 500), 4.2, 4.2, 360, _all), 360, quiet=70,
            lever=FAST, idle=({"pool": 1_200_000}, {"cap": 512}), server={"role": "decode", "port": 30001}, keep=("log", "client"),
        ),
        Scene(
            "pd-prefill-inflight", "transfer_bound", "sglang", "0.5.18", 33,
            "the network becomes 8 times slower from second 70 to 160: prefilled requests wait in the inflight queue to be sent",
            PREFILL, _load((3000, 6000), (1, 1), 3.0, 3.0, 360), 360, quiet=70,
            lever=FAST, idle=({"pool": 1_000_000}, {"cap": 256}), server={"role": "prefill"},
        ),
        Scene(
            "nixl-transfer", "transfer_bound", "vllm", "0.33.0", 34,
            "transfers from the prefill server become 8 times slower from second 70 to 160, and requests wait for them",
            NIXL, _load((3000, 6000), (150, 400), 3.0, 3.0, 360, _all), 360, quiet=70,
            lever=FAST, idle=({"pool": 1_400_000}, {"cap": 512}), server={"connector": "nixl", "args": {"kv_role": "kv_consumer"}},
        ),
        Scene(
            "pd-prealloc-full", "l1_bound", "sglang", "0.5.12", 35,
            "requests wait in the preallocation queue while the decode side's pool is full",
            FULL, _load((2500, 4500), (200, 500), 0.5, 2.0, 360, _all), 360, quiet=70,
            lever={"pool": 140_000}, idle=({"load_rate": 4e6}, {"cap": 512}), server={"role": "decode", "port": 30001},
        ),
        Scene(
            "pd-prealloc-full-newer", "l1_bound", "sglang", "0.5.21", 36,
            "requests wait in the preallocation queue while the decode side's pool is full",
            FULL, _load((1500, 3500), (300, 700), 0.5, 1.9, 360, _all), 360, quiet=70,
            lever={"pool": 140_000}, idle=({"load_rate": 4e6}, {"cap": 512}), server={"role": "decode", "port": 30001},
        ),
    ]  # fmt: skip
