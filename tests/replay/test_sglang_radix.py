"""The radix tree against a slow one that keeps whole sequences."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analyzer.replay.sglang.radix import Node, RadixTree

# few different tokens, so that prefixes are shared by chance
SEQUENCES = st.lists(st.integers(0, 2), max_size=14)


def text(tokens: list[int]) -> bytes:
    return np.array(tokens, dtype=np.int64).tobytes()


class Plain:
    """Every known prefix in whole pages, as a tuple; what is locked with how many holders."""

    def __init__(self, page: int) -> None:
        self.page = page
        self.known: set[tuple[int, ...]] = set()
        self.locks: list[tuple[int, ...]] = []

    def prefixes(self, tokens: list[int]) -> list[tuple[int, ...]]:
        return [tuple(tokens[:end]) for end in range(self.page, len(tokens) + 1, self.page)]

    def match(self, tokens: list[int]) -> int:
        return max((len(p) for p in self.prefixes(tokens) if p in self.known), default=0)

    @property
    def evictable(self) -> int:
        held = {p for lock in self.locks for p in self.prefixes(list(lock))}
        return len(self.known - held) * self.page


@given(
    st.sampled_from([1, 2, 3]),
    st.lists(st.tuples(st.sampled_from(["match", "insert", "lock", "unlock", "evict"]), SEQUENCES, st.integers(1, 20)), max_size=40),
)
def test_it_knows_holds_and_evicts_what_the_plain_one_does(page: int, operations: list[tuple[str, list[int], int]]) -> None:
    tree, plain = RadixTree(page, on_evict=lambda node: plain.known.difference_update(path_of(node, page))), Plain(page)
    held: list[Node] = []
    for operation, tokens, number in operations:
        if operation == "match":
            assert tree.match(text(tokens), len(tokens))[0] == plain.match(tokens)
        elif operation == "insert":
            known, _node = tree.insert(text(tokens), len(tokens))
            assert known == plain.match(tokens)
            plain.known.update(plain.prefixes(tokens))
        elif operation == "lock":
            found, node = tree.match(text(tokens), len(tokens))
            tree.lock(node)
            held.append(node)
            plain.locks.append(tuple(tokens[:found]))
        elif operation == "unlock" and held:
            tree.unlock(held.pop())
            plain.locks.pop()
        elif operation == "evict":
            before = tree.evictable
            gone = tree.evict(number)
            assert gone == before - tree.evictable
            assert gone >= min(number, before)
        assert tree.evictable == plain.evictable


def path_of(node: Node, page: int) -> set[tuple[int, ...]]:
    """The prefixes that end in a node."""
    above: list[bytes] = []
    up = node.parent
    while up is not None:
        above.append(up.text)
        up = up.parent
    tokens = np.frombuffer(b"".join([*reversed(above), node.text]), dtype=np.int64).tolist()
    return {tuple(tokens[:end]) for end in range(len(tokens) - node.tokens + page, len(tokens) + 1, page)}


def test_the_leaf_used_longest_ago_goes_first_and_whole() -> None:
    tree = RadixTree(1)
    for tokens in ([1, 1, 1, 1], [2, 2, 2], [3, 3]):
        tree.insert(text(tokens), len(tokens))
    tree.match(text([1, 1, 1, 1]), 4)

    assert tree.evict(1) == 3

    assert tree.match(text([2]), 1)[0] == 0
    assert tree.match(text([3, 3]), 2)[0] == 2


def test_a_prefix_outlives_what_came_after_it() -> None:
    tree = RadixTree(1)
    tree.insert(text([1, 1, 5, 5, 5]), 5)
    # whoever asks for the beginning alone splits it off
    tree.match(text([1, 1, 6]), 3)

    assert tree.evict(1) == 3

    assert tree.match(text([1, 1, 5]), 3)[0] == 2
