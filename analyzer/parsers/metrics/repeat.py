"""Scrapes that have the same lines as the one before, apart from values: many are read at once, by column.

That is what nearly all scrapes of a server are. What each line has to begin with is compared eight bytes at a time, and
what stands behind it is turned into numbers all together. Whatever does not fit is left to the reader of single lines.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyzer.parsers.metrics.exposition import numbers
from analyzer.parsers.metrics.lines import Block
from analyzer.parsers.metrics.resolve import IGNORED, OTHER

Values = npt.NDArray[np.float64]

_WORD = 8
# The bytes of numbers. Whatever these make that Arrow reads as a number, Python and the format read as the same one.
_OF_NUMBERS = np.zeros(256, np.bool_)
_OF_NUMBERS[list(b"0123456789.eE+-nNaAiIfFtTyY")] = True
_PLUS, _MINUS, _RETURN = b"+-\r"


class Repeat:
    """The last whole scrape: `size` lines (0 when there is none) of `bytes` bytes, their series, and lines that hold none."""

    def __init__(self) -> None:
        self.size = 0
        self.bytes = 0
        self.ignored = 0
        self.other = 0
        self.series = array("i")
        # The first line, for a glance; then of each word to compare: which line it is in, where there, what it has to be.
        self._first = b""
        self._line: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._offset: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._wanted: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._mask: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        # The lines with values, and where in these the value begins.
        self._valued: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._begins: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def learn(self, lines: Sequence[str], known: Mapping[str, int]) -> None:
        """Take the lines of a whole scrape, if each of them is known and no series stands twice."""
        self.size = 0
        begins: list[str] = []
        valued: list[int] = []
        series: list[int] = []
        texts: list[str] = []
        self.ignored = self.other = 0
        ended = False
        for number, line in enumerate(lines):
            key, _, text = line.rpartition(" ")
            of = known.get(key)
            if of is None:
                ended = ended or line.strip() == "# EOF"
                if line.strip() not in ("", "# EOF"):
                    return
                of = IGNORED
            elif ended:
                return
            self.ignored += of == IGNORED
            self.other += of == OTHER
            if of >= 0:
                series.append(of)
                texts.append(text)
                valued.append(number)
            # a line without a value has to stay as it is
            begins.append(f"{key} " if of >= 0 else f"{line}\n")
        if not texts or numbers(texts) is None or len(set(series)) < len(series):
            return
        self.size = len(begins)
        self.series = array("i", series)
        self._keep([begin.encode("utf-8", "surrogateescape") for begin in begins], valued)
        self.bytes = sum(len(line) + 1 for line in lines)

    def _keep(self, begins: list[bytes], valued: list[int]) -> None:
        lengths = np.array([len(b) for b in begins], np.int64)
        words = -(-lengths // _WORD)
        self._first = begins[0]
        self._line = np.repeat(np.arange(len(begins)), words)
        ends = np.cumsum(words)
        self._offset = (np.arange(ends[-1]) - np.repeat(ends - words, words)) * _WORD
        padded = b"".join(b.ljust(_WORD * w, b"\0") for b, w in zip(begins, words.tolist(), strict=True))
        self._wanted = np.frombuffer(padded, "<u8")
        masks = b"".join((b"\xff" * len(b)).ljust(_WORD * w, b"\0") for b, w in zip(begins, words.tolist(), strict=True))
        self._mask = np.frombuffer(masks, "<u8")
        self._valued = np.array(valued, np.int64)
        self._begins = lengths[self._valued]

    def follow(self, block: Block, at: int, most: int) -> Values:
        """The values of the scrapes that begin at line `at` of `block`, a row each, as far as they are this one again.

        At most `most` are looked at; a line stands between each and the next, and behind the last.
        """
        period = self.size + 1
        count = min(most, (len(block) - at) // period)
        if not self.size or count < 1 or not block.data.startswith(self._first, int(block.starts[at])):
            return np.empty((0, len(self.series)))
        starts = block.starts[at : at + count * period].reshape(count, period)
        words = block.words[np.take(starts, self._line, axis=1) + self._offset]
        words &= self._mask
        same = (words == self._wanted).all(axis=1)
        count = count if same.all() else int(same.argmin())
        ends = block.starts[at + 1 : at + 1 + count * period].reshape(count, period)[:, self._valued] - 1
        return _numbers(block, starts[:count, self._valued] + self._begins, ends)


def _numbers(block: Block, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Values:
    """What stands from `begins` to `ends` (rows of places in the block) as numbers, up to the first row where one is none."""
    columns = begins.shape[1]
    data = block.bytes
    ends = ends - (data[ends - 1] == _RETURN)
    plus = data[begins] == _PLUS
    good: npt.NDArray[np.bool_] = np.asarray(begins < ends)
    if plus.any():
        # Arrow knows no such sign, and must not take what stands behind it for one
        begins = begins + plus
        good &= (begins < ends) & ~(plus & ((data[begins] == _PLUS) | (data[begins] == _MINUS)))
    rows = _whole_rows(np.asarray(good.all(axis=1)))
    begin, lengths = begins[:rows].ravel(), (ends - begins)[:rows].ravel()
    behind = np.cumsum(lengths)
    total = int(behind[-1]) if len(behind) else 0
    text = data[np.repeat(begin - (behind - lengths), lengths) + np.arange(total)]
    odd = ~_OF_NUMBERS[text]
    if odd.any():
        rows = int(np.searchsorted(behind, odd.argmax(), side="right")) // columns
        behind = behind[: rows * columns]
    offsets = np.zeros(len(behind) + 1, np.int32)
    offsets[1:] = behind
    texts = pa.StringArray.from_buffers(len(behind), pa.py_buffer(offsets), pa.py_buffer(text))
    try:
        read = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return np.empty((0, columns))
    return np.asarray(read.to_numpy(), np.float64).reshape(rows, columns)


def _whole_rows(good: npt.NDArray[np.bool_]) -> int:
    return len(good) if good.all() else int(good.argmin())
