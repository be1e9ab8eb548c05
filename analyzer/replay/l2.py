"""A host pool (L2) for the engines' models: which blocks it holds, and how long they take to come back.

Blocks are named by the caller with chained keys: the key of block i stands for the content of blocks 0 to i, as the engines' own block
hashes do. The pool is asked for matches and told what happens in L1; it holds no tokens and reads no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

from analyzer.formats.versions import version_key
from analyzer.replay.settings import L2, Engine

WritePolicy = Literal["write_through", "write_through_selective", "write_back"]

# 0.5.1 does not, and the release between them was not read
_WRITES_THROUGH_SINCE = version_key("0.5.3")
# A block goes to the host when it has been computed this often; 0 is never.
_COMPUTED_FOR = {"write_through": 1, "write_through_selective": 2, "write_back": 0}


def default_write(engine: Engine, version: str) -> WritePolicy:
    """What an engine does that was not told: SGLang before 0.5.3 stored what was hit again; since then, and under vLLM, all is stored.

    A version that is not known counts as a recent one.
    """
    known = version_key(version)
    early = engine == "sglang" and bool(known) and known < _WRITES_THROUGH_SINCE
    return "write_through_selective" if early else "write_through"


class HostPool:
    """Least recently used goes first, whether or not L1 holds it too; within a request the end goes before the beginning.

    Blocks are whole or not there, and what is being copied counts as copied. A pool without room for a block holds and counts nothing.

    How a model calls it: `match` at each look-up, `load` when the request is admitted with what was found, `computed` when blocks become
    full in L1, `evicted` when blocks leave it, `touch` when a request is done.
    """

    def __init__(self, settings: L2) -> None:
        """Raise ValueError for a block below one token, a capacity below 0 or a rate that is not above 0."""
        if settings.block_tokens < 1 or settings.capacity_tokens < 0 or not settings.load_tokens_per_s > 0:
            raise ValueError(f"no host pool can be like this: {settings}")
        self.settings = settings
        self.capacity_blocks = settings.capacity_tokens // settings.block_tokens
        # grows with each change of what is held: a match found before is as good as new while this stands still
        self.changes = 0
        self._held: OrderedDict[Hashable, None] = OrderedDict()
        self._computed: dict[Hashable, int] = {}
        self._wanted = _COMPUTED_FOR[settings.write]
        self._stored = self._evicted = self._dropped = 0
        self.loaded_tokens = 0

    @property
    def held_tokens(self) -> int:
        """What it holds now."""
        return len(self._held) * self.settings.block_tokens

    @property
    def stored_tokens(self) -> int:
        """Ever copied from L1."""
        return self._stored * self.settings.block_tokens

    @property
    def evicted_tokens(self) -> int:
        """Ever thrown out to make room."""
        return self._evicted * self.settings.block_tokens

    @property
    def dropped_tokens(self) -> int:
        """Ever not stored because their own request filled the pool."""
        return self._dropped * self.settings.block_tokens

    def match(self, keys: Sequence[Hashable], start: int = 0) -> int:
        """How many blocks in a row are held from index `start` on; they are used now, and so is what is held of those before them.

        `start` is how many blocks L1 matched. Looking up the same twice changes nothing.
        """
        if not self._held:
            return 0
        held = self._held
        end = start
        while end < len(keys) and keys[end] in held:
            end += 1
        self._use(keys[:end])
        return end - start

    def load(self, tokens: int) -> float:
        """Seconds until that many tokens are in L1, and counts them as loaded."""
        self.loaded_tokens += tokens
        return tokens / self.settings.load_tokens_per_s

    def computed(self, keys: Sequence[Hashable], start: int = 0) -> None:
        """A request's blocks from index `start` on are in L1 now, computed or found there; tell each block of a request once.

        Stores under `write_through`, and under `write_through_selective` those told a second time while they stay in L1.
        Evicts what it must, but nothing of `keys[start:]`: if these alone are more than the pool, the last of them are dropped.
        """
        if not self.capacity_blocks or not self._wanted:
            return
        told = keys[start:]
        new = [key for key in told if key not in self._held]
        room = self.capacity_blocks - (len(told) - len(new))
        if self._wanted > 1:
            new = self._seen_before(told, new)
        self._dropped += max(0, len(new) - room)
        if fitting := new[:room]:
            # what is held of them goes to the safe end first
            self._use(told)
            self._store(fitting)
        self._use(told)

    def evicted(self, keys: Iterable[Hashable]) -> None:
        """These blocks leave L1, in this order. Stores them under `write_back`; under `write_through_selective` they begin anew."""
        if not self.capacity_blocks:
            return
        if not self._wanted:
            for key in keys:
                if key not in self._held:
                    self._store([key])
        elif self._wanted > 1:
            for key in keys:
                self._computed.pop(key, None)

    def touch(self, keys: Sequence[Hashable]) -> None:
        """A request with these blocks is done: what is held of them is used now."""
        self._use(keys)

    def _seen_before(self, told: Sequence[Hashable], new: Sequence[Hashable]) -> list[Hashable]:
        """Count `told`, and of `new` what has been counted often enough."""
        seen = self._computed
        for key in told:
            seen[key] = seen.get(key, 0) + 1
        return [key for key in new if seen[key] >= self._wanted]

    def _store(self, keys: Sequence[Hashable]) -> None:
        """Take in keys that are not held, at most the capacity; what was used longest ago makes room."""
        held = self._held
        over = len(held) + len(keys) - self.capacity_blocks
        for _ in range(over):
            held.popitem(last=False)
        self._evicted += max(0, over)
        for key in keys:
            held[key] = None
        self._stored += len(keys)
        self.changes += 1

    def _use(self, keys: Sequence[Hashable]) -> None:
        """The first of `keys` becomes the one used last, so that a request loses its end first."""
        held = self._held
        for key in reversed(keys):
            if key in held:
                held.move_to_end(key)
