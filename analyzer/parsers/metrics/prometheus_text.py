"""The text exposition format: what `/metrics` and `/federate` answer, one scrape or thousands in a file.

What stands before the value of a line repeats in every scrape, so it is the key to what was learned of it:
a label set is taken apart once per series. Lines that are not known yet take the slow way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import length_hint

from analyzer.formats.metrics import engine_of
from analyzer.parsers.metrics.exposition import begins_as_sample, family_type, is_value, read_sample, sample_time
from analyzer.parsers.metrics.is_exposition import DESCRIBES, TYPES, is_exposition
from analyzer.parsers.metrics.lines import Block, whole_blocks
from analyzer.parsers.metrics.moments import Moments
from analyzer.parsers.metrics.repeat import Repeat
from analyzer.parsers.metrics.resolve import IGNORED, OTHER, resolve
from analyzer.parsers.metrics.result import CUT, NO_ZONE, source_read
from analyzer.parsers.metrics.scrapes import Scrapes
from analyzer.parsers.reader import Given, ReadOptions, SourceRead
from analyzer.parsers.series import SeriesWriter
from analyzer.sources.pieces import LineCounts
from analyzer.sources.timestamps import to_us

# Answer of the look-up for a line that is not known.
_UNKNOWN = -3
# So many keys are kept; labels that never repeat would fill the memory.
_MAX_KEYS = 1_000_000
# Moments of one file begin alike for so many characters.
_MARK = 6
# A scrape of more lines is none that is looked for again.
_MAX_SCRAPE = 500_000
_EOF = re.compile(r"#\s*EOF\s*")
_FAILED = re.compile(r"#\s*scrape_failed\b")
_BARE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s+\S+(?:\s+\S+)?")
_ANSWER = re.compile(r"(?:< ?)?HTTP/\d")


class PrometheusText:
    """Scrapes as text, with or without moments between them, and OpenMetrics."""

    name = "prometheus_text"

    def claims(self, head: str, name: str) -> bool:
        """True when the beginning is exposition text, apart from what a terminal shows before it."""
        return is_exposition(head)

    def read(self, given: Given) -> SourceRead:
        """Read all scrapes."""
        return _Reader(given.options, SeriesWriter(given.source_id, given.spool)).run(given.chunks)


class _Reader:
    def __init__(self, options: ReadOptions, writer: SeriesWriter) -> None:
        self._options = options
        self._writer = writer
        self._scrapes = Scrapes(writer)
        self._moments = Moments(options.zone)
        self._counts = LineCounts()
        self._types: dict[str, str] = {}
        self._known: dict[str, int] = {}
        self._described = False
        self._series: list[int] = []
        self._times: list[int] = []
        self._values: list[float] = []
        self._newest: int | None = None
        self._time = ("", 0)
        self._repeat = Repeat()
        self._moment_seen = False
        # what the moment begins with that stands right before the next line, and the lines since the last moment
        self._mark = b""
        self._scrape: list[str] | None = None

    def run(self, chunks: Iterator[bytes]) -> SourceRead:
        counts = self._counts
        line_number = 0
        notes: list[str] = []
        held = b""
        for data, cut in whole_blocks(chunks):
            if cut:
                line = data.decode("utf-8", "surrogateescape")
                if self._may_be_cut(line):
                    counts.last_line_cut = True
                    counts.ignored += 1
                    notes.append(CUT)
                    break
                data += b"\n"
            held += data
            if self._mark and len(held) < self._repeat.bytes:
                continue
            block = Block(held)
            taken = self._block(block, line_number)
            line_number += taken
            held = held[int(block.starts[taken]) :]
            self._block_end()
        self._block(Block(held), line_number, last=True)
        self._block_end()
        return self._result(notes)

    def _block_end(self) -> None:
        self._scrapes.block_end()
        self._stamped_end()
        if len(self._known) > _MAX_KEYS:
            self._known.clear()

    def _block(self, block: Block, before: int, *, last: bool = False) -> int:
        """Take the lines of one block; `before` is the number of lines taken before it.

        Returns how many were taken: the rest is the beginning of what may be the same scrape again.
        """
        at = 0
        while at < len(block):
            if self._mark:
                at = self._repeated(block, at)
                if self._mark and not last and len(block) - at <= self._repeat.size:
                    return at
                self._mark = b""
            begins = at
            self._moment_seen = False
            at = self._lines(block.lines, at, before)
            if self._scrape is not None:
                self._scrape += block.lines[begins : at - self._moment_seen]
                if len(self._scrape) > _MAX_SCRAPE:
                    self._scrape = None
            if self._moment_seen:
                if self._scrape:
                    self._repeat.learn(self._scrape, self._known)
                self._scrape, self._mark = [], block.data[int(block.starts[at - 1]) :][:_MARK]
        return at

    def _repeated(self, block: Block, at: int) -> int:
        """Take scrapes that repeat the last one, as long as they do; `at` and, while `_mark` stays, the result are behind a moment."""
        repeat = self._repeat
        most = 1
        while self._mark:
            found = repeat.follow(block, at, most)
            for values in found:
                end = at + repeat.size
                # a moment has to follow, or there are more lines than last time
                if not block.data.startswith(self._mark, int(block.starts[end])):
                    return at
                self._scrapes.whole(repeat.series, values)
                self._counts.ignored += repeat.ignored
                self._counts.other += repeat.other
                self._moment_seen = False
                line = block.line(end)
                key, _, text = line.rpartition(" ")
                self._line(line, key, text, 0)
                at = end + 1
                if not self._moment_seen:
                    self._mark, self._scrape = b"", None
                    return at
            if len(found) < most:
                return at
            most *= 2
        return at

    def _lines(self, lines: list[str], at: int, before: int) -> int:
        """Take lines up to and with the next moment; returns where the next line is."""
        look_up = self._known.get
        add_series = self._scrapes.series.append
        add_text = self._scrapes.texts.append
        ignored = other = 0
        rest = iter(lines[at:] if at else lines)
        for line in rest:
            key, _, text = line.rpartition(" ")
            number = look_up(key, _UNKNOWN)
            if number >= 0:
                add_series(number)
                add_text(text)
            elif number == IGNORED:
                ignored += 1
            elif number == OTHER:
                other += 1
            else:
                self._line(line, key, text, before + len(lines) - length_hint(rest))
                if self._moment_seen:
                    break
        self._counts.ignored += ignored
        self._counts.other += other
        return len(lines) - length_hint(rest)

    def _line(self, line: str, key: str, text: str, record: int) -> None:
        """A line that is not known by what stands before its last blank."""
        if self._stamped(key, text):
            return
        bare = line.strip()
        if "\r" in bare and read_sample(bare) is None:
            # a progress meter that shared the line
            bare = line = bare.rpartition("\r")[2]
        if not bare:
            self._counts.ignored += 1
        elif bare.startswith("#"):
            self._counts.ignored += 1
            self._comment(bare, key)
        elif not self._moment(bare) and not self._sample(line, record):
            self._text(bare)

    def _stamped(self, key: str, text: str) -> bool:
        """A sample with a time or an exemplar whose series is known."""
        if text[-1:] == "\r":
            text = text[:-1]
        mark = key.find(" # {")
        if mark > 0:
            series, _, value = key[:mark].rpartition(" ")
            if series in self._known and is_value(value):
                return self._take(self._known[series], value, None)
            key, _, text = key[:mark].rpartition(" ")
        if not text or text[0] not in "0123456789":
            return False
        series, _, value = key.rpartition(" ")
        number = self._known.get(series, _UNKNOWN)
        if number == _UNKNOWN or series[:1] == "#" or not is_value(value):
            return False
        if text == self._time[0]:
            return self._take(number, value, self._time[1])
        try:
            ts = sample_time(text)
        except ValueError:
            return False
        if ts is None:
            return False
        self._time = (text, ts)
        return self._take(number, value, ts)

    def _take(self, number: int, value: str, ts: int | None) -> bool:
        if number == IGNORED:
            self._counts.ignored += 1
        elif number == OTHER:
            self._counts.other += 1
        elif ts is None:
            self._scrapes.series.append(number)
            self._scrapes.texts.append(value)
        else:
            self._series.append(number)
            self._times.append(ts)
            self._values.append(float(value))
        return True

    def _comment(self, line: str, key: str) -> None:
        described = DESCRIBES.match(line)
        if described:
            self._described = True
            if described[1] == "TYPE" and described[3] in TYPES:
                self._types[described[2].strip('"')] = described[3]
            if described[3] is not None and key.startswith("# "):
                self._known[key] = IGNORED
        elif _EOF.fullmatch(line):
            self._scrapes.end()
        elif _FAILED.match(line):
            self._scrapes.failed()
        else:
            ts = self._moments.read(line)
            if ts is not None:
                self._moment_seen = True
                self._scrapes.moment(ts)

    def _moment(self, line: str) -> bool:
        """A moment without a comment sign; a sample with labels is none."""
        if "{" in line:
            return False
        ts = self._moments.http_date(line)
        header = ts is not None
        if ts is None:
            ts = self._moments.read(line)
        if ts is None:
            return False
        self._moment_seen = True
        self._scrapes.moment(ts, header=header)
        self._counts.ignored += 1
        return True

    def _sample(self, line: str, record: int) -> bool:
        text = line.lstrip()
        sample = read_sample(text)
        if sample is None:
            return False
        end = len(line) - len(text) + sample.key_end
        number = resolve(self._writer, sample.name, sample.labels, record, family_type(self._types, sample.name))
        if line[end : end + 1] == " ":
            self._known[line[:end]] = number
        return self._take(number, sample.value, sample.ts)

    def _text(self, line: str) -> None:
        bare = _BARE.fullmatch(line)
        if begins_as_sample(line) or (bare and engine_of(bare[1]) is not None):
            self._counts.unmatched += 1
            return
        if _ANSWER.match(line):
            self._scrapes.end()
        self._counts.other += 1

    def _stamped_end(self) -> None:
        if not self._series:
            return
        self._writer.extend(self._series, self._times, self._values)
        self._counts.matched += len(self._series)
        self._newest = max(self._newest or 0, max(self._times))
        self._series, self._times, self._values = [], [], []

    @staticmethod
    def _may_be_cut(line: str) -> bool:
        """The end of a file without a newline: a value may have lost digits, anything else is as good as whole."""
        return begins_as_sample(line) or read_sample(line) is not None or engine_of(line.strip()) is not None

    def _result(self, notes: list[str]) -> SourceRead:
        self._stamped_end()
        scrapes, counts, options = self._scrapes, self._counts, self._options
        if options.at is not None:
            fallback, clock = to_us(options.at), "given"
        elif self._newest is not None:
            fallback, clock = self._newest, "samples"
        else:
            fallback, clock = to_us(options.newest), "file"
        if not scrapes.finish(fallback):
            clock = "samples"
        counts.matched += scrapes.stored
        counts.ignored += scrapes.dropped + scrapes.repeated
        counts.unmatched += scrapes.bad
        if scrapes.unplaced and not scrapes.moments:
            total = scrapes.unplaced + scrapes.scrapes
            notes.append(f"scrapes have no time: only the last of {total} is stored (write the moment before each scrape)")
        elif scrapes.unplaced:
            notes.append(
                f"{scrapes.unplaced} scrapes have no moment of their own and are left; scrapes of several servers need a file each"
            )
        if scrapes.repeated:
            notes.append(f"{scrapes.repeated} samples stand twice in one scrape: the first is kept")
        if self._moments.assumed:
            notes.append(NO_ZONE)
        return source_read(
            PrometheusText.name,
            self._writer,
            counts,
            clock=clock,
            clock_assumed=self._moments.assumed,
            notes=notes,
            described=self._described,
            needs_engine=True,
        )
