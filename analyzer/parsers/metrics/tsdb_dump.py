"""What `promtool tsdb dump` and `promtool tsdb dump-openmetrics` print: series by series, a time on each line.

Lines of one series differ in their last two fields: where many follow each other, these are read by column.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analyzer.parsers.metrics.exposition import SECONDS_BELOW, begins_as_sample, is_sane, is_value, read_sample, sample_time
from analyzer.parsers.metrics.lines import Block, whole_blocks
from analyzer.parsers.metrics.pairs import read_pairs
from analyzer.parsers.metrics.resolve import IGNORED, OTHER, resolve
from analyzer.parsers.metrics.result import CUT, source_read
from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.series import SeriesWriter
from analyzer.sources.pieces import LineCounts

_SURE_LINES = 3
_SURE_SHARE = 0.9
# Lines of one series from which on they are read by column, and lines taken one by one before that is tried again.
_MANY = 256
_SINGLE = 32
_WORD = 8


class TsdbDump:
    """Dumps of a Prometheus database as text."""

    name = "tsdb_dump"

    def claims(self, head: str, name: str) -> bool:
        """True for lines whose name is a label, or for a series on consecutive lines at different times."""
        lines = [line for line in head.split("\n")[: None if head.endswith("\n") else -1] if line.strip()] or [head]
        named = bad = repeats = 0
        before: tuple[str, int] | None = None
        for line in lines:
            named += line.startswith("{__name__=")
            if line.startswith(("# EOF", "{__name__=")):
                continue
            sample = read_sample(line, go_escapes=True)
            if sample is None or sample.ts is None:
                before = None
                bad += 1
                if len(lines) - bad < _SURE_SHARE * len(lines):
                    return False
                continue
            key = line[: sample.key_end]
            repeats += before is not None and before[0] == key and before[1] != sample.ts
            before = key, sample.ts
        return named > 0 or repeats >= min(_SURE_LINES, max(1, len(lines) - 2))

    def read(self, given: Given) -> SourceRead:
        """Read all series."""
        return _Reader(SeriesWriter(given.source_id, given.spool)).run(given.chunks)


class _Reader:
    def __init__(self, writer: SeriesWriter) -> None:
        self._writer = writer
        self._counts = LineCounts()
        self._key = ""
        self._begin = b""
        self._number = IGNORED
        self._histograms = 0

    def run(self, chunks: Iterator[bytes]) -> SourceRead:
        counts = self._counts
        notes: list[str] = []
        record = 0
        for data, cut in whole_blocks(chunks):
            if cut and data.strip() != b"# EOF":
                counts.last_line_cut = True
                counts.ignored += 1
                notes.append(CUT)
                break
            block = Block(data + b"\n" if cut else data)
            at = 0
            while at < len(block):
                size = self._same(block, at)
                if not size or not self._columns(block, at, size):
                    size = size or min(_SINGLE, len(block) - at)
                    self._lines(block.lines[at : at + size], record + at)
                at += size
            record += len(block)
        if self._histograms:
            notes.append(f"{self._histograms} samples of native histograms are not read")
        return source_read(TsdbDump.name, self._writer, counts, notes=notes)

    def _same(self, block: Block, at: int) -> int:
        """How many lines from `at` on go on with the present series; 0 where they are too few, or of no use."""
        begin, starts = self._begin, block.starts
        if self._number < 0 or at + _MANY > len(block) or not block.data.startswith(begin, int(starts[at + _MANY - 1])):
            return 0
        end = at + _MANY
        while end < len(block) and block.data.startswith(begin, int(starts[end])):
            end = min(len(block), at + 2 * (end - at))
        offsets = np.arange(0, len(begin), _WORD)
        wanted = np.frombuffer(begin.ljust(_WORD * len(offsets), b"\0"), "<u8")
        mask = np.frombuffer((b"\xff" * len(begin)).ljust(_WORD * len(offsets), b"\0"), "<u8")
        same = ((block.words[starts[at:end, None] + offsets] & mask) == wanted).all(axis=1)
        return end - at if same.all() else int(same.argmin())

    def _columns(self, block: Block, at: int, size: int) -> bool:
        """Read that many lines of the present series by column; False when one of them is not as it should be."""
        begins = block.starts[at : at + size] + len(self._begin)
        lengths = block.starts[at + 1 : at + size + 1] - begins
        behind = np.cumsum(lengths)
        text = block.bytes[np.repeat(begins - (behind - lengths), lengths) + np.arange(behind[-1])]
        read = read_pairs(text.tobytes(), " ", size)
        if read is None:
            return False
        values, moments = read
        # seconds are told from milliseconds by their size
        if moments.min() >= SECONDS_BELOW:
            times = np.rint(moments * 1e3)
        elif moments.max() < SECONDS_BELOW:
            times = np.rint(moments * 1e6)
        else:
            return False
        if not (is_sane(times.min()) and is_sane(times.max())):
            return False
        self._writer.extend(self._number, times.astype(np.int64), values)
        self._counts.matched += size
        return True

    def _lines(self, lines: list[str], record: int) -> None:
        series: list[int] = []
        times: list[int] = []
        values: list[float] = []
        counts = self._counts
        last = ""
        ts: int | None = None
        for line in lines:
            record += 1
            key, _, text = line.rpartition(" ")
            key, _, value = key.rpartition(" ")
            if (key != self._key or not key) and not self._next_series(line, key, record):
                continue
            if self._number < 0:
                counts.ignored += self._number == IGNORED
                counts.other += self._number == OTHER
                continue
            try:
                number = float(value)
                if text != last:
                    last, ts = text, sample_time(text.rstrip())
            except ValueError:
                ts, last = None, ""
            if ts is None or "_" in value:
                counts.unmatched += 1
                continue
            series.append(self._number)
            times.append(ts)
            values.append(number)
        self._writer.extend(series, times, values)
        counts.matched += len(series)

    def _next_series(self, line: str, key: str, record: int) -> bool:
        """Settle what series `key` is; False when the line is no sample, and has been counted."""
        counts = self._counts
        sample = read_sample(line, go_escapes=True)
        if sample is not None and sample.ts is not None and line[: sample.key_end] == key and is_value(sample.value):
            self._key = key
            self._begin = f"{key} ".encode("utf-8", "surrogateescape")
            self._number = resolve(self._writer, sample.name, sample.labels, record)
            return True
        if not line.strip() or line.startswith("#"):
            counts.ignored += 1
        elif begins_as_sample(line):
            histogram = "} {" in line
            self._histograms += histogram
            counts.ignored += histogram
            counts.unmatched += not histogram
        else:
            counts.other += 1
        return False
