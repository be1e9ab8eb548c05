"""Bytes to text, the same way everywhere: bytes that are no UTF-8 are kept as surrogate escapes."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator


def texts(chunks: Iterable[bytes]) -> Iterator[str]:
    """`chunks` as text, block by block."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
    for chunk in chunks:
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)
