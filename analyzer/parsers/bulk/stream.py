"""A whole text, block by block: each as it was read in bulk, beside its bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from analyzer.parsers.bulk.block import BlockRead, everything_left, read_block
from analyzer.parsers.bulk.book import Book
from analyzer.parsers.bulk.cut import BLOCK, blocks, place_to_cut
from analyzer.processes import spread

# So many blocks take longer to read than a process to start.
_ALONE = 12
# A line so many times as long as a block is to be is not worth reading in bulk: nothing else is like it.
_TIMES = 2
_NEWLINE = 10


class _Known(threading.local):
    """The shapes that a thread has learned: lines of one shape are alike in all sources."""

    book: Book | None = None


_KNOWN = _Known()


def _known_shapes() -> Book:
    if _KNOWN.book is None or _KNOWN.book.is_full:
        _KNOWN.book = Book()
    return _KNOWN.book


class Part(NamedTuple):
    """A part of the text, and whether it is worth reading in bulk."""

    data: bytes
    in_bulk: bool


@dataclass(frozen=True, slots=True)
class BlockReading:
    """Reads parts of one source, and learns their lines' shapes by the way: which are known changes no row."""

    source_id: str

    def __call__(self, part: Part) -> BlockRead:
        """What a part holds."""
        return read_block(part.data, _known_shapes(), self.source_id) if part.in_bulk else everything_left(part.data)


def read_blocks(
    chunks: Iterable[bytes], source_id: str, size: int = BLOCK, *, jobs: int = 1, alone: int = _ALONE
) -> Iterator[tuple[bytes, BlockRead]]:
    """(bytes, what they hold) of all blocks in order; those behind the first `alone` are read by other processes, if `jobs` are more."""
    reading = BlockReading(source_id)
    parts = _parts(chunks, size)
    for part in parts if jobs == 1 else islice(parts, alone):
        yield part.data, reading(part)
    for first in parts:
        # this process has as much to do with what they hold as another with reading them
        for part, read in spread(reading, chain((first,), parts), jobs=max(jobs - 1, 1)):
            yield part.data, read


def _parts(chunks: Iterable[bytes], size: int) -> Iterator[Part]:
    """The text in blocks of whole lines; a last line without an end, and a very long one with those behind it, are to be read alone."""
    for number, data in enumerate(blocks(chunks, size)):
        end = len(data) if data.endswith(b"\n") else place_to_cut(data) or 0
        begin = end
        if end > _TIMES * size:
            start, length = _longest_line(data)
            # the first block stays whole: how wide a terminal was that wrapped the log is told by it
            if length > _TIMES * size:
                begin = place_to_cut(data[:start]) or 0 if number else 0
        if begin:
            yield Part(data[:begin], True)
        if begin < end:
            yield Part(data[begin:end], False)
        if end < len(data):
            yield Part(data[end:], False)


def _longest_line(data: bytes) -> tuple[int, int]:
    """Where the longest line begins, and how long it is."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
    begins = np.concatenate(([0], ends + 1))
    lengths = np.diff(begins, append=len(data))
    longest = int(lengths.argmax())
    return int(begins[longest]), int(lengths[longest])
