"""Keeps the end of a text back, to be read apart from what stands before it: where reading may go on once the text has grown."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise

from analyzer.parsers.bulk.cut import place_to_cut

# As much is looked at for places to stop.
_WINDOW = 256 << 10
# How far before the end reading may stop, the first that will do: what stands behind is read again each time.
_BACK = (32 << 10, 8 << 10, 0)


class Ending:
    """The bytes of `chunks` in two: `before`, to be gone through first, and then `parts`.

    Between any two of the parts, and in front of the first, reading may stop: no record reaches over. There are none when no
    such place is near the end. `size` is the number of bytes in all.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.size = 0
        self.parts: list[bytes] = []

    def before(self) -> Iterator[bytes]:
        """All chunks but for what `parts` has when they are gone through."""
        held: deque[bytes] = deque()
        width = 0
        for chunk in self._chunks:
            held.append(chunk)
            width += len(chunk)
            self.size += len(chunk)
            while width - len(held[0]) >= _WINDOW:
                width -= len(held[0])
                yield held.popleft()
        last = b"".join(held)
        places = _places(last)
        self.parts = [last[a:b] for a, b in pairwise((*places, len(last)))]
        yield last[: places[0]] if places else last


def _places(held: bytes) -> list[int]:
    """Where to cut, the first one first."""
    found: set[int] = set()
    # of the first line the beginning may be missing
    begin = held.find(b"\n") + 1
    for back in _BACK:
        end = held.rfind(b"\n", begin, max(len(held) - back, begin)) + 1
        place = place_to_cut(held[begin:end]) if end else None
        if place:
            found.add(begin + place)
    return sorted(found)
