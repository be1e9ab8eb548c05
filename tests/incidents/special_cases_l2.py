"""The lower tier is what binds: loads become slow, and requests wait for them, or hold the pool while they load."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from special_engine import Engine, Request, Settings
from special_load import Fields, numbered, phases, share, stream
from special_scene import Scene
from special_text import Lines, name_of
from special_vllm import lmcache


def _steady(
    prompt: tuple[int, int], output: tuple[int, int], rate: float, until: float, more: Fields
) -> Callable[[random.Random], list[Request]]:
    """The same load all the time: what changes is how fast loads are."""
    return lambda rng: numbered(stream(rng, until - 20, phases((0, rate)), prompt, output, more=more))


def _prefetched(scene: Scene, server: Any, engine: Engine, log: Lines) -> None:
    """What the scheduler says of each prefetch from storage."""
    for r in engine.requests:
        if r.loads and r.admitted is not None:
            text = f"HiCache prefetch success req={name_of(r.number)} completed={r.remote} matched={r.cached} loaded={r.remote} occupied=0"
            server.line(log, r.admitted - 0.02, text)


def _slow_remote(scene: Scene, server: Any, engine: Engine, log: Lines) -> None:
    """A remote store that answers late now and then."""
    start, end, _ = scene.settings.slow or (0.0, 0.0, 1.0)
    for n in range(4):
        at = start + (end - start) * (n + 0.5) / 4
        lmcache(log, at, "get blocking timeout, trigger cancel the future task", "remote_backend.py:301", "WARNING")


PREFETCH = Settings(
    pool=400_000, cap=128, prefill_first=True, chunk=8192, page=64, ratio=0.2, load="queue", load_rate=200_000, slow=(70.0, 170.0, 60.0)
)
BACK = Settings(
    pool=400_000, cap=128, prefill_first=True, chunk=8192, page=1, ratio=0.2, load="step", load_rate=250_000, slow=(70.0, 160.0, 40.0)
)
SYNC = Settings(pool=1_400_000, cap=128, chunk=8192, load="step", load_rate=160_000, slow=(70.0, 160.0, 30.0))
HOLD = Settings(pool=420_000, cap=128, chunk=8192, load="hold", load_rate=160_000, slow=(70.0, 190.0, 45.0))
ALONE = Settings(pool=500_000, cap=128, chunk=8192, load="step", load_rate=160_000, slow=(70.0, 200.0, 80.0))
FAST = {"slow": None}


def scenes() -> list[Scene]:
    """All of them."""
    wide = ({"pool": 800_000}, {"cap": 256})
    tier = {"host_tokens": 900_000, "host_share": 0.62}
    return [
        Scene(
            "prefetch-storage", "l2_bound", "sglang", "0.5.23", 21,
            "reads from storage become 60 times slower from second 70 to 170 and requests wait in the queue for them at a usage below 0.3",
            PREFETCH, _steady((4000, 8000), (150, 400), 1.0, 330, share(0.6)), 330, quiet=70,
            lever=FAST, idle=wide, server={**tier, "storage": True, "args": {"hicache_storage_backend": "file"}}, extra=_prefetched,
        ),
        Scene(
            "prefetch-storage-quietly", "l2_bound", "sglang", "0.5.18", 22,
            "reads from storage become 60 times slower from second 70 to 170, of which the log says nothing and the endpoint the tokens",
            PREFETCH, _steady((5000, 9000), (200, 500), 0.8, 330, share(0.55)), 330, quiet=70,
            lever=FAST, idle=wide, server={**tier, "storage": True, "args": {"hicache_storage_backend": "mooncake"}},
        ),
        Scene(
            "load-back", "l2_bound", "sglang", "0.5.21", 23,
            "loads from the host pool become 40 times slower from second 70 to 160 and prefill waits for them; "
            "the pool fills only afterwards",
            BACK, _steady((4000, 7000), (150, 400), 1.1, 320, share(0.7)), 320, quiet=70,
            lever=FAST, idle=wide, server=tier,
        ),
        Scene(
            "lmcache-sync", "l2_bound", "vllm", "0.11.2", 24,
            "LMCache's retrievals take half a second to two seconds each instead of 20 ms, and the step waits "
            "for them, at a usage below 0.6",
            SYNC, _steady((4000, 8000), (150, 400), 1.2, 320, share(0.6)), 320, quiet=70,
            lever=FAST, idle=({"pool": 2_800_000}, {"cap": 256}), extra=_slow_remote,
            server={"connector": "lmcache", "l2_gb": 64.0, "l2_share": 0.8, "args": {"kv_transfer_config": "LMCacheConnectorV1"}},
        ),
        Scene(
            "offload-fills-l1", "l2_bound", "vllm", "0.33.0", 25,
            "asynchronous loads become 45 times slower at second 70, and only then do requests that hold their blocks while they load fill "
            "the pool",
            HOLD, _steady((5000, 9000), (150, 400), 1.3, 340, share(0.7)), 340, quiet=70,
            lever=FAST, idle=({"pool": 840_000}, {"cap": 256}), server={"connector": "offload", "args": {"kv_offloading_size": 128}},
        ),
        Scene(
            "lmcache-async-fills-l1", "l2_bound", "vllm", "0.19.1", 26,
            "asynchronous retrievals become 45 times slower at second 70, and only then do requests that hold their blocks while they load "
            "fill the pool",
            HOLD, _steady((4000, 8000), (200, 500), 1.4, 340, share(0.7)), 340, quiet=70,
            lever=FAST, idle=({"pool": 840_000}, {"cap": 256}), extra=_slow_remote,
            server={"connector": "lmcache", "l2_gb": 96.0, "l2_share": 0.5},
        ),
        Scene(
            "lmcache-slow-alone", "l2_bound", "vllm", "0.11.2", 27,
            "each retrieval takes two to three seconds from second 70 to 200 and its request's first token "
            "waits for it, while hardly anything "
            "queues and nine tenths of the pool are free",
            ALONE, _steady((5000, 8000), (40, 120), 0.1, 330, share(0.8)), 330, quiet=70,
            lever=FAST, idle=({"pool": 1_000_000}, {"cap": 256}), server={"connector": "lmcache", "l2_gb": 64.0, "l2_share": 0.5},
        ),
    ]  # fmt: skip
