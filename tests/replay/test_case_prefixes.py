"""Shared prefixes: from hashes, from equal prompts, and rebuilt so that the tokens found cached come out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyzer.replay.case.contents import Turns, contents_of
from analyzer.replay.case.prefixes import block_size, by_cached_tokens, by_equal_prompts, by_hashes, by_hit_share
from analyzer.replay.case.told import Told
from analyzer.replay.workload import Distinct, Request


def _request(name: str, arrival_s: float, prompt: int, output: int = 10) -> Request:
    return Request(name, arrival_s, prompt, output, output)


def _found(requests: Sequence[Request]) -> list[int]:
    """What each request finds of its prompt in a cache of everything before it (prompts and outputs), as if that had ended."""
    contents = contents_of(requests)
    before: list[np.ndarray] = []
    found = []
    for r in requests:
        prompt = contents.prompt(r)
        assert len(prompt) == r.prompt_tokens
        most = 0
        for other in before:
            n = min(len(prompt), len(other))
            differs = np.flatnonzero(prompt[:n] != other[:n])
            most = max(most, int(differs[0]) if len(differs) else n)
        found.append(most)
        before.append(np.concatenate([prompt, contents.output(r)]))
    return found


def test_equal_hashes_at_the_beginning_are_shared_blocks() -> None:
    told = [
        Told(_request("a", 0, 1300), hashes=(1, 2, 3)),
        Told(_request("b", 1, 1100), hashes=(1, 2, 4)),
        Told(_request("c", 2, 600), hashes=(1, 5)),
        Told(_request("d", 3, 520), hashes=(8, 9)),
        Told(_request("e", 4, 1300), hashes=(1, 2, 3)),
    ]
    assert block_size(told) == 512
    assert _found(by_hashes(told)) == [0, 1024, 512, 0, 1300]


def test_blocks_of_sixteen_are_told_by_their_number() -> None:
    told = [Told(_request("a", 0, 40), hashes=(1, 2, 3)), Told(_request("b", 1, 70), hashes=(1, 2, 4, 5, 6))]
    assert block_size(told) == 16
    assert _found(by_hashes(told)) == [0, 32]


def test_blocks_that_always_come_together_are_one_piece() -> None:
    told = [Told(_request(f"r{n}", n, 5120 + 512 * n), hashes=(*range(10), *range(100 * n + 100, 100 * n + 100 + n))) for n in range(3)]
    requests = by_hashes(told)
    assert [len(r.prefix) for r in requests] == [1, 1, 1]
    assert _found(requests) == [0, 5120, 5120]


def test_equal_prompts_are_found_whole() -> None:
    told = [Told(_request(n, i, 300), sha256=h) for i, (n, h) in enumerate([("a", "x"), ("b", "y"), ("c", "x")])]
    requests = by_equal_prompts(told)
    assert [bool(r.prefix) for r in requests] == [True, False, True]
    assert _found(requests) == [0, 0, 300]


def test_a_conversation_goes_on_where_its_last_turn_ended() -> None:
    told = [
        Told(_request("a1", 0, 500, 100), finish_s=5, cached_tokens=0),
        Told(_request("b1", 1, 900, 50), finish_s=6, cached_tokens=0),
        Told(_request("a2", 10, 700, 80), finish_s=15, cached_tokens=598),
        Told(_request("b2", 11, 1000, 20), finish_s=16, cached_tokens=944),
        Told(_request("a3", 20, 800, 10), finish_s=25, cached_tokens=779),
    ]
    requests = by_cached_tokens(told)
    assert _found(requests) == [0, 0, 598, 944, 779]
    contents = contents_of(requests)
    assert isinstance(contents, Turns)
    tokens = [t for r in requests for t in (*contents.prompt(r)[sum(n for _, n in r.prefix) :].tolist(), *contents.output(r).tolist())]
    assert len(tokens) == len(set(tokens)) == sum(r.prompt_tokens + r.output_tokens for r in requests) - 598 - 944 - 779


def test_nobody_goes_on_from_what_has_not_ended_or_was_taken() -> None:
    told = [
        Told(_request("a", 0, 500, 100), finish_s=50, cached_tokens=0),
        Told(_request("b", 10, 700), finish_s=60, cached_tokens=555),
        Told(_request("c", 70, 600), finish_s=80, cached_tokens=580),
        Told(_request("d", 90, 700), finish_s=95, cached_tokens=590),
    ]
    found = _found(by_cached_tokens(told))
    # b came while a ran; c goes on from a; d from nobody whose whole length is enough but b
    assert found[:3] == [0, 0, 580]
    assert found[3] == 590


def test_a_common_count_is_one_prefix_of_those_that_have_it() -> None:
    told = [Told(_request(f"r{n}", n, 400 + n), finish_s=n + 0.5, cached_tokens=0 if n == 0 else 256) for n in range(20)]
    assert _found(by_cached_tokens(told)) == [0, *[256] * 19]


def test_first_ones_that_found_nothing_bring_a_prefix_each() -> None:
    told = [Told(_request(f"r{n}", n, 400 + n), finish_s=n + 0.5, cached_tokens=0 if n < 4 else 256) for n in range(60)]
    requests = by_cached_tokens(told)
    assert len({r.prefix[0][0] for r in requests}) == 4
    assert isinstance(contents_of(requests), Distinct)
    assert _found(requests) == [0] * 4 + [256] * 56


def test_requests_that_find_nothing_all_the_time_have_no_prefix() -> None:
    told = [Told(_request(f"r{n}", n, 400 + n), finish_s=n + 0.5, cached_tokens=0 if n % 3 == 0 else 256) for n in range(60)]
    requests = by_cached_tokens(told)
    assert len({key for r in requests for key, _ in r.prefix}) == 1
    assert _found(requests) == [t.cached_tokens for t in told]


def test_a_share_of_hits_is_met_by_one_prefix() -> None:
    requests = by_hit_share([_request(f"r{n}", n, 100 + 10 * n) for n in range(100)], 0.4)
    prompts = sum(r.prompt_tokens for r in requests)
    assert abs(sum(n for r in requests for _, n in r.prefix) / prompts - 0.4) < 0.01
    assert not any(r.prefix for r in by_hit_share(requests[:0], 0.4))
