"""Workloads from request records: what is kept, what is left out and what is filled in, and said."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from case_traces import CLIENTS, LOG, METRICS, instance_of, kept, opened, truth

from analyzer.replay.case.configured import Configured, configured
from analyzer.replay.case.facts import run_to_replay
from analyzer.replay.case.files import workload_of
from analyzer.replay.case.recorded import recorded
from analyzer.replay.case.requests import records
from analyzer.replay.model import NoReplay
from analyzer.replay.workload import Workload
from analyzer.trace.reader import Trace

_T0 = 1_767_323_045.0
Row = dict[str, Any]


Load = Callable[[str], Workload]


def _row(n: int, at_s: float, **more: Any) -> Row:
    row = {"id": f"q{n}", "send": _T0 + at_s, "ttft": 0.1, "e2e": 1.0, "prompt_tokens": 100 + n, "output_tokens": 20, "error": None}
    return row | more


_NO_TOKEN = {"ttft": None, "output_tokens": None}
_PENDING = {"ttft": None, "e2e": None, "output_tokens": None, "pending": True}
# Client records by what they show, each of a server of its own.
_SCENES: dict[str, list[Row]] = {
    "trouble": [
        _row(0, 0),
        _row(1, 1, **_NO_TOKEN, e2e=0.002, error="ConnectionRefusedError: connection refused"),
        _row(2, 2, **_NO_TOKEN, e2e=0.01, error="HTTP 503"),
        _row(3, 3, **_NO_TOKEN, e2e=40.0, error="connection reset by peer"),
        _row(4, 4, **_NO_TOKEN, e2e=30.0, error="timeout"),
        _row(5, 5, ttft=0.2, e2e=3.0, output_tokens=7, error="timeout"),
        _row(6, 6),
    ],
    "plain": [_row(1, 12.5), _row(0, 10.0), _row(2, 11.0)],
    "limits": [*(_row(n, n, output_tokens=30 + n, max_tokens=30 + n) for n in range(20)), _row(20, 20, max_tokens=77, **_PENDING)],
    "sooner": [
        *(_row(n, n, output_tokens=30 + n, max_tokens=512) for n in range(5)),
        _row(5, 5, max_tokens=512, **_PENDING),
        _row(6, 6, max_tokens=10, **_PENDING),
    ],
    "twice": [_row(0, 0), _row(0, 1)],
    "no prompts": [_row(n, n, prompt_tokens=None) for n in range(4)],
    "some prompts": [_row(n, n, prompt_tokens=None if n == 3 else 100 + n) for n in range(7)],
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    """All scenes in one file of client records."""
    rows = [r | {"server": f"http://10.0.0.1:{_port(scene)}"} for scene, given in _SCENES.items() for r in given]
    # the head of a file tells which servers there are
    rows.sort(key=lambda r: r["send"])
    with opened(tmp_path_factory.mktemp("scenes"), {"client.jsonl": "".join(json.dumps(r) + "\n" for r in rows)}) as made:
        yield made


@pytest.fixture
def load(trace: Trace) -> Load:
    """The workload of a scene."""

    def of(scene: str) -> Workload:
        found = workload_of(trace, f"10.0.0.1:{_port(scene)}")
        assert isinstance(found, Workload)
        return found

    return of


def _port(scene: str) -> int:
    return 8000 + list(_SCENES).index(scene)


def test_requests_that_never_reached_the_scheduler_are_left_out(load: Load) -> None:
    found = load("trouble")
    assert [r.id for r in found.requests] == ["q0", "q3", "q4", "q5", "q6"]
    by_id = {r.id: r for r in found.requests}
    assert by_id["q3"].output_tokens == 20, "lost with its server: it would have gone on"
    assert (by_id["q4"].output_tokens, by_id["q5"].output_tokens) == (1, 7), "its client gave it up"
    assert found.approximate
    assert any("2 requests were turned away" in n for n in found.notes)
    assert any("2 requests were given up" in n for n in found.notes)
    assert any("1 request had not ended" in n for n in found.notes)


def test_arrivals_count_from_the_first_one(load: Load) -> None:
    found = load("plain")
    assert [(r.id, round(r.arrival_s, 6)) for r in found.requests] == [("q0", 0.0), ("q2", 1.0), ("q1", 2.5)]
    assert found.start is not None
    assert found.start.timestamp() == _T0 + 10
    assert not found.approximate


def test_a_limit_that_is_not_told_is_the_output_and_said_so(load: Load) -> None:
    found = load("plain")
    assert all(r.max_new_tokens == r.output_tokens for r in found.requests)
    assert any("how many tokens they asked for" in n for n in found.notes)


def test_pending_ones_take_their_limit_where_nearly_all_used_it_up(load: Load) -> None:
    found = load("limits")
    assert (found.requests[-1].output_tokens, found.requests[-1].max_new_tokens) == (77, 77)
    assert not found.approximate


def test_pending_ones_take_the_median_where_answers_end_sooner(load: Load) -> None:
    found = load("sooner")
    assert [r.output_tokens for r in found.requests[-2:]] == [32, 10]
    assert found.requests[0].max_new_tokens == 512
    assert found.approximate
    assert any("32 tokens" in n for n in found.notes)


def test_an_id_used_twice_is_two_requests(load: Load) -> None:
    assert [r.id for r in load("twice").requests] == ["q0", "q0#2"]


def test_a_prompt_that_is_not_told_is_as_long_as_the_others(load: Load) -> None:
    found = load("some prompts")
    assert found.requests[3].prompt_tokens == 103
    assert found.approximate


def test_no_prompt_lengths_are_no_workload(trace: Trace) -> None:
    found = workload_of(trace, f"10.0.0.1:{_port('no prompts')}")
    assert isinstance(found, NoReplay)
    assert "prompt lengths" in found.reason


def test_without_a_name_it_is_the_most_recorded_server(trace: Trace) -> None:
    found = workload_of(trace)
    assert isinstance(found, Workload)
    assert len(found.requests) == 21


def _workload(tmp_path: Path, files: dict[str, bytes | str]) -> Workload:
    with opened(tmp_path, files) as trace:
        name = instance_of(trace)
        run = run_to_replay(trace.con, name)
        assert run is not None
        known = configured(trace.con, name, run)
        assert isinstance(known, Configured)
        found = records(trace.con, name, run)
        assert found is not None
        return recorded(trace.con, name, run, found, known.settings)


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["sglang_l1-prefix_s1", "sglang_shared_s1"])
def test_prefill_lines_tell_what_each_recorded_request_found_cached(key: str, tmp_path: Path) -> None:
    true = truth(key).requests
    found = _workload(tmp_path, dict(kept(key, LOG, CLIENTS)))
    assert [(r.prompt_tokens, r.output_tokens) for r in found.requests] == [(r["prompt"], r["output"]) for r in true]
    assert [r.arrival_s for r in found.requests] == pytest.approx([r["arrival"] - true[0]["arrival"] for r in true], abs=2e-4)
    shared = sum(n for r in found.requests for _, n in r.prefix)
    # the first request with a prefix found nothing
    assert shared / sum(r["prompt"] for r in true) == pytest.approx(
        sum(r["cached"] for r in true) / sum(r["prompt"] for r in true), abs=0.015
    )
    assert found.approximate


@pytest.mark.thorough
def test_a_hit_rate_without_requests_is_a_prefix_of_all_and_a_part_of_the_load_is_said_to_be_one(tmp_path: Path) -> None:
    files = kept("vllm_shared_s1", LOG, METRICS, CLIENTS)
    lines = gzip.decompress(files[CLIENTS]).splitlines(keepends=True)
    found = _workload(tmp_path, {**files, CLIENTS: gzip.compress(b"".join(lines[::2]))})
    shared = sum(n for r in found.requests for _, n in r.prefix) / sum(r.prompt_tokens for r in found.requests)
    # all but the first of five prefixes of 1536, of prompts of 1586 to 1686
    assert shared == pytest.approx(0.93, abs=0.02)
    assert any("50% of the prompt tokens" in n for n in found.notes)
    assert found.approximate
