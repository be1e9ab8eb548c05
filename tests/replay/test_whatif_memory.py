"""Bytes of a token, from what start-up lines tell."""

from __future__ import annotations

from types import SimpleNamespace

import duckdb
import pytest

from analyzer.replay.memory import bytes_per_token
from analyzer.replay.settings import Engine

GIB = 2.0**30


@pytest.mark.parametrize(
    ("engine", "facts", "found"),
    [
        ("sglang", {"kv_k_bytes": 2 * GIB, "kv_v_bytes": 2 * GIB, "kv_allocated_tokens": 2.0**15}, 2.0**17),
        ("sglang", {"kv_bytes": 4 * GIB, "kv_allocated_tokens": 2.0**15}, 2.0**17),
        ("sglang", {"kv_k_bytes": 2 * GIB, "kv_allocated_tokens": 2.0**15}, None),
        ("sglang", {"kv_bytes": 4 * GIB}, None),
        ("vllm", {"kv_bytes": 4 * GIB, "kv_capacity_tokens": 2.0**15}, 2.0**17),
        # with an override the memory that was free is not the memory in use
        ("vllm", {"kv_bytes": 4 * GIB, "kv_capacity_tokens": 2.0**15, "arg.num_gpu_blocks_override": 65.0}, None),
        ("vllm", {}, None),
    ],
)
def test_what_a_token_takes(engine: Engine, facts: dict[str, float], found: float | None) -> None:
    assert bytes_per_token(_trace(list(facts.items())), "a", engine) == found


def test_runs_that_differ_tell_nothing() -> None:
    facts = [("kv_bytes", 4 * GIB), ("kv_allocated_tokens", 2.0**15), ("kv_bytes", 5 * GIB)]
    assert bytes_per_token(_trace(facts), "a", "sglang") is None
    assert bytes_per_token(_trace(facts[:2]), "b", "sglang") is None


def _trace(facts: list[tuple[str, float]]) -> SimpleNamespace:
    con = duckdb.connect()
    con.execute("CREATE TABLE fact (instance VARCHAR, key VARCHAR, number DOUBLE)")
    for key, number in facts:
        con.execute("INSERT INTO fact VALUES ('a', ?, ?)", [key, number])
    return SimpleNamespace(con=con)
