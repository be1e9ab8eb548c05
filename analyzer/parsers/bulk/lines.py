"""A block of whole lines as arrays: where lines end, where numbers stand, and what is left without their digits.

Two lines with the same *skeleton* (the line without its digits), the same number of digit runs and the same
gaps between them differ in nothing but the digits: such lines are read in one go.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_DIGITS = b"0123456789"
_NO_DIGITS = bytes(set(range(256)) - set(_DIGITS))
# A number of more digits may be more than an array holds.
MOST_DIGITS = 16
_NEWLINE, _RETURN, _ZERO = 10, 13, 48


class Text:
    """The lines of `data`, which ends with a newline if it is not empty.

    `begins` and `ends` are byte offsets of each line, without its newline.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self.ends: Ints = np.flatnonzero(self.bytes == _NEWLINE)
        self.begins: Ints = np.concatenate((np.zeros(1, np.int64), self.ends[:-1] + 1))[: len(self.ends)]

    def __len__(self) -> int:
        return len(self.ends)

    def widths(self) -> Ints:
        """The bytes of each line, without a carriage return at its end: as the line-by-line reader measures."""
        widths = self.ends - self.begins
        widths -= (widths > 0) & (self.bytes[np.maximum(self.ends - 1, 0)] == _RETURN)
        return widths

    def raw(self, line: int) -> bytes:
        """The bytes of one line, without its newline."""
        return self.data[self.begins[line] : self.ends[line]]

    def text(self, line: int) -> str:
        """One line as the readers get it: bytes that are no UTF-8 as surrogate escapes, no carriage return at its end."""
        return self.raw(line).decode("utf-8", "surrogateescape").removesuffix("\r")

    def array(self) -> pa.LargeBinaryArray:
        """The lines, each with its newline, as an Arrow array over `data`."""
        offsets = np.concatenate((self.begins, self.ends[-1:] + 1))
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), [None, pa.py_buffer(offsets), pa.py_buffer(self.data)])


class Lines(Text):
    """Lines with the numbers in them.

    `first_run` is the number of digit runs before a line (one more entry than lines); `run_begins` and `run_ends` are the
    byte offsets of all digit runs. `code` is the number of each line's skeleton in `skeletons`.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        text, newlines = self.bytes, self.ends
        digit = (text - np.uint8(_ZERO)) < 10
        # the last byte is a newline: every run of digits has an end
        edge = np.empty(len(text), np.bool_)
        edge[:1] = digit[:1]
        np.not_equal(digit[1:], digit[:-1], out=edge[1:])
        edges = np.flatnonzero(edge)
        self.run_begins: Ints = edges[0::2]
        self.run_ends: Ints = edges[1::2]
        self.first_run: Ints = np.concatenate((np.zeros(1, np.int64), np.searchsorted(self.run_begins, newlines)))
        self.run_lengths: Ints = self.run_ends - self.run_begins
        # what stands between a run and the one before it, or the beginning of its line
        self._gaps: Ints = self.run_begins - np.concatenate((np.zeros(1, np.int64), self.run_ends[:-1]))
        leads = np.flatnonzero(self.first_run[1:] > self.first_run[:-1])
        self._gaps[self.first_run[leads]] = self.run_begins[self.first_run[leads]] - self.begins[leads]
        encoded = _skeletons(data, len(newlines)).dictionary_encode()
        self.code: npt.NDArray[np.int32] = encoded.indices.to_numpy()
        self.skeletons: pa.LargeBinaryArray = encoded.dictionary

    def runs_of(self, line: int) -> tuple[str, ...]:
        """The digit runs of one line."""
        return tuple(self.digits(run) for run in range(self.first_run[line], self.first_run[line + 1]))

    def digits(self, run: int) -> str:
        """One digit run as it stands there."""
        return self.data[self.run_begins[run] : self.run_ends[run]].decode("ascii")

    def equal(self, runs: Ints, digits: str) -> Mask:
        """Which of the runs, all as long as `digits`, are the same."""
        if len(digits) <= MOST_DIGITS:
            same: Mask = self.numbers(runs) == int(digits)
            return same
        return np.array([self.digits(run) == digits for run in runs.tolist()], np.bool_)

    def alike(self, at: Ints) -> Iterator[tuple[Ints, Ints]]:
        """`at`, lines with one skeleton, parted by where their numbers stand: (lines, gaps before each digit run)."""
        counts = self.first_run[at + 1] - self.first_run[at]
        for count in np.unique(counts).tolist():
            chosen = at[counts == count]
            gaps = self._gaps[self.first_run[chosen][:, None] + np.arange(count)]
            if not count or (gaps == gaps[0]).all():
                yield chosen, gaps[0]
                continue
            rows = pa.FixedSizeBinaryArray.from_buffers(pa.binary(gaps.itemsize * count), len(chosen), [None, pa.py_buffer(gaps.tobytes())])
            which = rows.dictionary_encode().indices.to_numpy()
            for number in range(int(which.max()) + 1):
                same = which == number
                yield chosen[same], gaps[same][0]

    def numbers(self, runs: Ints) -> Ints:
        """The values of digit runs, of at most MOST_DIGITS digits each; 0 for longer ones."""
        return self._values[runs]

    @cached_property
    def _values(self) -> Ints:
        """The values of all digit runs: Arrow reads them out of the text that is left without anything else."""
        digits = self.data.translate(None, _NO_DIGITS)
        offsets = np.zeros(len(self.run_lengths) + 1, np.int64)
        np.cumsum(self.run_lengths, out=offsets[1:])
        short = None
        if self.run_lengths.max(initial=0) > MOST_DIGITS:
            short = pa.array(self.run_lengths <= MOST_DIGITS).buffers()[1]
        texts = pa.LargeStringArray.from_buffers(len(self.run_lengths), pa.py_buffer(offsets), pa.py_buffer(digits), short)
        values: Ints = texts.cast(pa.int64()).fill_null(0).to_numpy()
        return values


def _skeletons(data: bytes, lines: int) -> pa.LargeBinaryArray:
    """Each line without its digits, newline included, as an Arrow array over one buffer."""
    left = data.translate(None, _DIGITS)
    offsets = np.zeros(lines + 1, np.int64)
    offsets[1:] = np.flatnonzero(np.frombuffer(left, np.uint8) == _NEWLINE) + 1
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), lines, [None, pa.py_buffer(offsets), pa.py_buffer(left)])
