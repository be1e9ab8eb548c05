"""What each special case's label rests on: the percentage of its trouble that the lever takes away, then each idle setting.

Measured with `special_scene.relief`; test_special_cases.py measures some of them again.
"""

from __future__ import annotations

FIGURES: dict[str, tuple[int, ...]] = {
    "title-sglang": (94, 5, 0),
    "title-sglang-old": (93, 7, 0),
    "title-vllm-offload": (98, 0, 0),
    "title-vllm-lmcache": (97, 4, 0),
    "swa-full-pool": (91, 0, 0),
    "mamba-full": (98, 0, 0),
    "few-long": (100, 0),
    "thrash-sglang": (100, 0),
    "thrash-vllm": (100, 0),
    "hits-nothing-to-load": (97, 0, 0, 0),
    "hits-nothing-to-load-sglang": (97, 0, 0),
    "prefetch-storage": (98, 0, 0),
    "prefetch-storage-quietly": (95, 0, 0),
    "load-back": (99, 0, 0),
    "lmcache-sync": (99, 0, 0),
    "offload-fills-l1": (99, 0, 0),
    "lmcache-async-fills-l1": (100, 0, 0),
    "lmcache-slow-alone": (100, 0, 0),
    "pd-decode-transfer": (100, 0, 0),
    "pd-decode-transfer-old": (100, 0, 0),
    "pd-prefill-inflight": (93, 0, 0),
    "nixl-transfer": (100, 0, 0),
    "pd-prealloc-full": (100, 0, 0),
    "pd-prealloc-full-newer": (100, 0, 0),
    "one-below-cap": (94, 0, 12),
    "one-below-cap-vllm": (95, 0, 35),
    "cap-with-lora": (100, 0, 0),
    "lora-slots-vllm": (100, 0, 0),
    "lora-slots-sglang": (100, 0, 0),
    "slow-decode-sglang": (98, 0, 0),
    "slow-decode-vllm": (97, 0, 0),
}
