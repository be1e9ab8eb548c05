"""Streams of bytes written to files: to a size, in parts, packed."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

MB = 1_000_000


def write(path: Path, blocks: Iterable[bytes], size: int) -> int:
    """Write whole lines of `blocks` until `size` bytes would be exceeded; at least one line. Returns the bytes."""
    written = 0
    with path.open("wb") as handle:
        for block in blocks:
            if written + len(block) > size:
                whole = block[: block.rfind(b"\n", 0, size - written) + 1]
                if not (whole or written):
                    whole = block[: block.index(b"\n") + 1]
                handle.write(whole)
                return written + len(whole)
            written += handle.write(block)
    return written


def write_split(folder: Path, blocks: Iterable[bytes], size: int, each: int) -> int:
    """Write `size` bytes as files of about `each` bytes, in order; returns the bytes."""
    folder.mkdir()
    written, rest = 0, b""
    left = iter(blocks)
    for number in range(max(1, round(size / each))):
        while len(rest) < each:
            rest += next(left)
        cut = rest.rfind(b"\n", 0, each) + 1
        written += (folder / f"{number:05}.log").write_bytes(rest[:cut])
        rest = rest[cut:]
    return written


def write_one_line(path: Path, size: int, end: bytes) -> int:
    """Write one line of `size` bytes that is no engine's, then `end`; returns the bytes."""
    with path.open("wb") as handle:
        for piece in _pieces(size, b'{"weights": [0.125, 0.250, 0.375]}, '):
            handle.write(piece)
        handle.write(b"\n" + end)
        return handle.tell()


def _pieces(size: int, unit: bytes) -> Iterator[bytes]:
    block = unit * (MB // len(unit))
    while size > 0:
        yield block[:size]
        size -= len(block)


def gzipped(path: Path) -> Path:
    """Pack a file beside itself, as logrotate does."""
    packed = path.with_name(path.name + ".gz")
    with path.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, MB)
    return packed


def zstandard_packed(path: Path) -> Path:
    """Pack a file beside itself at zstd's usual level."""
    packed = path.with_name(path.name + ".zst")
    with path.open("rb") as source, packed.open("wb") as target:
        zstandard.ZstdCompressor(level=3).copy_stream(source, target)
    return packed
