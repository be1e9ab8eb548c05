"""The host pool against a slow one that is a list, and what each write policy keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.replay.l2 import HostPool, default_write
from analyzer.replay.settings import L2

Key = tuple[int, ...]


def chain(*contents: int) -> list[Key]:
    """Chained keys of blocks with these contents."""
    return [tuple(contents[: i + 1]) for i in range(len(contents))]


def pool(blocks: int, write: Any = "write_through", *, block_tokens: int = 16) -> HostPool:
    return HostPool(L2(blocks * block_tokens, 1000.0, block_tokens, write))


class Plain:
    """The same by the letter: a list, the block used last at its end."""

    def __init__(self, blocks: int, write: str) -> None:
        self.blocks, self.write = blocks, write
        self.held: list[Key] = []
        self.seen: dict[Key, int] = {}
        self.stored = self.evicted_blocks = self.dropped = 0

    def use(self, keys: Sequence[Key]) -> None:
        for key in reversed([key for key in keys if key in self.held]):
            self.held.remove(key)
            self.held.append(key)

    def match(self, keys: Sequence[Key], start: int) -> int:
        end = start
        while end < len(keys) and keys[end] in self.held:
            end += 1
        self.use(keys[:end])
        return end - start

    def store(self, key: Key, spared: Sequence[Key]) -> None:
        if len(self.held) == self.blocks:
            victims = [other for other in self.held if other not in spared]
            if not victims:
                self.dropped += 1
                return
            self.held.remove(victims[0])
            self.evicted_blocks += 1
        self.held.append(key)
        self.stored += 1

    def computed(self, keys: Sequence[Key], start: int) -> None:
        if self.blocks == 0 or self.write == "write_back":
            return
        told = keys[start:]
        for key in told:
            self.seen[key] = self.seen.get(key, 0) + 1
            if key not in self.held and (self.write == "write_through" or self.seen[key] > 1):
                self.store(key, told)
        self.use(told)

    def evicted(self, keys: Sequence[Key]) -> None:
        for key in keys:
            self.seen.pop(key, None)
            if self.blocks and self.write == "write_back" and key not in self.held:
                self.store(key, ())


CHAINS = st.lists(st.integers(0, 1), max_size=7).map(lambda contents: chain(*contents))
CALLS = st.tuples(st.sampled_from(["match", "computed", "evicted", "touch"]), CHAINS, st.integers(0, 3))


@settings(deadline=None)
@given(st.integers(0, 9), st.sampled_from(["write_through", "write_through_selective", "write_back"]), st.lists(CALLS, max_size=40))
def test_it_does_what_the_plain_one_does(blocks: int, write: str, calls: list[tuple[str, list[Key], int]]) -> None:
    fast, plain = pool(blocks, write), Plain(blocks, write)
    for name, keys, start in calls:
        held, stored, changes = set(plain.held), plain.stored, fast.changes
        if name == "match":
            assert fast.match(keys, start) == plain.match(keys, start)
        elif name == "computed":
            fast.computed(keys, start)
            plain.computed(keys, start)
        elif name == "evicted":
            leaving = keys[::-1][:start]
            fast.evicted(leaving)
            plain.evicted(leaving)
        else:
            fast.touch(keys)
            plain.use(keys)
        assert set(plain.held) == held or fast.changes > changes
        assert (fast.changes > changes) == (plain.stored > stored)
    told = (fast.held_tokens, fast.stored_tokens, fast.evicted_tokens, fast.dropped_tokens)
    assert told == tuple(16 * n for n in (len(plain.held), plain.stored, plain.evicted_blocks, plain.dropped))
    assert fast.held_tokens <= 16 * blocks
    assert fast.held_tokens == fast.stored_tokens - fast.evicted_tokens


def test_a_match_goes_on_from_where_l1_ended() -> None:
    l2 = pool(8)
    l2.computed(chain(1, 2, 3, 4))
    assert l2.match(chain(1, 2, 3, 4, 5)) == 4
    assert l2.match(chain(1, 2, 3, 4, 5), 3) == 1
    assert l2.match(chain(1, 2, 9, 4)) == 2
    assert l2.match(chain(1, 2, 9, 4), 2) == 0
    assert l2.match([], 0) == 0


def test_equal_blocks_behind_other_beginnings_are_not_equal() -> None:
    l2 = pool(8)
    l2.computed(chain(1, 2))
    assert l2.match(chain(3, 2), 1) == 0


def test_what_was_used_longest_ago_goes_first_and_the_end_of_a_request_before_its_beginning() -> None:
    l2 = pool(4)
    l2.computed(chain(1, 2))
    l2.computed(chain(3, 4))
    l2.match(chain(1, 2))
    l2.computed(chain(5))
    assert [l2.match(chain(3, 4)), l2.match(chain(1, 2))] == [1, 2]
    assert l2.evicted_tokens == 16


def test_a_request_longer_than_the_pool_keeps_its_beginning() -> None:
    l2 = pool(3)
    l2.computed(chain(7))
    l2.computed(chain(1, 2, 3, 4, 5))
    assert l2.match(chain(1, 2, 3, 4, 5)) == 3
    assert (l2.dropped_tokens, l2.evicted_tokens, l2.held_tokens) == (32, 16, 48)


def test_selective_stores_what_comes_again_while_it_is_in_l1() -> None:
    l2 = pool(8, "write_through_selective")
    l2.computed(chain(1, 2))
    assert l2.match(chain(1, 2)) == 0
    l2.computed(chain(1, 3))
    assert l2.match(chain(1, 2)) == 1
    l2.evicted([chain(1, 2)[1]])
    l2.computed(chain(1, 2), 1)
    assert l2.match(chain(1, 2)) == 1


def test_write_back_stores_what_leaves_l1() -> None:
    l2 = pool(8, "write_back")
    l2.computed(chain(1, 2))
    assert l2.match(chain(1, 2)) == 0
    l2.evicted(reversed(chain(1, 2)))
    assert l2.match(chain(1, 2)) == 2
    l2.evicted(chain(1, 2))
    assert l2.stored_tokens == 32


@pytest.mark.parametrize("write", ["write_through", "write_through_selective", "write_back"])
@pytest.mark.parametrize("tokens", [0, 15])
def test_a_pool_without_room_for_a_block_holds_and_counts_nothing(write: Any, tokens: int) -> None:
    l2 = HostPool(L2(tokens, 1000.0, 16, write))
    for _ in range(3):
        l2.computed(chain(1, 2))
        l2.evicted(chain(1, 2))
        assert l2.match(chain(1, 2)) == 0
    assert (l2.held_tokens, l2.stored_tokens, l2.dropped_tokens, l2.changes) == (0, 0, 0, 0)


def test_loads_take_their_time_and_are_counted() -> None:
    l2 = pool(8)
    assert l2.load(500) == 0.5
    assert l2.load(0) == 0.0
    assert l2.loaded_tokens == 500


@pytest.mark.parametrize("settings", [L2(-1, 1.0, 16), L2(16, 0.0, 16), L2(16, float("nan"), 16), L2(16, 1.0, 0)])
def test_a_pool_that_cannot_be_is_refused(settings: L2) -> None:
    with pytest.raises(ValueError, match="no host pool"):
        HostPool(settings)


def test_write_policies_by_version() -> None:
    assert default_write("sglang", "0.4.6.post5") == "write_through_selective"
    assert default_write("sglang", "0.5.1") == "write_through_selective"
    assert default_write("sglang", "0.5.3") == "write_through"
    assert default_write("sglang", "") == "write_through"
    assert default_write("vllm", "0.5.1") == "write_through"
