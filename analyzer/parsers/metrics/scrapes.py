"""Scrapes without times of their own, and the moments that stand between them.

A loop writes the moment before each scrape, or after it; which of both is told by the first whole scrape.
A scrape that has no moment can be placed only when it is the last one and no other moment is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from analyzer.parsers.metrics.exposition import is_value, numbers
from analyzer.parsers.series import SeriesWriter

# A scrape is looked through for further ones in it when it has grown to this many samples.
_LARGE = 100_000
# The server's own date is in whole seconds: a stamp closer than this is the better one.
_SAME_MOMENT_US = 2_000_000


@dataclass(slots=True)
class _Scrape:
    series: Sequence[int]
    texts: list[str] = field(default_factory=list)
    values: Sequence[float] | npt.NDArray[np.float64] | None = None


class Scrapes:
    """Takes samples and moments in the order of the file and hands scrapes to the writer with a time.

    `series` and `texts` are appended to by the caller, who calls `moment`, `end` and `block_end` where those
    stand in the file. `dropped` samples had no time, `bad` ones no number; `repeated` stood twice in a scrape.
    """

    def __init__(self, writer: SeriesWriter) -> None:
        self.series: list[int] = []
        self.texts: list[str] = []
        self.stored = 0
        self.dropped = 0
        self.repeated = 0
        self.bad = 0
        self.scrapes = 0
        self.moments = 0
        self.unplaced = 0
        self._writer = writer
        self._stamp: int | None = None
        self._stamp_is_header = False
        self._follows: bool | None = None
        self._waiting: _Scrape | None = None
        self._waiting_stamp: int | None = None

    def moment(self, ts: int, *, header: bool = False) -> None:
        """A moment line (microseconds); `header` for the `Date:` of the answer, which always stands before its scrape."""
        self.end()
        self.moments += 1
        if header and self._stamp is not None and abs(ts - self._stamp) <= _SAME_MOMENT_US:
            return
        if header:
            self._follows = False
        if self._waiting is not None and self._waiting_stamp is None:
            if self._follows:
                self._store(self._waiting, ts)
                self._waiting = None
                return
            if self._follows is None:
                # whether it belongs to this scrape or to the next is known when the next one is read
                self._waiting_stamp = ts
        self._stamp = ts

    def failed(self) -> None:
        """A scrape that gave nothing: its moment is used up."""
        self.end()
        self._stamp = None

    def end(self) -> None:
        """The samples of one scrape, or of several without anything between them, are complete."""
        if not self.series:
            return
        for scrape in self._split():
            self._complete(scrape)
        self.series.clear()
        self.texts.clear()

    def whole(self, series: Sequence[int], values: npt.NDArray[np.float64]) -> None:
        """A scrape at once, with each series once; what was begun before it is complete."""
        self.end()
        self._complete(_Scrape(series, values=values))

    def block_end(self) -> None:
        """Let go of what cannot be placed anyway: a file may have no moments at all."""
        if len(self.series) < _LARGE:
            return
        *whole, last = self._split()
        for scrape in whole:
            self._complete(scrape)
        if not whole and len(set(last.series)) < len(last.series) // 2:
            last = self._once(last)
        self.series[:], self.texts[:] = last.series, last.texts

    def finish(self, ts: int) -> bool:
        """The file has ended; `ts` is for a last scrape when no moment is known. True when it was used."""
        self.end()
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return False
        if self._waiting_stamp is not None:
            self._store(waiting, self._waiting_stamp)
        elif not self.moments:
            self._store(waiting, ts)
            return True
        else:
            self._drop(waiting)
        return False

    def _split(self) -> list[_Scrape]:
        """A new scrape begins where the first series of this one stands again."""
        first = self.series[0]
        starts = [i for i, n in enumerate(self.series) if n == first] if self.series.count(first) > 1 else [0]
        return [_Scrape(self.series[a:b], self.texts[a:b]) for a, b in zip(starts, [*starts[1:], len(self.series)], strict=True)]

    def _complete(self, scrape: _Scrape) -> None:
        waiting, stamp = self._waiting, self._waiting_stamp
        if waiting is not None and stamp is not None:
            self._waiting = self._waiting_stamp = None
            self._follows = waiting.series[0] == scrape.series[0]
            if self._follows:
                self._store(waiting, stamp)
                self._waiting, self._stamp = scrape, None
                return
            # the first one had lost its beginning, and its moment with it
            self._drop(waiting)
        elif waiting is not None:
            self._waiting = None
            self._drop(waiting)
        if self._stamp is not None and not self._follows:
            self._store(scrape, self._stamp)
            self._stamp, self._follows = None, False
        else:
            self._waiting = scrape

    def _store(self, scrape: _Scrape, ts: int) -> None:
        values = scrape.values
        if values is None:
            scrape = self._once(scrape)
            values = numbers(scrape.texts)
        if values is None:
            good = [(n, t) for n, t in zip(scrape.series, scrape.texts, strict=True) if is_value(t)]
            self.bad += len(scrape.series) - len(good)
            scrape = _Scrape([n for n, _ in good], [t for _, t in good])
            values = list(map(float, scrape.texts))
        self._writer.extend(scrape.series, ts, values)
        self.stored += len(values)
        self.scrapes += 1

    def _once(self, scrape: _Scrape) -> _Scrape:
        """The scrape with each series once, the first time it stands there."""
        if len(set(scrape.series)) == len(scrape.series):
            return scrape
        first = dict(zip(reversed(scrape.series), reversed(scrape.texts), strict=True))
        self.repeated += len(scrape.series) - len(first)
        return _Scrape(list(first), list(first.values()))

    def _drop(self, scrape: _Scrape) -> None:
        self.dropped += len(scrape.series)
        self.unplaced += 1
