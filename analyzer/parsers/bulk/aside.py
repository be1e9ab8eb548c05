"""Puts lines aside that need no more than counting, before anything is made of the others.

These are lines that no engine wrote, and an engine's own of which only the stamp is kept: requests that a web server logs, most
of all. Both are told by a search through the whole block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.formats.load import registry
from analyzer.parsers.bulk.lines import Ints, Mask, Text
from analyzer.parsers.bulk.moments import NO_TIME
from analyzer.parsers.bulk.shape import Shape
from analyzer.sources.records import MIN_WIDTH
from analyzer.sources.timestamps import parse_stamp, to_naive_us

# A line that begins so or holds such characters is looked at even if nothing in it tells of an engine.
_LOOK = r"^[{\[(DIWEC]|[\x00\x1b]|\r[^\n]|^[0-9]{4}-[0-9]{2}-[0-9]{2}T|^[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:|^[^ |]* +\| "
# More of them would make the search slow; and so would stamps in more places.
_MOST_PLAIN = 60
_MOST_PLACES = 2
# Of such a share of lines that are put aside on, the search is worth its time.
_WORTH = 0.5
# So many lines are asked first whether one of them is what is looked for.
_FIRST = 64
# What the rest of a torn number can begin and end with, at the end of a line.
_OF_NUMBERS = np.isin(np.arange(256), np.frombuffer(b"0123456789., \r", np.uint8))


@dataclass(frozen=True, slots=True)
class Plain:
    """Lines that an engine wrote and of which only the stamp is kept: their numbers, what the stamps read (NO_TIME without one),
    a shape that stands for all, and whether one of them asks a model to infer."""

    shape: Shape
    at: Ints
    inner_us: Ints
    asks: bool


@dataclass(frozen=True, slots=True)
class Aside:
    """The lines that were put aside: `foreign` are no engine's, and of these `only_number` may be the rest of a number. `rest` are
    the numbers of all others, and `data` their bytes."""

    foreign: Mask
    only_number: Mask
    plain: list[Plain]
    rest: Ints
    data: bytes


class _Alike:
    """Plain shapes whose stamps stand in the same place."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._asks: dict[str, bool] = {}
        self._all = self._asking = ""

    def learn(self, shape: Shape) -> None:
        """Take one more, unless they are too many."""
        if len(self._asks) < _MOST_PLAIN and shape.told is not None:
            self._asks[shape.plain] = shape.told.asks_to_infer
            self._all = "|".join(self._asks)
            self._asking = "|".join(pattern for pattern, asks in self._asks.items() if asks)

    def of(self, array: pa.LargeBinaryArray, at: Ints) -> Plain:
        """Those among the lines numbered `at` that are of these shapes."""
        # with their newlines
        found = np.flatnonzero(_matching(array, self._all) & (pc.binary_length(array).to_numpy() > MIN_WIDTH))
        chosen = array.take(pa.array(found))
        inner = np.full(len(found), NO_TIME)
        if self.shape.stamp_at is not None:
            stamps = pc.binary_slice(chosen, *self.shape.stamp_at).dictionary_encode()
            # many lines of a busy server have the same
            inner = np.array([_reads(stamp) for stamp in stamps.dictionary.to_pylist()], np.int64)[stamps.indices.to_numpy()]
            sound = inner != NO_TIME
            found, inner, chosen = found[sound], inner[sound], chosen.filter(pa.array(sound))
        return Plain(self.shape, at[found], inner, self._one_asks(chosen))

    def _one_asks(self, array: pa.LargeBinaryArray) -> bool:
        # where there are any, they are many
        return bool(self._asking) and any(_matching(part, self._asking).any() for part in (array[:_FIRST], array[_FIRST:]))


class Sieve:
    """Puts lines aside, once such lines are most of a log's."""

    def __init__(self) -> None:
        self._plain: dict[tuple[tuple[int, int] | None, timedelta | None], _Alike] = {}
        self._worth = False

    def learn(self, shape: Shape) -> None:
        """Take a shape; lines of a plain one are put aside from now on."""
        if shape.plain:
            key = (shape.stamp_at, shape.inner.zone if shape.inner is not None else None)
            if key in self._plain or len(self._plain) < _MOST_PLACES:
                self._plain.setdefault(key, _Alike(shape)).learn(shape)

    def weigh(self, aside: int, lines: int) -> None:
        """See how many of the lines of a block were, or could have been, put aside."""
        self._worth = aside > _WORTH * lines

    def part(self, text: Text) -> Aside | None:
        """The lines of a block, parted; None where it is not worth it."""
        if not self._worth:
            return None
        array = text.array()
        rest = np.arange(len(text))
        plain: list[Plain] = []
        for alike in self._plain.values():
            part = alike.of(array, rest)
            plain.append(part)
            others = np.ones(len(text), np.bool_)
            others[part.at] = False
            array, rest = array.filter(pa.array(others[rest])), rest[others[rest]]
        told = _matching(array, _tells())
        foreign = np.zeros(len(text), np.bool_)
        foreign[rest[~told]] = True
        only_number = foreign & (text.ends > text.begins)
        only_number &= _OF_NUMBERS[text.bytes[text.begins]] & _OF_NUMBERS[text.bytes[np.maximum(text.ends - 1, 0)]]
        return Aside(foreign, only_number, plain, rest[told], _bytes_of(array.filter(pa.array(told))))


def _reads(stamp: bytes) -> int:
    read = parse_stamp(stamp.decode("ascii"))
    return NO_TIME if read is None else to_naive_us(read.replace(tzinfo=None))


@lru_cache(maxsize=1)
def _tells() -> str:
    return "|".join((*map(re.escape, registry().tell_tales), _LOOK))


def _matching(array: pa.LargeBinaryArray, pattern: str) -> Mask:
    matching: Mask = pc.match_substring_regex(array, pattern).to_numpy(zero_copy_only=False)
    return matching


def _bytes_of(array: pa.LargeBinaryArray) -> bytes:
    """All of them in a row."""
    data = array.buffers()[2]
    return data.to_pybytes() if data is not None else b""
