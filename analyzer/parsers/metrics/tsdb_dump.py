"""What `promtool tsdb dump` and `promtool tsdb dump-openmetrics` print: series by series, a time on each line."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.parsers.metrics.exposition import begins_as_sample, is_value, read_sample, sample_time
from analyzer.parsers.metrics.lines import whole_lines
from analyzer.parsers.metrics.resolve import IGNORED, OTHER, resolve
from analyzer.parsers.metrics.result import CUT, source_read
from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.series import SeriesWriter
from analyzer.sources.pieces import LineCounts

_SURE_LINES = 3
_SURE_SHARE = 0.9


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
        return _Reader(SeriesWriter(given.source_id, given.spool)).run(given.blocks)


class _Reader:
    def __init__(self, writer: SeriesWriter) -> None:
        self._writer = writer
        self._counts = LineCounts()
        self._key = ""
        self._number = IGNORED
        self._histograms = 0

    def run(self, blocks: Iterator[str]) -> SourceRead:
        counts = self._counts
        notes: list[str] = []
        record = 0
        for lines, cut in whole_lines(blocks):
            if cut and lines[0].strip() != "# EOF":
                counts.last_line_cut = True
                counts.ignored += 1
                notes.append(CUT)
                break
            self._block(lines, record)
            record += len(lines)
        if self._histograms:
            notes.append(f"{self._histograms} samples of native histograms are not read")
        return source_read(TsdbDump.name, self._writer, counts, notes=notes)

    def _block(self, lines: list[str], record: int) -> None:
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
