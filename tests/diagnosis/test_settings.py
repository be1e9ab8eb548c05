"""Known bad settings: each is found where it is set, with the line that tells it, and nowhere else."""

from __future__ import annotations

import re

import pytest
from diagnosing import diagnosis_of
from hard_cases import decode, prefill, retract, sg_start, stats, vl, vl_start

from analyzer.diagnosis.model import Answered
from analyzer.diagnosis.settings import settings


def _calm() -> str:
    return "".join(decode(t, 4, 0.2, 0) + prefill(t + 1, 1, 300, 0.2, 4, 0) for t in range(0, 60, 3))


def _full() -> str:
    return "".join(decode(t, 20, 0.97, 20, 400) + prefill(t + 1, 1, 300, 0.96, 19, 20) for t in range(0, 120, 3))


def _config(log: str) -> Answered:
    return next(a for a in diagnosis_of(log).checklist if a.id == "config_asked_for_it")


def test_a_default_start_is_not_blamed() -> None:
    assert _config(sg_start(-80, schedule_conservativeness=1.0, mem_fraction_static=0.88, page_size=1) + _calm()).answer == "no"


@pytest.mark.parametrize(
    ("arguments", "answer", "words"),
    [
        ({"schedule_conservativeness": 1.3}, "yes", "schedule_conservativeness is 1.3"),
        ({"disable_radix_cache": True}, "yes", "The radix cache is disabled."),
        ({"disable_cuda_graph": True}, "partly", "CUDA graphs are disabled."),
        ({"max_prefill_tokens": 4096, "chunk": 16385}, "yes", "below the chunk of 16,385"),
        ({"chunk": 512}, "yes", "chunked_prefill_size is 512, which starves prefill."),
        ({"chunk": 65536}, "yes", "One step may compute 65,536"),
        ({"capacity": 30_000}, "yes", "One request may be 32,768 tokens long, more than the pool's 30,000."),
        ({"page_size": 4096}, "partly", "A page is 4,096 tokens"),
        (
            {"enable_hierarchical_cache": True, "hicache_write_policy": "write_back"},
            "partly",
            "hicache_write_policy is write_back",
        ),
        (
            {"hicache_storage_backend": "file", "hicache_storage_prefetch_policy": "wait_complete"},
            "partly",
            "hicache_storage_prefetch_policy is wait_complete",
        ),
    ],
)
def test_sglang(arguments: dict[str, object], answer: str, words: str) -> None:
    found = _config(sg_start(-80, **arguments) + _calm())
    assert words in found.sentence
    assert found.answer == answer
    assert re.search(r"in/server\.log:[12]$", found.evidence[0].source)


def test_a_low_conservativeness_is_bad_only_with_retractions() -> None:
    assert _config(sg_start(-80, schedule_conservativeness=0.1) + _full()).answer == "no"
    assert "invites retractions" in _config(sg_start(-80, schedule_conservativeness=0.1) + _full() + retract(121)).sentence


def test_little_memory_is_bad_only_when_the_pool_was_full() -> None:
    assert _config(sg_start(-80, mem_fraction_static=0.5) + _calm()).answer == "no"
    found = _config(sg_start(-80, mem_fraction_static=0.5) + _full())
    assert "only 50 % of the GPU's memory" in found.sentence
    assert (found.evidence[0].name, found.evidence[0].value, found.evidence[0].unit) == ("mem_fraction_static", 0.5, "share")


def _arguments(**more: object) -> str:
    return vl(-70, f"non-default args: { ({'model': 'm/x', **more})!r}", file="utils.py")


@pytest.mark.parametrize(
    ("arguments", "answer", "words"),
    [
        ({"enable_prefix_caching": False}, "yes", "Prefix caching is disabled."),
        ({"watermark": 0.2}, "yes", "The watermark keeps 20 % of the pool free"),
        ({"enforce_eager": True}, "partly", "enforce_eager is set"),
        ({"cpu_offload_gb": 10}, "partly", "cpu_offload_gb is 10"),
        ({"disable_log_stats": True}, "partly", "disable_log_stats is set"),
        ({"api_server_count": 4}, "partly", "With api_server_count 4"),
        ({"enable_chunked_prefill": False}, "partly", "Chunked prefill is off"),
    ],
)
def test_vllm(arguments: dict[str, object], answer: str, words: str) -> None:
    found = _config(vl_start(-80) + _arguments(**arguments) + "".join(stats(t, 4, 0, 0.1) for t in range(0, 60, 10)))
    assert words in found.sentence
    assert found.answer == answer
    assert found.evidence[0].name == next(iter(arguments))


def test_a_small_budget_starves_prefill() -> None:
    found = _config(vl_start(-80, budget=512) + "".join(stats(t, 4, 0, 0.1) for t in range(0, 60, 10)))
    assert (found.answer, found.evidence[0].value) == ("yes", 512)
    assert found.sentence == "max_num_batched_tokens is 512, which starves prefill."


def test_a_low_cap_is_bad_only_when_the_queue_broke() -> None:
    assert _config(vl_start(-80, cap=4) + "".join(stats(t, 4, 0, 0.1) for t in range(0, 60, 10))).answer == "no"
    found = _config(vl_start(-80, cap=4) + "".join(stats(t, 4, 20, 0.1) for t in range(0, 100, 10)))
    assert found.sentence == "The cap of 4 running requests is far below the 39 the pool would take."


def test_a_flag_of_a_later_version_is_not_looked_for() -> None:
    log = vl_start(-80, version="0.11.2") + _arguments(watermark=0.2) + "".join(stats(t, 4, 0, 0.1) for t in range(0, 60, 10))
    assert "watermark" not in _config(log).sentence


def test_no_arguments_are_no_all_clear() -> None:
    found = _config(_calm())
    assert found.answer == "cannot_tell"
    assert found.missing


def test_every_setting_says_why() -> None:
    for setting in settings():
        assert setting.sentence.endswith("."), setting.id
        assert setting.why.endswith("."), setting.id
        assert setting.reads, setting.id
        assert setting.answer in ("yes", "partly"), setting.id
