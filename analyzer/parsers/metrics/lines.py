"""From blocks of text to whole lines, many at a time."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

# A line longer than this is no line of a dump; it is handed on in parts, so that memory stays bounded.
_MAX_LINE = 1 << 28
# Unpacked files come in small blocks; lines are handed on when there are this many characters of them.
_AT_ONCE = 1 << 20


def whole_lines(blocks: Iterator[str]) -> Iterator[tuple[list[str], bool]]:
    """(lines, cut), many lines at once and without their newline; `cut` is True for a last line that has none.

    Lines keep a carriage return.
    """
    parts: list[str] = []
    size = open_size = 0
    first = True
    for block in blocks:
        if first and block:
            block = block.removeprefix("\ufeff")
            first = False
        end = block.rfind("\n")
        parts.append(block)
        size += len(block)
        open_size = len(block) - end - 1 if end >= 0 else open_size + len(block)
        if end >= 0 and size >= _AT_ONCE:
            parts[-1] = block[:end]
            yield "".join(parts).split("\n"), False
            parts, size = [block[end + 1 :]], open_size
        elif open_size > _MAX_LINE:
            yield "".join(parts).split("\n"), False
            parts, size, open_size = [], 0, 0
    lines = "".join(parts).split("\n")
    last = lines.pop()
    if lines:
        yield lines, False
    if last:
        yield [last], True


class Block:
    """Whole lines of UTF-8, each with its newline; `starts` tells where in it each begins, and its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        # a word can be taken from any place in it
        self._padded = data + bytes(7)
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self.starts = np.append(0, np.flatnonzero(self.bytes == 10) + 1)

    def __len__(self) -> int:
        """Number of lines."""
        return len(self.starts) - 1

    @cached_property
    def words(self) -> npt.NDArray[np.uint64]:
        """The eight bytes that begin at each place, zeros behind the end."""
        return np.ndarray((len(self.data),), "<u8", self._padded, 0, (1,))

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their newline; bytes that are no UTF-8 are lone surrogates."""
        lines = self.data.decode("utf-8", "surrogateescape").split("\n")
        lines.pop()
        return lines

    def line(self, number: int) -> str:
        """One of them."""
        return self.data[int(self.starts[number]) : int(self.starts[number + 1]) - 1].decode("utf-8", "surrogateescape")


def whole_blocks(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """(bytes, cut): many lines at once, each with its newline; `cut` is True for a last line, which has none.

    Lines keep a carriage return.
    """
    blocks = _blocks(chunks)
    for data, cut in blocks:
        yield data.removeprefix(BOM_UTF8), cut
        break
    yield from blocks


def _blocks(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    parts: list[bytes] = []
    size = open_size = 0
    for chunk in chunks:
        end = chunk.rfind(b"\n")
        parts.append(chunk)
        size += len(chunk)
        open_size = len(chunk) - end - 1 if end >= 0 else open_size + len(chunk)
        if end >= 0 and size >= _AT_ONCE:
            parts[-1] = chunk[: end + 1]
            yield b"".join(parts), False
            parts, size = [chunk[end + 1 :]], open_size
        elif open_size > _MAX_LINE:
            yield b"".join([*parts, b"\n"]), False
            parts, size, open_size = [], 0, 0
    rest = b"".join(parts)
    end = rest.rfind(b"\n") + 1
    if end:
        yield rest[:end], False
    if rest[end:]:
        yield rest[end:], True
