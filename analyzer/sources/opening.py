"""Opens an input and gives its text block by block, whatever it is packed or encoded in.

The packing is told by content, not by name. An archive that ends too early gives what could be
unpacked, and says so.
"""

from __future__ import annotations

import bz2
import codecs
import hashlib
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import zstandard

BLOCK = 1 << 20

# What a file that is no text begins with; anything else with NUL bytes early on is taken for binary too.
_BINARY = {
    b"\xff\xd8\xff": "a JPEG picture",
    b"\x89PNG": "a PNG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive; unpack it and give the folder",
    b"\x7fELF": "a program",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "a SQLite database",
    b"\x80\x04\x95": "a Python pickle, which is never loaded",
    b"Obj\x01": "an Avro file",
}
_TAR_MAGIC = (257, b"ustar")


class BinaryInputError(Exception):
    """The input is no text; the message says what it is."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


_PACKED: tuple[tuple[bytes, str, Callable[[], _Decompressor]], ...] = (
    (b"\x1f\x8b", "gzip", lambda: cast(_Decompressor, zlib.decompressobj(wbits=31))),
    (b"\x28\xb5\x2f\xfd", "zstd", lambda: cast(_Decompressor, zstandard.ZstdDecompressor().decompressobj())),
    (b"BZh", "bzip2", lambda: cast(_Decompressor, bz2.BZ2Decompressor())),
    (b"\xfd7zXZ\x00", "xz", lambda: cast(_Decompressor, lzma.LZMADecompressor())),
)


class TextInput:
    """The text of one input, as blocks of str.

    Bytes that are no UTF-8 are kept as surrogate escapes. After iteration `cut` says whether the
    input ended too early, with the reason in `notes`; `size` and `sha256` are of the stored bytes.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.cut = False
        self.notes: list[str] = []
        self.size = 0
        self.packing: str | None = None
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str | None:
        """Hash of the bytes as stored; None for standard input."""
        return None if self._path is None else self._hash.hexdigest()

    def __iter__(self) -> Iterator[str]:
        """Raises OSError when it cannot be opened, BinaryInputError when it is no text."""
        decoder: codecs.IncrementalDecoder | None = None
        for block in self._unpacked():
            if decoder is None:
                encoding = _encoding(block)
                refuse_binary(block, encoding)
                decoder = codecs.getincrementaldecoder(encoding)(errors="surrogateescape")
            yield decoder.decode(block)
        if decoder is not None:
            yield decoder.decode(b"", final=True)

    def _stored(self) -> Iterator[bytes]:
        handle: BinaryIO = sys.stdin.buffer if self._path is None else self._path.open("rb")
        try:
            while True:
                try:
                    block = handle.read(BLOCK)
                except OSError as error:
                    if not self.size:
                        raise
                    self._mark_cut(f"reading stopped after {self.size:,} bytes: {error.strerror}")
                    return
                if not block:
                    return
                self.size += len(block)
                self._hash.update(block)
                yield block
        finally:
            if self._path is not None:
                handle.close()

    def _unpacked(self) -> Iterator[bytes]:
        blocks = self._stored()
        first = next(blocks, b"")
        if not first:
            return
        for magic, name, make in _PACKED:
            if first.startswith(magic):
                self.packing = name
                yield from self._decompress(make, magic, first, blocks)
                return
        yield first
        yield from blocks

    def _decompress(self, make: Callable[[], _Decompressor], magic: bytes, first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
        unpacker = make()
        data = first
        while True:
            while data:
                try:
                    out = unpacker.decompress(data)
                except (
                    zlib.error,
                    zstandard.ZstdError,
                    OSError,
                    lzma.LZMAError,
                    EOFError,
                    ValueError,
                ) as error:
                    self._mark_cut(f"the {self.packing} archive is damaged: {error}")
                    return
                if out:
                    yield out
                if not unpacker.eof:
                    break
                # several archives one after the other are one; padding behind the last is nothing
                data = unpacker.unused_data.lstrip(b"\0")
                if data and not data.startswith(magic):
                    self.notes.append(f"{len(data):,} bytes behind the {self.packing} archive were left")
                    return
                unpacker = make()
            nxt = next(blocks, None)
            if nxt is None:
                if data and not unpacker.eof:
                    self._mark_cut(f"the {self.packing} archive ends too early")
                return
            data = nxt

    def _mark_cut(self, why: str) -> None:
        self.cut = True
        self.notes.append(why)


def _encoding(block: bytes) -> str:
    if block.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8"


def refuse_binary(block: bytes, encoding: str) -> None:
    """Raise BinaryInputError when `block`, the beginning of an input, is no text."""
    for magic, what in _BINARY.items():
        if block.startswith(magic):
            raise BinaryInputError(f"is {what}")
    offset, magic = _TAR_MAGIC
    if block[offset : offset + len(magic)] == magic:
        raise BinaryInputError("is a tar archive; unpack it and give the folder")
    head = block[:8192]
    # A sparse or rotated log can hold runs of NULs; a binary file has them all over.
    if encoding != "utf-16" and head.count(0) > len(head) // 100 and head.strip(b"\0"):
        raise BinaryInputError("is a binary file")
