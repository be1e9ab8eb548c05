"""The host pool (L2) beside the radix tree: what of a prompt can be loaded instead of computed. No admission test reads it."""

from __future__ import annotations

from analyzer.replay.l2 import HostPool
from analyzer.replay.settings import L2
from analyzer.replay.sglang.live import Live
from analyzer.replay.sglang.radix import TOKEN_BYTES, Node


class Host:
    """Names blocks by all the content up to their end, and tells the host pool what happens in L1."""

    def __init__(self, l2: L2, page_tokens: int) -> None:
        self.pool = HostPool(l2)
        self._block = l2.block_tokens
        self._page = page_tokens
        # loaded under write_through, evictions are of no interest: everything is there already
        self.wants_evictions = l2.write != "write_through"

    def find(self, req: Live) -> int:
        """Tokens that the host has of a request behind its `prefix`, in whole pages; the last token is always computed."""
        keys = self._keys(req, req.length - 1)
        blocks = req.prefix // self._block
        end = (blocks + self.pool.match(keys, blocks)) * self._block
        return max(0, end // self._page * self._page - req.prefix)

    def load(self, req: Live, tokens: int) -> float:
        """Count `tokens` of a request as loaded; seconds it takes."""
        req.served.l2_tokens += tokens
        return self.pool.load(tokens)

    def computed(self, req: Live, tokens: int) -> None:
        """The first `tokens` of a request are in L1."""
        keys = self._keys(req, tokens)
        if len(keys) > req.told_blocks:
            self.pool.computed(keys, req.told_blocks)
            req.told_blocks = len(keys)

    def done(self, req: Live, tokens: int) -> None:
        """A request is done that had `tokens` in L1."""
        self.pool.touch(self._keys(req, tokens))

    def evicted(self, node: Node) -> None:
        """A node leaves L1."""
        path: list[bytes] = []
        up: Node | None = node
        while up is not None:
            path.append(up.text)
            up = up.parent
        text = b"".join(reversed(path))
        before = (len(text) - len(node.text)) // TOKEN_BYTES // self._block
        self.pool.evicted(self._chain(text, [], len(text) // TOKEN_BYTES)[before:])

    def _keys(self, req: Live, tokens: int) -> list[int]:
        """Of the whole blocks of a request's first `tokens`."""
        blocks = tokens // self._block
        if len(req.block_keys) < blocks:
            self._chain(req.text(tokens), req.block_keys, tokens)
        return req.block_keys[:blocks]

    def _chain(self, text: bytes, keys: list[int], tokens: int) -> list[int]:
        """Go on with `keys` to the last whole block of the first `tokens` of `text`."""
        size = self._block * TOKEN_BYTES
        key = keys[-1] if keys else 0
        for at in range(len(keys) * size, tokens // self._block * size, size):
            key = hash((key, text[at : at + size]))
            keys.append(key)
        return keys
