"""What each recorded request found cached, told by vLLM's counters of prompt tokens looked up and found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from case_traces import CLIENTS, LOG, METRICS, instance_of, kept, opened

from analyzer.replay.case.build import case_of
from analyzer.replay.case.cached_counts import split_cached, split_with_one_odd
from analyzer.replay.case.from_vllm_counters import cached_tokens
from analyzer.replay.model import Case

_START = datetime(2026, 1, 2, tzinfo=UTC)
_BLOCK = 32


def _cached(scrapes: Sequence[Sequence[tuple[int, int]]], prompts: Sequence[int], more: int = 0) -> list[int] | None:
    """From counters that rose at each scrape by the (prompt, cached) of the requests admitted since the one before; `more` are tokens
    that others asked for at each."""
    con = duckdb.connect()
    words = ", ".join(f"{c} VARCHAR" for c in ("instance", "run_id", "name", "part"))
    con.execute(f"CREATE TABLE counter_delta ({words}, prev_ts TIMESTAMPTZ, ts TIMESTAMPTZ, delta DOUBLE)")
    for nth, admitted in enumerate(scrapes):
        at = _START + timedelta(seconds=nth + 1)
        for name, total in (
            ("prefix_query_tokens_total", sum(p for p, _c in admitted) + more),
            ("prefix_hit_tokens_total", sum(c for _p, c in admitted)),
        ):
            con.execute("INSERT INTO counter_delta VALUES ('s', 'r1', ?, NULL, ?, ?, ?)", [name, at - timedelta(seconds=1), at, total])
    return cached_tokens(con, "s", "r1", _START, prompts, _BLOCK)


_ADMITTED = [[(300, 0)], [(310, 256), (333, 256)], [], [(290, 256)], [(400, 256), (320, 0), (281, 256)], [(355, 256)]]


def _prompts(scrapes: Sequence[Sequence[tuple[int, int]]]) -> list[int]:
    return [p for admitted in scrapes for p, _c in admitted]


def test_scrapes_tell_which_requests_they_counted_and_so_what_each_found() -> None:
    # who came first of one scrape is taken to have computed it
    assert _cached(_ADMITTED, _prompts(_ADMITTED)) == [0, 256, 256, 256, 0, 256, 256, 256]


def test_one_that_found_only_a_part_of_a_prefix_makes_no_prefix_of_its_own_length() -> None:
    admitted = [*_ADMITTED, [(300, 256), (310, 64), (320, 256)]]
    found = _cached(admitted, _prompts(admitted))
    assert found is not None
    assert Counter(found[-3:]) == {256: 2, 64: 1}


def test_two_that_front_ends_swapped_change_nothing() -> None:
    prompts = _prompts(_ADMITTED)
    prompts[2], prompts[3] = prompts[3], prompts[2]
    assert _cached(_ADMITTED, prompts) == [0, 256, 256, 256, 0, 256, 256, 256]


def test_counters_of_other_requests_too_tell_nothing() -> None:
    assert _cached(_ADMITTED, _prompts(_ADMITTED)[::2]) is None
    assert _cached(_ADMITTED, _prompts(_ADMITTED), more=90) is None
    # as many tokens, but not of these requests
    assert _cached([[(150, 0)] for _ in range(17)], [600, 51, 600, 51, 600, 51, 597]) is None


def test_the_likeliest_of_several_splits() -> None:
    # 768 of four is three of 256 and none, or four of 192
    assert split_cached(768, 4, Counter({256: 9, 192: 1})) == [0, 256, 256, 256]
    assert split_cached(768, 4, Counter({256: 1, 192: 9})) == [192] * 4
    assert split_cached(25_600, 110, Counter({256: 3})) == [0] * 10 + [256] * 100
    assert split_with_one_odd(1856, 8, Counter({256: 9})) == [256] * 7 + [64]
    assert split_with_one_odd(1856, 2, Counter({256: 9})) == []
    assert split_with_one_odd(100, 3, Counter()) == []


@pytest.mark.thorough
def test_a_recorded_server_with_four_prefixes_is_given_hardly_more(tmp_path: Path) -> None:
    inputs = {p.name: p.read_bytes() for p in (Path(__file__).parent / "recorded" / "shared_prefix").iterdir()}
    with opened(tmp_path, inputs) as trace:
        case = case_of(trace, instance_of(trace))
    assert isinstance(case, Case)
    shared = Counter(r.prefix for r in case.workload.requests if sum(n for _, n in r.prefix) == 256)
    assert 4 <= len(shared) <= 5
    assert sum(shared.values()) >= 0.99 * len(case.workload.requests)


@pytest.mark.thorough
@pytest.mark.parametrize(("key", "tokens"), [("vllm_shared_s1", 1536), ("vllm_l1-prefix_s1", 1024)])
def test_as_many_prefixes_as_the_engine_served(key: str, tokens: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    with opened(tmp_path_factory.mktemp(key), kept(key, LOG, METRICS, CLIENTS)) as trace:
        case = case_of(trace, instance_of(trace))
    assert isinstance(case, Case)
    assert {sum(n for _, n in r.prefix) for r in case.workload.requests} == {tokens}
    assert len({r.prefix for r in case.workload.requests}) == 5
