"""A whole text, block by block: each as it was read in bulk, beside its bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from analyzer.parsers.bulk.block import BlockRead, everything_left, read_block
from analyzer.parsers.bulk.book import Book
from analyzer.parsers.bulk.cut import BLOCK, blocks, place_to_cut
from analyzer.processes import spread

# So many blocks take longer to read than a process to start.
_ALONE = 12


class _Known(threading.local):
    """The shapes that a thread has learned: lines of one shape are alike in all sources."""

    book: Book | None = None


_KNOWN = _Known()


def _known_shapes() -> Book:
    if _KNOWN.book is None or _KNOWN.book.is_full:
        _KNOWN.book = Book()
    return _KNOWN.book


@dataclass(frozen=True, slots=True)
class BlockReading:
    """Reads blocks of one source, and learns their lines' shapes by the way: which are known changes no row."""

    source_id: str

    def __call__(self, data: bytes) -> BlockRead:
        """What a block holds; one that does not end with a line's end is left to be read line by line."""
        if not data.endswith(b"\n"):
            return everything_left(data)
        return read_block(data, _known_shapes(), self.source_id)


def read_blocks(
    chunks: Iterable[bytes], source_id: str, size: int = BLOCK, *, jobs: int = 1, alone: int = _ALONE
) -> Iterator[tuple[bytes, BlockRead]]:
    """(bytes, what they hold) of all blocks in order; those behind the first `alone` are read by `jobs` processes, if there are more."""
    reading = BlockReading(source_id)
    parts = _parts(chunks, size)
    for data in parts if jobs == 1 else islice(parts, alone):
        yield data, reading(data)
    for data in parts:
        yield from spread(reading, chain((data,), parts), jobs=jobs)


def _parts(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The text in blocks of whole lines; a last line that has no end is a part of its own."""
    for data in blocks(chunks, size):
        end = len(data) if data.endswith(b"\n") else place_to_cut(data) or 0
        if end:
            yield data[:end]
        if end < len(data):
            yield data[end:]
