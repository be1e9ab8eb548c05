"""A request while the engine has it, and the queue it waits in."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from analyzer.replay.result import Served
from analyzer.replay.workload import Request


@dataclass(slots=True, eq=False)
class Live:
    """A request in the engine. Lengths in tokens.

    `tokens` are those known (prompt and generated), `computed` those whose KV is in the pool or being computed. Under async scheduling,
    `placeholders` are the tokens that steps under way are making, and `stale` those that were under way when it was preempted, and are
    delivered all the same. It finishes when `tokens` reaches `end`, and no step is scheduled for it that would go beyond `limit`.
    `decodes`: its next step makes one token from one token.

    Of its `blocks`, the first `cached` are known by their content. `keys` are those of its leading `depth` blocks, which others have too,
    and `held` the cached ones of these blocks that it holds now. `kept` is what it left behind of the others when it was preempted.
    """

    request: Request
    served: Served
    keys: list[int]
    depth: int
    end: int
    limit: int
    tokens: int
    computed: int = 0
    placeholders: int = 0
    stale: int = 0
    decodes: bool = False
    blocks: int = 0
    cached: int = 0
    held: list[int] = field(default_factory=list)
    kept: Kept | None = None
    done: bool = False

    @classmethod
    def of(cls, request: Request, served: Served, keys: list[int], max_model_tokens: int) -> Live:
        """A request that has just arrived."""
        prompt = request.prompt_tokens
        # a first token is made in any case
        end = max(prompt + 1, min(prompt + min(request.output_tokens, request.max_new_tokens), max_model_tokens))
        return cls(request, served, keys, len(keys), end, min(prompt + request.max_new_tokens, max_model_tokens), prompt)

    @property
    def rank(self) -> tuple[int, float]:
        """The lower, the sooner it is served under the priority policy."""
        return self.request.priority, self.request.arrival_s

    @property
    def written(self) -> int:
        """Tokens whose KV and content are known."""
        return self.computed - self.placeholders


@dataclass(slots=True, eq=False)
class Kept:
    """Cached blocks that nobody holds, `blocks` in a row of one request, from its block `first` on; the last of them goes first."""

    owner: Live
    first: int
    blocks: int


class Queue(Protocol):
    """Requests that wait for admission."""

    def add(self, live: Live) -> None:
        """A new one."""
        ...

    def put_back(self, live: Live) -> None:
        """One that was preempted."""
        ...

    def head(self) -> Live:
        """Who is next."""
        ...

    def pop(self) -> Live:
        """Take out who is next."""
        ...

    def remove(self, live: Live) -> None:
        """Take out any of them."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Live]: ...


class Fcfs:
    """First come, first served; who was preempted is first."""

    def __init__(self) -> None:
        self._queue: deque[Live] = deque()
        self.add = self._queue.append
        self.put_back = self._queue.appendleft
        self.pop = self._queue.popleft
        self.remove = self._queue.remove

    def head(self) -> Live:
        """See `Queue.head`."""
        return self._queue[0]

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Live]:
        return iter(self._queue)


class ByPriority:
    """By priority, arrival and id; a preempted request goes to its place."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, float], str, Live]] = []

    def add(self, live: Live) -> None:
        """See `Queue.add`."""
        heapq.heappush(self._heap, (live.rank, live.request.id, live))

    def put_back(self, live: Live) -> None:
        """See `Queue.put_back`."""
        self.add(live)

    def head(self) -> Live:
        """See `Queue.head`."""
        return self._heap[0][2]

    def pop(self) -> Live:
        """See `Queue.pop`."""
        return heapq.heappop(self._heap)[2]

    def remove(self, live: Live) -> None:
        """See `Queue.remove`."""
        self._heap = [entry for entry in self._heap if entry[2] is not live]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Live]:
        return (live for _, _, live in sorted(self._heap))
