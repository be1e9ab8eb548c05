"""Settings from a file, by their own names and by the engines'."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analyzer.errors import KvpmError
from analyzer.replay.settings import L2, Settings, Sglang, Vllm
from analyzer.replay.settings_file import load_settings

SGLANG = {"max_total_num_tokens": 1024, "page_size": 16, "max_prefill_tokens": 4096, "max_running_requests": 8}
VLLM = {"num_blocks": 257, "block_size": 16, "max_num_seqs": 8, "max_num_batched_tokens": 512}


def _written(tmp_path: Path, told: Any) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(told if isinstance(told, str) else json.dumps(told), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("told", "settings"),
    [
        ({"l1_tokens": 4096, "max_running": 8, "conservativeness": 2}, Sglang(4096, 8, conservativeness=2.0)),
        ({"l1_tokens": 4096, "max_running": 8.0, "chunked_prefill_tokens": None}, Sglang(4096, 8, chunked_prefill_tokens=None)),
        (
            {"num_blocks": 257, "max_running": 8, "l2": {"capacity_tokens": 8192, "load_tokens_per_s": 1e5, "block_tokens": 16}},
            Vllm(257, 8, l2=L2(8192, 1e5, 16)),
        ),
        (SGLANG, Sglang(1024, 8, 16, None, 4096, context_tokens=8192, overlap=False)),
        (VLLM, Vllm(257, 8, 16, 512, 8192, async_scheduling=False)),
    ],
)
def test_read(tmp_path: Path, told: dict[str, Any], settings: Settings) -> None:
    assert load_settings(_written(tmp_path, told))[0] == settings


def test_what_is_not_told_is_assumed(tmp_path: Path) -> None:
    rows = load_settings(_written(tmp_path, {"l1_tokens": 4096, "max_running": 8}))[1]
    told = {r.name: (r.value, r.origin, r.source) for r in rows}
    assert told["l1_tokens"] == ("4096", "read", "settings.json")
    assert told["page_tokens"] == ("1", "assumed", "")
    # the engines' own names: what is left out has the engine's meaning
    assert {r.origin for r in load_settings(_written(tmp_path, SGLANG))[1]} == {"read"}


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ({"max_running": 8}, "no pool size"),
        ({"num_blocks": 257}, "max_running is missing"),
        ({"num_blocks": 257, "max_running": 8, "page_tokens": 3}, "no setting 'page_tokens'"),
        ({"num_blocks": "257", "max_running": 8}, "num_blocks is '257'"),
        ({"num_blocks": 257, "max_running": -8}, "max_running is '-8'"),
        ({"num_blocks": 257.5, "max_running": 8}, "num_blocks is '257.5'"),
        ({"num_blocks": 257, "max_running": True}, "max_running is 'True'"),
        ({"num_blocks": 257, "max_running": None}, "max_running is 'None'"),
        ({"num_blocks": 257, "max_running": 0}, "max_running is '0'"),
        ({"l1_tokens": 4096, "max_running": 8, "policy": "lifo"}, "policy is 'lifo'"),
        ({"l1_tokens": 4096, "max_running": 8, "policy": ["fcfs"]}, "policy is "),
        ({"l1_tokens": 4096, "max_running": 8, "overlap": 1}, "overlap is '1'"),
        ({"l1_tokens": 4096, "max_running": 8, "l2": 3}, "l2 is '3'"),
        ({"l1_tokens": 4096, "max_running": 8, "l2": {"capacity_tokens": 4096}}, "load_tokens_per_s is missing"),
        ({"max_total_num_tokens": 4096}, "max_running_requests is missing"),
    ],
)
def test_refused(tmp_path: Path, told: Any, found: str) -> None:
    with pytest.raises(KvpmError, match=found) as caught:
        load_settings(_written(tmp_path, told))
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_the_engine_that_is_asked_for_has_to_be_the_files(tmp_path: Path) -> None:
    with pytest.raises(KvpmError, match="of vllm, not of sglang"):
        load_settings(_written(tmp_path, {"num_blocks": 257, "max_running": 8}), "sglang")
    with pytest.raises(KvpmError, match="cannot read"):
        load_settings(tmp_path / "other.json")
