"""Where reading a source may go on once it has grown, and what a reader has to know there, as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import zstandard

# With more requests that wait for their end, where reading stopped is not kept: to write them down would take as long as to read on.
MOST_WAITING = 20_000

_TIME = "$time"
# Far more than any reader keeps.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Resume:
    """A place in a source that no record reaches over: `offset` bytes and `lines` lines stand before it.

    `state` is what `reader`, the one of that name, knew there: plain JSON that holds nothing but what is in the trace anyway.
    """

    reader: str
    offset: int
    lines: int
    state: Mapping[str, Any]

    def pack(self) -> bytes:
        """The state for a file."""
        text = json.dumps(self.state, sort_keys=True, separators=(",", ":"))
        return zstandard.compress(text.encode("ascii"))

    @staticmethod
    def unpack(packed: bytes) -> dict[str, Any]:
        """The state that `pack` made the bytes of. Raises ValueError when they are damaged."""
        try:
            state = json.loads(zstandard.ZstdDecompressor().decompress(packed, max_output_size=_MOST_BYTES))
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
        if not isinstance(state, dict):
            raise ValueError("the state is no object")
        return state


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as JSON can hold it."""
    return {k: {_TIME: v.isoformat()} if isinstance(v, datetime) else v for k, v in row.items()}


def alive(row: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `plain`."""
    return {k: _value(v) for k, v in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, dict) and _TIME in value:
        return datetime.fromisoformat(value[_TIME])
    if isinstance(value, list):
        # entries of a map
        return [tuple(v) if isinstance(v, list) else v for v in value]
    return value
