"""From physical lines to pieces: envelopes taken off, glued records parted. A piece is at most one record.

Lines are counted once each, under what became of them: `lines = matched + ignored + unmatched + other`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from analyzer.formats.match import FOREIGN, Match, is_foreign, match_line
from analyzer.formats.prefix import starts
from analyzer.sources.wrappers import Unwrapped, unwrap

# A prefix that runs into the end of a line: the line was wrapped inside it.
PARTIAL_PREFIX = re.compile(
    r"\[\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d*)?(?: [A-Z_]+\d*)*\]?| [\d:]{0,8})?"
    r"|(?:\([A-Za-z][\w .=-]* pid=\d+\) )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d"
    r"(?: [\d:.]{0,12}(?: \[?[\w./]*(?::\d*)?)?)?"
)
# A line longer than this is handed on in parts: newlines can be lost for a whole file.
MAX_LINE = 1 << 24
# An opening quote that is not closed: what follows is quoted, a prompt or a text in JSON.
OPEN_QUOTE = re.compile(r"""(?:^|[=:(\[{,]) ?[bBrRuU]{0,2}(['"])(?:(?!\1)[^\\]|\\.)*$""", re.DOTALL)
# So many names of files are kept of which lines matched nothing.
_MOST_FILES = 200
# So often the end of a quotation is looked for on one line.
_MAX_QUOTED = 50


@dataclass(slots=True)
class LineCounts:
    """Physical lines by what became of them, and what was noticed on the way."""

    lines: int = 0
    matched: int = 0
    ignored: int = 0
    unmatched: int = 0
    unmatched_surely: int = 0
    other: int = 0
    records: int = 0
    joined: int = 0
    split: int = 0
    damaged: int = 0
    last_line_cut: bool = False
    unmatched_files: dict[str, int] = field(default_factory=dict)
    wrappers: dict[str, int] = field(default_factory=dict)

    def add(self, other: LineCounts) -> None:
        """Add the counts of other lines of the same source."""
        for name in ("lines", "matched", "ignored", "unmatched", "unmatched_surely", "other", "records", "joined", "split", "damaged"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, lines in other.wrappers.items():
            self.wrappers[name] = self.wrappers.get(name, 0) + lines
        for name, lines in other.unmatched_files.items():
            self._count_file(name, lines)

    def _count_file(self, name: str, lines: int) -> None:
        if name in self.unmatched_files or len(self.unmatched_files) < _MOST_FILES:
            self.unmatched_files[name] = self.unmatched_files.get(name, 0) + lines

    def count(self, match: Match, lines: int) -> None:
        """Count `lines` physical lines that `match` was read from."""
        fate = fate_of(match)
        if fate == MATCHED:
            self.matched += lines
        elif fate == IGNORED:
            self.ignored += lines
        elif fate == OTHER:
            self.other += lines
        else:
            self.unmatched += lines
            self.unmatched_surely += lines * match.surely_of_engine
            self._count_file(match.head.file or NO_FILE, lines)


# Where an unmatched line does not tell the file that printed it.
NO_FILE = "(no file name)"

OTHER, UNMATCHED, IGNORED, MATCHED = range(4)


def fate_of(match: Match) -> int:
    """What a line counts as; of several records on one line, the highest one."""
    if match.parsed is None:
        return UNMATCHED if match.of_engine else OTHER
    return IGNORED if match.parsed.format.table == "ignored" else MATCHED


@dataclass(slots=True)
class Piece:
    """A stretch of text that is at most one record: what is left of a line once it was split.

    `width` is that of the whole physical line, `held` the number of lines before it that the collector
    had cut it into.
    """

    line: int
    text: str
    match: Match
    wrap: Unwrapped
    width: int
    first_of_line: bool
    last_of_line: bool
    unterminated: bool = False
    held: int = 0


# A line that begins so can be a record although nothing in it tells: text is escaped in JSON, and a
# terminal may have wrapped it inside the prefix. So can one with control characters or an envelope.
_NEEDS_A_LOOK = frozenset("{[(DIWEC")
_ENVELOPED = re.compile(r"[\x00\x1b\r]|^\d{4}-\d\d-\d\dT|^[A-Z][a-z]{2} [ \d]\d \d\d:|^[\w.-]+ +\| ")
_NO_ENVELOPE = Unwrapped("")


Line = tuple[int, str, bool]
"""A physical line: its number from 1, its text without the newline, and whether a newline ended it."""


class Pieces:
    """Takes physical lines and gives pieces; keeps what a collector cut until the rest of it comes."""

    def __init__(self, counts: LineCounts) -> None:
        self._counts = counts
        self._pending: dict[tuple[str, str], tuple[Unwrapped, int, int]] = {}

    @property
    def waiting(self) -> bool:
        """True while a line that a collector cut waits for its rest: every line that comes may be that."""
        return bool(self._pending)

    def of(self, lines: Iterable[Line]) -> Iterator[Piece]:
        """The pieces of the next lines."""
        for number, raw, terminated in lines:
            self._counts.lines += 1
            if not self._pending and raw[:1] not in _NEEDS_A_LOOK and is_foreign(raw) and not _ENVELOPED.search(raw):
                yield Piece(number, raw, FOREIGN, _NO_ENVELOPE, len(raw), True, True, not terminated)
                continue
            wrap = unwrap(raw.replace("\0", "") if "\0" in raw else raw)
            line, held = number, 0
            if wrap.wrappers:
                for name in wrap.wrappers:
                    self._counts.wrappers[name] = self._counts.wrappers.get(name, 0) + 1
                if wrap.partial or self._pending:
                    # the collector cut a long line and says so; lines of other streams may come in between
                    key = (wrap.origin, wrap.stream)
                    if key in self._pending:
                        begun, line, held = self._pending.pop(key)
                        wrap.text = begun.text + wrap.text
                        wrap.outer = begun.outer or wrap.outer
                    if wrap.partial and terminated and len(wrap.text) < MAX_LINE:
                        self._pending[key] = (wrap, line, held + 1)
                        continue
            yield from _split_line(line, wrap, len(raw), held, terminated, self._counts)

    def rest(self) -> Iterator[Piece]:
        """What was cut and never ended, once there are no more lines."""
        for wrap, line, held in self._pending.values():
            yield from _split_line(line, wrap, 0, held - 1, False, self._counts)
        self._pending.clear()


def _split_line(line: int, wrap: Unwrapped, width: int, held: int, terminated: bool, counts: LineCounts) -> Iterator[Piece]:
    parts = _split(wrap.text)
    last = len(parts) - 1
    counts.split += last
    for index, (text, match) in enumerate(parts):
        yield Piece(
            line, text, match, wrap, width, index == 0, index == last,
            unterminated=not terminated and index == last,
            held=held if index == 0 else 0,
        )  # fmt: skip


def _split(text: str) -> list[tuple[str, Match]]:
    """Parts of one physical line at carriage returns, newlines (from JSON) and record starts."""
    if "\r" not in text and "\n" not in text:
        return _unglue(text)
    result: list[tuple[str, Match]] = []
    begins = 0
    for found in chain(_LINE_ENDS.finditer(text), (None,)):
        part = text[begins : found.start() if found else len(text)]
        if part.strip():
            glued = _unglue(part)
            if found and OPEN_QUOTE.search(part):
                # what follows within the same message is still what a user sent
                last = glued[-1][0] + text[found.start() :]
                return [*result, *glued[:-1], (last, match_line(last))]
            result += glued
        begins = found.end() if found else len(text)
    return result or [("", match_line(""))]


_LINE_ENDS = re.compile(r"[\r\n]+")


def _unglue(text: str) -> list[tuple[str, Match]]:
    """The records that stand on one line without anything between them.

    Prompts and outputs can hold what looks like a record: none is looked for inside what a line quotes.
    """
    offsets = starts(text)
    if not offsets or offsets == [0]:
        return [(text, match_line(text))]
    result: list[tuple[str, Match]] = []
    begins = quoted = 0
    for offset in [o for o in offsets if o > 0]:
        part = text[begins:offset]
        if not part.strip():
            begins = offset
            continue
        match = match_line(part)
        if not match.message.strip():
            continue  # a user's own prefix in front of the engine's
        if OPEN_QUOTE.search(part):
            quoted += 1
            if quoted > _MAX_QUOTED:
                break
            continue
        result.append((part, match))
        begins = offset
    rest = text[begins:]
    result.append((rest, match_line(rest)))
    return result
