"""A scrape that has the same lines as the one before, apart from values: only the lines that differ are looked at.

That is what nearly all scrapes of a server are. Whatever does not fit is left to the reader of single lines.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import ne

from analyzer.parsers.metrics.exposition import numbers
from analyzer.parsers.metrics.resolve import IGNORED, OTHER


class Repeat:
    """The last whole scrape: `size` lines (0 when there is none), their series and values."""

    def __init__(self) -> None:
        self.size = 0
        self.ignored = 0
        self.other = 0
        self.series = array("i")
        self.values = array("d")
        self._lines: list[str] = []
        self._keys: list[str] = []
        # which value a line has; below 0 for one without
        self._place: list[int] = []

    def learn(self, lines: Sequence[str], known: Mapping[str, int]) -> None:
        """Take the lines of a whole scrape, if each of them is known and no series stands twice."""
        self.size = 0
        keys: list[str] = []
        place: list[int] = []
        series: list[int] = []
        texts: list[str] = []
        ended = False
        for line in lines:
            key, _, text = line.rpartition(" ")
            number = known.get(key)
            if number is None:
                ended = ended or line.strip() == "# EOF"
                if line.strip() not in ("", "# EOF"):
                    return
                key, number = "", IGNORED
            elif ended:
                return
            keys.append(key)
            place.append(len(series) if number >= 0 else number)
            if number >= 0:
                series.append(number)
                texts.append(text)
        values = numbers(texts)
        if not values or len(set(series)) < len(series):
            return
        self.size = len(keys)
        self.ignored, self.other = place.count(IGNORED), place.count(OTHER)
        self.series, self.values = array("i", series), array("d", values)
        self._lines, self._keys, self._place = list(lines), keys, place

    def follow(self, lines: list[str]) -> bool:
        """True when these lines are the same scrape again; `values` are theirs then."""
        keys, place, values = self._keys, self._place, self.values[:]
        for i in compress(range(self.size), map(ne, lines, self._lines)):
            line = lines[i]
            key, _, text = line.rpartition(" ")
            if key != keys[i] or not key:
                return False
            if place[i] >= 0:
                if "_" in text:
                    return False
                try:
                    values[place[i]] = float(text)
                except ValueError:
                    return False
        self.values, self._lines = values, lines
        return True
