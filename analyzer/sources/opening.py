"""Opens an input and gives its text block by block, whatever it is packed or encoded in.

The packing is told by content, not by name. An archive that ends too early gives what could be
unpacked, and says so.
"""

from __future__ import annotations

import bz2
import codecs
import hashlib
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, cast

import zstandard

from analyzer.sources.sampling import Sampler

BLOCK = 1 << 20

# What a file that is no text begins with; anything else with NUL bytes early on is taken for binary too.
_BINARY = {
    b"\xff\xd8\xff": "a JPEG picture",
    b"\x89PNG": "a PNG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive; unpack it and give the folder",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it and give the folder",
    b"Rar!\x1a\x07": "a RAR archive; unpack it and give the folder",
    b"\x7fELF": "a program",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "a SQLite database",
    b"\x80\x04\x95": "a Python pickle, which is never loaded",
    b"Obj\x01": "an Avro file",
}
_TAR_MAGIC = (257, b"ustar")
# This much is looked at to tell text from other things. The first block of an archive can be shorter.
_HEAD = 8192
# Archives are unpacked in small steps: what 64 KiB can swell to still fits into memory.
_STEP = 1 << 16


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
    (b"\x28\xb5\x2f\xfd", "zstd", lambda: cast(_Decompressor, zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj())),
    (b"BZh", "bzip2", lambda: cast(_Decompressor, bz2.BZ2Decompressor())),
    (b"\xfd7zXZ\x00", "xz", lambda: cast(_Decompressor, lzma.LZMADecompressor())),
)

_BZIP2_BLOCKS = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")


class TextSource(Protocol):
    """UTF-8 text that comes block by block, from a file or over the network; see TextInput for the attributes."""

    cut: bool
    notes: list[str]

    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str | None: ...
    def __iter__(self) -> Iterator[bytes]: ...


class Openable(Protocol):
    """What gives the bytes of an input, as a path does; raises OSError."""

    def open(self, mode: Literal["rb"]) -> BinaryIO: ...


class TextInput:
    """The text of one input, as blocks of UTF-8 without a byte order mark.

    Bytes that are no UTF-8 are kept as they are. After iteration `cut` says whether the
    input ended too early, with the reason in `notes`; `size` and `sha256` are of the stored bytes.
    """

    def __init__(self, path: Path | Openable | None) -> None:
        self._path = path
        self.cut = False
        self.notes: list[str] = []
        self.size = 0
        self.packing: str | None = None
        self.encoding = "utf-8"
        self._hash = hashlib.sha256()
        self._unpacked_hash = hashlib.sha256()
        self._sampler = Sampler()
        self._unpacked_sampler = Sampler()

    @property
    def content_sha256(self) -> str | None:
        """Hash of the bytes as they are unpacked; None for standard input."""
        return self.sha256 if self.packing is None or self._path is None else self._unpacked_hash.hexdigest()

    @property
    def sha256(self) -> str | None:
        """Hash of the bytes as stored; None for standard input."""
        return None if self._path is None else self._hash.hexdigest()

    @property
    def sample(self) -> str | None:
        """Sample of the bytes as stored; None for standard input."""
        return None if self._path is None else self._sampler.digest()

    @property
    def content(self) -> tuple[int, str] | None:
        """Length and sample of the bytes as they are unpacked; None for standard input."""
        unpacked = self._sampler if self.packing is None else self._unpacked_sampler
        return None if self._path is None else (unpacked.size, unpacked.digest())

    @property
    def is_as_stored(self) -> bool:
        """True when the blocks are the bytes of the file, from its first one on; known once there is a block."""
        return self.packing is None and self.encoding == "utf-8"

    def __iter__(self) -> Iterator[bytes]:
        """Raises OSError when it cannot be opened, BinaryInputError when it is no text."""
        blocks = self._unpacked()
        head = b""
        for block in blocks:
            head += block
            if len(head) >= _HEAD:
                break
        self.encoding = _encoding(head)
        refuse_binary(head, self.encoding)
        if self.encoding == "utf-16":
            decoder = codecs.getincrementaldecoder(self.encoding)(errors="replace")
            for block in chain((head,), blocks):
                yield decoder.decode(block).encode("utf-8", "replace")
            yield decoder.decode(b"", final=True).encode("utf-8", "replace")
            return
        yield head.removeprefix(codecs.BOM_UTF8)
        yield from blocks

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
                self._sampler.add(block)
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
            if first.startswith(magic) and (name != "bzip2" or first[4:10] in _BZIP2_BLOCKS):
                self.packing = name
                for block in self._decompress(make, magic, first, blocks):
                    self._unpacked_hash.update(block)
                    self._unpacked_sampler.add(block)
                    yield block
                return
        yield first
        yield from blocks

    def _decompress(self, make: Callable[[], _Decompressor], magic: bytes, first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """Several archives one after the other are one; padding behind the last is nothing."""
        unpacker: _Decompressor | None = None
        for data in (block[at : at + _STEP] for block in chain((first,), blocks) for at in range(0, len(block), _STEP)):
            while data:
                if unpacker is None:
                    data = data.lstrip(b"\0")
                    if not data:
                        break
                    if not magic.startswith(data[: len(magic)]):
                        self.notes.append(f"what stands behind the {self.packing} archive was left")
                        self._drain(blocks)
                        return
                    unpacker = make()
                try:
                    out = unpacker.decompress(data)
                except (zlib.error, zstandard.ZstdError, OSError, lzma.LZMAError, EOFError, ValueError) as error:
                    self._mark_cut(f"the {self.packing} archive is damaged: {error}")
                    self._drain(blocks)
                    return
                if out:
                    yield out
                data = unpacker.unused_data if unpacker.eof else b""
                if unpacker.eof:
                    unpacker = None
        if unpacker is not None:
            self._mark_cut(f"the {self.packing} archive ends too early")

    @staticmethod
    def _drain(blocks: Iterator[bytes]) -> None:
        """Read on without use: size and hash are those of the whole input."""
        for _ in blocks:
            pass

    def _mark_cut(self, why: str) -> None:
        self.cut = True
        self.notes.append(why)


class GrownInput:
    """The text of a plain file from `offset` on, of which the beginning was read before; see TextInput for the attributes."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self.cut = False
        self.notes: list[str] = []
        self.size = offset
        self.sha256: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        """Raises OSError when it cannot be opened."""
        with self._path.open("rb") as handle:
            handle.seek(self.size)
            while True:
                try:
                    block = handle.read(BLOCK)
                except OSError as error:
                    self.cut = True
                    self.notes.append(f"reading stopped after {self.size:,} bytes: {error.strerror}")
                    return
                if not block:
                    return
                self.size += len(block)
                yield block


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
    head = block[:_HEAD]
    # A sparse or rotated log holds a run of NULs or two; a binary file has them all over.
    if encoding != "utf-16" and len(re.findall(rb"\0+", head)) > max(2, len(head) // 200):
        raise BinaryInputError("is a binary file")
