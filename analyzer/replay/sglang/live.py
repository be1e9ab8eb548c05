"""A request while the engine has it, and a batch of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.replay.result import Served
from analyzer.replay.sglang.radix import Node
from analyzer.replay.workload import Contents, Request


class Live:
    """A request from its arrival on. All lengths in tokens.

    `out` are the tokens it has made, of `ends_at` in all. In the KV pool it holds `held` of its tokens: the first `shared` belong to
    the radix tree, where `node` is their last node and `locked` says that it is held; the rest is its own. `prefix` is where the next
    prefill begins and `end` where the last one ended. `chunks` counts the prefills under way that do not finish its prompt. `stale`:
    what is under way for it is not wanted any more. With an L2, `block_keys` name its blocks, `told_blocks` of which the host knows.
    """

    # fmt: off
    __slots__ = (
        "_contents", "_text", "block_keys", "chunks", "end", "ends_at", "finished", "has_row", "held", "ignores_eos", "locked",
        "max_new", "node", "out", "prefix", "prompt", "request", "served", "shared", "stale", "told_blocks",
    )
    # fmt: on

    def __init__(self, request: Request, served: Served, max_new: int, contents: Contents) -> None:
        self.request = request
        self.served = served
        self.prompt = request.prompt_tokens
        self.max_new = max_new
        self.ignores_eos = request.ignore_eos
        # a limit below one token is found out after the first
        self.ends_at = max(1, min(request.output_tokens, max_new))
        self.out = 0
        self.held = self.shared = self.prefix = self.end = 0
        self.node: Node | None = None
        self.locked = self.has_row = False
        self.chunks = 0
        self.stale = self.finished = False
        self.block_keys: list[int] = []
        self.told_blocks = 0
        self._contents = contents
        self._text = b""

    @property
    def id(self) -> str:
        """The request's id."""
        return self.request.id

    @property
    def length(self) -> int:
        """Prompt and what was made so far."""
        return self.prompt + self.out

    def text(self, tokens: int) -> bytes:
        """Its content, 8 bytes a token, at least the first `tokens`."""
        if not self._text:
            self._text = self._contents.prompt(self.request).tobytes()
        if tokens > self.prompt and len(self._text) == self.prompt * 8:
            self._text += self._contents.output(self.request).tobytes()
        return self._text

    def forget_text(self) -> None:
        """It is done: its content is not asked for again."""
        self._text = b""
        self.block_keys = []


@dataclass(slots=True)
class Batch:
    """Requests that run together.

    `full`: admission is closed until a request leaves. `chunked` is the one whose prompt goes on in the next prefill, `load_s` what it
    takes to load from L2 before this one, `makes_nothing`: no request in it may make a token of its own. `reqs` is replaced, never
    changed: who keeps the list keeps what was in the batch then.
    """

    reqs: list[Live] = field(default_factory=list)
    full: bool = False
    prefill: bool = False
    chunked: Live | None = None
    load_s: float = 0.0
    makes_nothing: bool = False

    def keep(self, reqs: list[Live]) -> bool:
        """Leave only `reqs` in it; whether one left."""
        fewer = len(reqs) < len(self.reqs)
        if fewer:
            self.reqs = reqs
        return fewer

    def merge(self, other: Batch) -> None:
        """Put another batch's requests behind its own."""
        self.reqs = self.reqs + other.reqs
        self.makes_nothing = self.makes_nothing and other.makes_nothing
