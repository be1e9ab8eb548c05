"""Known bad settings: each is found where it is set, with the line that tells it, and nowhere else."""

from __future__ import annotations

import re
from functools import cache

import pytest
from diagnosing import diagnoses_of_each
from hard_cases import decode, prefill, retract, sg_start, stats, vl, vl_start

from analyzer.diagnosis.model import Answered
from analyzer.diagnosis.settings import settings


def _calm() -> str:
    return "".join(decode(t, 4, 0.2, 0) + prefill(t + 1, 1, 300, 0.2, 4, 0) for t in range(0, 60, 3))


def _full() -> str:
    return "".join(decode(t, 20, 0.97, 20, 400) + prefill(t + 1, 1, 300, 0.96, 19, 20) for t in range(0, 120, 3))


def _steady(queue: int = 0, end: int = 60) -> str:
    return "".join(stats(t, 4, queue, 0.1) for t in range(0, end, 10))


def _arguments(**more: object) -> str:
    return vl(-70, f"non-default args: { ({'model': 'm/x', **more})!r}", file="utils.py")


# Arguments, the answer, words of its sentence.
SGLANG: list[tuple[dict[str, object], str, str]] = [
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
]
VLLM: list[tuple[dict[str, object], str, str]] = [
    ({"enable_prefix_caching": False}, "yes", "Prefix caching is disabled."),
    ({"watermark": 0.2}, "yes", "The watermark keeps 20 % of the pool free"),
    ({"enforce_eager": True}, "partly", "enforce_eager is set"),
    ({"cpu_offload_gb": 10}, "partly", "cpu_offload_gb is 10"),
    ({"disable_log_stats": True}, "partly", "disable_log_stats is set"),
    ({"api_server_count": 4}, "partly", "With api_server_count 4"),
    ({"enable_chunked_prefill": False}, "partly", "Chunked prefill is off"),
]
LOGS = {
    "default": sg_start(-80, schedule_conservativeness=1.0, mem_fraction_static=0.88, page_size=1) + _calm(),
    "low conservativeness": sg_start(-80, schedule_conservativeness=0.1) + _full(),
    "low conservativeness and retractions": sg_start(-80, schedule_conservativeness=0.1) + _full() + retract(121),
    "little memory": sg_start(-80, mem_fraction_static=0.5) + _calm(),
    "little memory that was full": sg_start(-80, mem_fraction_static=0.5) + _full(),
    "small budget": vl_start(-80, budget=512) + _steady(),
    "low cap": vl_start(-80, cap=4) + _steady(),
    "low cap and a queue": vl_start(-80, cap=4) + _steady(20, 100),
    "flag of a later version": vl_start(-80, version="0.11.2") + _arguments(watermark=0.2) + _steady(),
    "no arguments": _calm(),
    **{f"sglang {n}": sg_start(-80, **arguments) + _calm() for n, (arguments, _, _) in enumerate(SGLANG)},  # type: ignore[arg-type]
    **{f"vllm {n}": vl_start(-80) + _arguments(**arguments) + _steady() for n, (arguments, _, _) in enumerate(VLLM)},
}


@cache
def _configs() -> dict[str, Answered]:
    """The answer about the settings of each of LOGS."""
    found = diagnoses_of_each(LOGS)
    return {name: next(a for a in i.checklist if a.id == "config_asked_for_it") for name, i in found.items()}


def _config(log: str) -> Answered:
    return _configs()[log]


def test_a_default_start_is_not_blamed() -> None:
    assert _config("default").answer == "no"


@pytest.mark.parametrize(("number", "answer", "words"), [(n, answer, words) for n, (_, answer, words) in enumerate(SGLANG)])
def test_sglang(number: int, answer: str, words: str) -> None:
    found = _config(f"sglang {number}")
    assert words in found.sentence
    assert found.answer == answer
    assert re.search(rf"in/sglang {number}/server\.log:[12]$", found.evidence[0].source)


def test_a_low_conservativeness_is_bad_only_with_retractions() -> None:
    assert _config("low conservativeness").answer == "no"
    assert "invites retractions" in _config("low conservativeness and retractions").sentence


def test_little_memory_is_bad_only_when_the_pool_was_full() -> None:
    assert _config("little memory").answer == "no"
    found = _config("little memory that was full")
    assert "only 50 % of the GPU's memory" in found.sentence
    assert (found.evidence[0].name, found.evidence[0].value, found.evidence[0].unit) == ("mem_fraction_static", 0.5, "share")


@pytest.mark.parametrize(("number", "answer", "words"), [(n, answer, words) for n, (_, answer, words) in enumerate(VLLM)])
def test_vllm(number: int, answer: str, words: str) -> None:
    found = _config(f"vllm {number}")
    assert words in found.sentence
    assert found.answer == answer
    assert found.evidence[0].name == next(iter(VLLM[number][0]))


def test_a_small_budget_starves_prefill() -> None:
    found = _config("small budget")
    assert (found.answer, found.evidence[0].value) == ("yes", 512)
    assert found.sentence == "max_num_batched_tokens is 512, which starves prefill."


def test_a_low_cap_is_bad_only_when_the_queue_broke() -> None:
    assert _config("low cap").answer == "no"
    found = _config("low cap and a queue")
    assert found.sentence == "The cap of 4 running requests is far below the 39 the pool would take."


def test_a_flag_of_a_later_version_is_not_looked_for() -> None:
    assert "watermark" not in _config("flag of a later version").sentence


def test_no_arguments_are_no_all_clear() -> None:
    found = _config("no arguments")
    assert found.answer == "cannot_tell"
    assert found.missing


def test_every_setting_says_why() -> None:
    for setting in settings():
        assert setting.sentence.endswith("."), setting.id
        assert setting.why.endswith("."), setting.id
        assert setting.reads, setting.id
        assert setting.answer in ("yes", "partly"), setting.id
