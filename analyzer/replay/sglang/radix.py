"""The radix tree that SGLang keeps prefixes in: shared by content, page by page, locked by running requests, evicted leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np

TOKEN_BYTES = 8
# A walk stamps all its nodes with one tick, deeper ones later: room for this many levels between two ticks.
_LEVELS = 1 << 20


class Node:
    """One edge of the tree: `text` are its tokens, 8 bytes each, in whole pages; `locks` counts who holds it or something below it."""

    __slots__ = ("children", "locks", "parent", "text", "touched")

    def __init__(self, text: bytes, parent: Node | None) -> None:
        self.text = text
        self.parent = parent
        self.children: dict[bytes, Node] = {}
        self.locks = 0
        self.touched = 0

    @property
    def tokens(self) -> int:
        """How many tokens it holds."""
        return len(self.text) // TOKEN_BYTES


class RadixTree:
    """Prefixes by content. `evictable` is how many tokens nobody holds; the tree counts tokens and knows no memory."""

    def __init__(self, page_tokens: int, on_evict: Callable[[Node], None] | None = None) -> None:
        """`on_evict` is told of each leaf before it leaves the tree."""
        self.root = Node(b"", None)
        self.evictable = 0
        self._page = page_tokens * TOKEN_BYTES
        self._leaves: set[Node] = set()
        self._tick = 0
        self._on_evict = on_evict

    def match(self, text: bytes, tokens: int) -> tuple[int, Node]:
        """The longest known prefix of the first `tokens` of `text`, in whole pages: how many tokens, and its last node.

        A node in which the match ends is split. What was matched counts as used now.
        """
        end = self._whole_pages(tokens)
        if not end:
            return 0, self.root
        node, at = self.root, 0
        while at < end:
            child = node.children.get(text[at : at + self._page])
            if child is None:
                break
            same = self._same(child, text, at, end)
            node = child if same == len(child.text) else self._split(child, same)
            at += same
            if node is not child:
                break
        self._tick += 1
        stamp, up = self._tick * _LEVELS, node
        while up.parent is not None:
            up.touched = stamp
            stamp -= 1
            up = up.parent
        return at // TOKEN_BYTES, node

    def insert(self, text: bytes, tokens: int) -> tuple[int, Node]:
        """Make the whole pages of the first `tokens` of `text` known: how many tokens were so before, and the last node."""
        end = self._whole_pages(tokens)
        node, at = self.root, 0
        while at < end:
            child = node.children.get(text[at : at + self._page])
            if child is None:
                break
            self._touch(child)
            same = self._same(child, text, at, end)
            node = child if same == len(child.text) else self._split(child, same)
            at += same
        if at < end:
            node = self._add(node, text[at:end])
        return at // TOKEN_BYTES, node

    def lock(self, node: Node) -> None:
        """Hold a node and all above it."""
        while node.parent is not None:
            if not node.locks:
                self.evictable -= node.tokens
                self._leaves.discard(node)
            node.locks += 1
            node = node.parent

    def unlock(self, node: Node) -> None:
        """Let go what `lock` held."""
        while node.parent is not None:
            node.locks -= 1
            if not node.locks:
                self.evictable += node.tokens
                if not node.children:
                    self._leaves.add(node)
            node = node.parent

    def evict(self, tokens: int) -> int:
        """Drop whole leaves, the one used longest ago first, until at least `tokens` are gone or nothing is left; how many went."""
        heap = [(leaf.touched, leaf) for leaf in self._leaves]
        heapify(heap)
        gone = 0
        while gone < tokens and heap:
            leaf = heappop(heap)[1]
            gone += leaf.tokens
            above = self._remove(leaf)
            if above in self._leaves:
                heappush(heap, (above.touched, above))
        self.evictable -= gone
        return gone

    def _whole_pages(self, tokens: int) -> int:
        return tokens * TOKEN_BYTES // self._page * self._page

    def _same(self, node: Node, text: bytes, at: int, end: int) -> int:
        """How many bytes of a node, in whole pages, are as `text` goes on."""
        size = len(node.text)
        if at + size <= end and text.startswith(node.text, at):
            return size
        count = min(size, end - at) // TOKEN_BYTES
        mine = np.frombuffer(node.text, dtype=np.int64, count=count)
        differ = np.flatnonzero(mine != np.frombuffer(text, dtype=np.int64, count=count, offset=at))
        return self._whole_pages(int(differ[0]) if len(differ) else count)

    def _touch(self, node: Node) -> None:
        self._tick += 1
        node.touched = self._tick * _LEVELS

    def _add(self, parent: Node, text: bytes) -> Node:
        leaf = Node(text, parent)
        self._touch(leaf)
        parent.children[text[: self._page]] = leaf
        self._leaves.discard(parent)
        self._leaves.add(leaf)
        self.evictable += leaf.tokens
        return leaf

    def _split(self, node: Node, size: int) -> Node:
        """Cut a node after `size` bytes; the new upper half. Who holds the node holds both."""
        assert node.parent is not None
        upper = Node(node.text[:size], node.parent)
        upper.locks = node.locks
        node.parent.children[node.text[: self._page]] = upper
        node.text = node.text[size:]
        node.parent = upper
        upper.children[node.text[: self._page]] = node
        self._touch(upper)
        self._touch(node)
        return upper

    def _remove(self, leaf: Node) -> Node:
        """Take a leaf out; what it hung on."""
        parent = leaf.parent
        assert parent is not None
        if self._on_evict is not None:
            self._on_evict(leaf)
        self._leaves.discard(leaf)
        del parent.children[leaf.text[: self._page]]
        if parent.parent is not None and not parent.children and not parent.locks:
            self._leaves.add(parent)
        return parent
