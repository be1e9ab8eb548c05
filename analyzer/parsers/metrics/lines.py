"""From blocks of text to whole lines, many at a time."""

from __future__ import annotations

from collections.abc import Iterator

# A line longer than this is no line of a dump; it is handed on in parts, so that memory stays bounded.
_MAX_LINE = 1 << 28
# Unpacked files come in small blocks; lines are handed on when there are this many characters of them.
_AT_ONCE = 1 << 20


def whole_lines(blocks: Iterator[str]) -> Iterator[tuple[list[str], bool]]:
    """(lines, cut), many lines at once and without their newline; `cut` is True for a last line that has none.

    Lines keep a carriage return.
    """
    parts: list[str] = []
    size = open_size = 0
    first = True
    for block in blocks:
        if first and block:
            block = block.removeprefix("\ufeff")
            first = False
        end = block.rfind("\n")
        parts.append(block)
        size += len(block)
        open_size = len(block) - end - 1 if end >= 0 else open_size + len(block)
        if end >= 0 and size >= _AT_ONCE:
            parts[-1] = block[:end]
            yield "".join(parts).split("\n"), False
            parts, size = [block[end + 1 :]], open_size
        elif open_size > _MAX_LINE:
            yield "".join(parts).split("\n"), False
            parts, size, open_size = [], 0, 0
    lines = "".join(parts).split("\n")
    last = lines.pop()
    if lines:
        yield lines, False
    if last:
        yield [last], True
