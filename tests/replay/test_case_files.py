"""Public workloads as files of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from case_traces import opened

from analyzer.replay.case.files import workload_of
from analyzer.replay.workload import Workload

_MOONCAKE = [
    {"timestamp": 3000, "input_length": 1500, "output_length": 20, "hash_ids": [0, 1, 2]},
    {"timestamp": 3500, "input_length": 1100, "output_length": 9, "hash_ids": [0, 1, 5]},
    {"timestamp": 9000, "input_length": 700, "output_length": 1, "hash_ids": [7, 8]},
]
_FILES: dict[str, bytes | str] = {
    "mooncake/trace.jsonl": "".join(json.dumps(x) + "\n" for x in _MOONCAKE),
    "azure/trace.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
    "burst/trace.csv": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n",
}


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Workload]]:
    """The workload in a folder."""
    with opened(tmp_path_factory.mktemp("files"), _FILES) as trace:

        def of(name: str) -> Workload:
            found = workload_of(trace, name)
            assert isinstance(found, Workload)
            return found

        yield of


def _lengths(found: Workload) -> list[tuple[float, int, int]]:
    return [(r.arrival_s, r.prompt_tokens, r.output_tokens) for r in found.requests]


def test_mooncake_has_its_own_clock_and_blocks_of_512(load: Callable[[str], Workload]) -> None:
    found = load("mooncake")
    assert found.start is None
    assert _lengths(found) == [(0.0, 1500, 20), (0.5, 1100, 9), (6.0, 700, 1)]
    assert [sum(n for _, n in r.prefix) for r in found.requests] == [1024, 1024, 0]
    assert not found.approximate


def test_azure_is_on_the_wall_clock(load: Callable[[str], Workload]) -> None:
    found = load("azure")
    assert found.start is not None
    assert [r.arrival_s for r in found.requests] == pytest.approx([0.0, 4.314579], abs=1e-5)
    assert [(r.prompt_tokens, r.output_tokens) for r in found.requests] == [(374, 44), (396, 109)]


def test_burstgpt_counts_seconds(load: Callable[[str], Workload]) -> None:
    assert _lengths(load("burst")) == [(0.0, 472, 18), (40.0, 1087, 230)]
