"""Cuts a text into blocks of whole lines, at places where no record reaches over the cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analyzer.parsers.bulk.outcome import outcome
from analyzer.sources.pieces import MAX_LINE
from analyzer.sources.records import MAX_PIECES, ONLY_NUMBER

BLOCK = 4 << 20
# So many lines before the end of a block are looked at for a place to cut.
_LOOK_BACK = 200
# What is longer is not worth a look.
_LONG = 1 << 16


def blocks(chunks: Iterable[bytes], size: int = BLOCK) -> Iterator[bytes]:
    """The bytes of `chunks` in blocks of about `size`, each of which ends with a newline but the last, which may not.

    A line longer than MAX_LINE is parted there: newlines can be lost for a whole file.
    """
    held = bytearray()
    enough = size
    for chunk in _short_lines(chunks):
        held += chunk
        if len(held) < enough:
            continue
        end = place_to_cut(held)
        if end is None:
            enough = len(held) + size
            continue
        yield bytes(memoryview(held)[:end])
        del held[:end]
        enough = size
    if held:
        yield bytes(held)


def _short_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """`chunks`, with a newline put in after MAX_LINE bytes without one."""
    width = 0
    for chunk in chunks:
        at = 0
        while True:
            newline = chunk.find(b"\n", at)
            end = len(chunk) if newline < 0 else newline
            if width + end - at > MAX_LINE:
                cut = at + MAX_LINE - width
                yield chunk[:cut] + b"\n"
                chunk, at, width = chunk[cut:], 0, 0
                continue
            if newline < 0:
                width += end - at
                break
            last = chunk.rfind(b"\n")
            if last - newline <= MAX_LINE:
                # no line in between can be too long
                width, at = 0, last + 1
            else:
                width, at = 0, newline + 1
        yield chunk


def place_to_cut(held: bytes | bytearray) -> int | None:
    """Where to cut: behind a newline, before a line that is no rest of what stands above it. None when there is none near the end."""
    end = held.rfind(b"\n")
    lines = 0
    while end > 0 and lines < _LOOK_BACK:
        begin = held.rfind(b"\n", 0, end) + 1
        above = held.rfind(b"\n", 0, max(begin - 1, 0)) + 1
        if begin and _apart(_text(held, above, begin - 1), _text(held, begin, end)):
            return begin
        end = begin - 1
        lines += 1
    return _behind_foreign(held)


def _apart(above: str, line: str) -> bool:
    """True when `line` surely is no rest of a record that `above` is a part of."""
    # a line that was parted for its length goes on nowhere
    if not line or len(above) >= MAX_LINE:
        return True
    if len(line) > _LONG or ONLY_NUMBER.fullmatch(line):
        return False
    # the lines of a wrapped record are as wide as its first one
    if len(line) > len(above) + 1 and above.isascii() and line.isascii():
        return True
    told = outcome(line)
    return told is not None and not told.continues


def _behind_foreign(held: bytes | bytearray) -> int | None:
    """The end of the last line when no line of many before it can begin a record."""
    end = held.rfind(b"\n")
    at = end
    for _ in range(MAX_PIECES + 1):
        begin = held.rfind(b"\n", 0, at) + 1
        told = outcome(_text(held, begin, at)) if at - begin <= _LONG else None
        if not begin or told is None or told.format is not None or told.may_go_on:
            return None
        at = begin - 1
    return end + 1


def _text(held: bytes | bytearray, begin: int, end: int) -> str:
    return held[begin:end].decode("utf-8", "surrogateescape").removesuffix("\r")
