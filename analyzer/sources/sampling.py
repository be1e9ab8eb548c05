"""Tells a long text by parts of it: its length, its end, and a piece of every 16 MiB.

Logs carry times, so that two of one length agree in all of these only when they are one. What somebody changed in
between, without a change of the length, is not noticed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

PIECE = 1 << 16
STEP = 16 << 20


class Sampler:
    """Takes a text block by block; `digest` is that of all it took so far, whatever the blocks were."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.sha256()
        self._end = b""

    def add(self, block: bytes) -> None:
        """Take the next bytes."""
        begin, end = self.size, self.size + len(block)
        for piece in range(begin // STEP * STEP, end, STEP):
            first, last = max(piece, begin), min(piece + PIECE, end)
            if first < last:
                self._hash.update(memoryview(block)[first - begin : last - begin])
        self._end = (self._end + block[-PIECE:])[-PIECE:]
        self.size = end

    def digest(self) -> str:
        """The sample of what was taken."""
        return _told(self._hash.copy(), self._end, self.size)


def sample_of(path: Path, size: int) -> str | None:
    """The sample of the first `size` bytes of a file; None when it has fewer. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:

        def read(begin: int, end: int) -> bytes:
            handle.seek(begin)
            return handle.read(end - begin)

        for piece in range(0, size, STEP):
            digest.update(read(piece, min(piece + PIECE, size)))
        begin = max(size - PIECE, 0)
        end = read(begin, size)
    return _told(digest, end, size) if begin + len(end) == size else None


def _told(digest: hashlib._Hash, end: bytes, size: int) -> str:
    digest.update(end)
    digest.update(str(size).encode())
    return digest.hexdigest()
