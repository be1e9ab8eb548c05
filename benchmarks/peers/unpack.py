"""A packed file unpacked and its lines with the words counted: the least that a reader of it can cost in Python.

python -m benchmarks.peers.unpack FILE WORDS [WORDS ...]
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import zstandard

BLOCK = 1 << 20


def count(packed: Path, words: list[bytes]) -> int:
    """How often the words are there; they are in a line once."""
    found, rest = 0, b""
    for block in _blocks(packed):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        found += sum((whole + newline).count(word) for word in words)
    return found + sum(rest.count(word) for word in words)


def _blocks(packed: Path) -> Iterator[bytes]:
    with packed.open("rb") as handle:
        if packed.suffix == ".zst":
            yield from zstandard.ZstdDecompressor().read_to_iter(handle, write_size=BLOCK)
            return
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while block := handle.read(BLOCK // 8):
            yield unpacker.decompress(block)
        yield unpacker.flush()


if __name__ == "__main__":
    print(count(Path(sys.argv[1]), [word.encode() for word in sys.argv[2:]]))
