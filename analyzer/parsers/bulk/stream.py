"""A whole text, block by block: each as it was read in bulk, beside its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analyzer.parsers.bulk.block import BlockRead, everything_left, read_block
from analyzer.parsers.bulk.book import Book
from analyzer.parsers.bulk.cut import BLOCK, blocks, place_to_cut


def read_blocks(chunks: Iterable[bytes], source_id: str, size: int = BLOCK) -> Iterator[tuple[bytes, BlockRead]]:
    """(bytes, what they hold) of all blocks in order. A last line that has no end is left to be read line by line."""
    book = Book()
    for data in blocks(chunks, size):
        end = len(data) if data.endswith(b"\n") else place_to_cut(data) or 0
        if end:
            yield data[:end], read_block(data[:end], book, source_id)
        if end < len(data):
            yield data[end:], everything_left(data[end:])
