"""From physical lines to records: glued ones split, wrapped ones joined, cut ones left out.

A record is what the engine wrote with one call; a physical line is what the capture made of it. Lines
are counted once each, under what became of them: `lines = matched + ignored + unmatched + other`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice, pairwise

from analyzer.formats.match import FOREIGN, Match, is_foreign, match_line
from analyzer.formats.model import Parsed, distrust_end
from analyzer.formats.prefix import starts
from analyzer.formats.pyrepr import read_repr
from analyzer.sources.wrappers import Unwrapped, unwrap

# A prefix that runs into the end of a line: the line was wrapped inside it.
_PARTIAL_PREFIX = re.compile(
    r"\[\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d*)?(?: [A-Z_]+\d*)*\]?| [\d:]{0,8})?"
    r"|(?:\([A-Za-z][\w .=-]* pid=\d+\) )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d"
    r"(?: [\d:.]{0,12}(?: \[?[\w./]*(?::\d*)?)?)?"
)
# No terminal is narrower than this, and no wrapped record longer than this many lines.
_MIN_WIDTH = 30
_MAX_PIECES = 1000
# So many lines are looked at to see whether a terminal wrapped the log, and how wide it was.
_HEAD_LINES = 1000
# A line longer than this is handed on in parts: newlines can be lost for a whole file.
_MAX_LINE = 1 << 24
_ENDS_IN_NUMBER = re.compile(r"[0-9.,]$")
_ONLY_NUMBER = re.compile(r"[0-9.,]{1,12} *")
# An opening quote that is not closed: what follows is quoted, a prompt or a text in JSON.
_OPEN_QUOTE = re.compile(r"""(?:^|[=:(\[{,]) ?[bBrRuU]{0,2}(['"])(?:(?!\1)[^\\]|\\.)*$""", re.DOTALL)
# So often the end of a quotation is looked for on one line.
_MAX_QUOTED = 50


@dataclass(slots=True)
class Record:
    """One record: where it stands, what the collector said, and what it was read as.

    `cut` marks a last line without an end: values that may be incomplete are left out already.
    """

    line: int
    match: Match
    outer: datetime | None
    outer_naive: datetime | None
    origin: str
    cut: bool = False


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

    def count(self, match: Match, lines: int) -> None:
        """Count `lines` physical lines that `match` was read from."""
        fate = _fate(match)
        if fate == _MATCHED:
            self.matched += lines
        elif fate == _IGNORED:
            self.ignored += lines
        elif fate == _OTHER:
            self.other += lines
        else:
            self.unmatched += lines
            self.unmatched_surely += lines * match.surely_of_engine
            name = match.head.file or "(no file name)"
            if name in self.unmatched_files or len(self.unmatched_files) < 200:
                self.unmatched_files[name] = self.unmatched_files.get(name, 0) + lines


_OTHER, _UNMATCHED, _IGNORED, _MATCHED = range(4)


def _fate(match: Match) -> int:
    """What a line counts as; of several records on one line, the highest one."""
    if match.parsed is None:
        return _UNMATCHED if match.of_engine else _OTHER
    return _IGNORED if match.parsed.format.table == "ignored" else _MATCHED


@dataclass(slots=True)
class _Piece:
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


def physical_lines(blocks: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """(line, terminated) for each physical line; a trailing carriage return is no part of it."""
    rest: list[str] = []
    size = 0
    for block in blocks:
        lines = block.split("\n")
        if len(lines) > 1:
            yield ("".join(rest) + lines[0]).removesuffix("\r"), True
            for line in lines[1:-1]:
                yield line.removesuffix("\r"), True
            rest, size = [], 0
        rest.append(lines[-1])
        size += len(lines[-1])
        if size > _MAX_LINE:
            yield "".join(rest), True
            rest, size = [], 0
    if size:
        yield "".join(rest), False


def read_records(blocks: Iterable[str], counts: LineCounts) -> Iterator[Record]:
    """All records that a format reads (ignored ones too), in input order; `counts` is kept up to date."""
    pieces = _pieces(blocks, counts)
    head = list(islice(pieces, _HEAD_LINES))
    return _Assembler(counts, _wrap_width(head)).run(chain(head, pieces))


# A line that begins so can be a record although nothing in it tells: text is escaped in JSON, and a
# terminal may have wrapped it inside the prefix. So can one with control characters or an envelope.
_NEEDS_A_LOOK = frozenset("{[(DIWEC")
_ENVELOPED = re.compile(r"[\x00\x1b\r]|^\d{4}-\d\d-\d\dT|^[A-Z][a-z]{2} [ \d]\d \d\d:|^[\w.-]+ +\| ")
_NO_ENVELOPE = Unwrapped("")


def _pieces(blocks: Iterable[str], counts: LineCounts) -> Iterator[_Piece]:
    pending: dict[tuple[str, str], tuple[Unwrapped, int, int]] = {}
    number = 0
    for number, (raw, terminated) in enumerate(physical_lines(blocks), 1):
        counts.lines += 1
        if not pending and raw[:1] not in _NEEDS_A_LOOK and is_foreign(raw) and not _ENVELOPED.search(raw):
            yield _Piece(number, raw, FOREIGN, _NO_ENVELOPE, len(raw), True, True, not terminated)
            continue
        wrap = unwrap(raw.replace("\0", "") if "\0" in raw else raw)
        line, held = number, 0
        if wrap.wrappers:
            for name in wrap.wrappers:
                counts.wrappers[name] = counts.wrappers.get(name, 0) + 1
            if wrap.partial or pending:
                # the collector cut a long line and says so; lines of other streams may come in between
                key = (wrap.origin, wrap.stream)
                if key in pending:
                    begun, line, held = pending.pop(key)
                    wrap.text = begun.text + wrap.text
                    wrap.outer = begun.outer or wrap.outer
                if wrap.partial and terminated and len(wrap.text) < _MAX_LINE:
                    pending[key] = (wrap, line, held + 1)
                    continue
        yield from _split_line(line, wrap, len(raw), held, terminated, counts)
    for wrap, line, held in pending.values():
        yield from _split_line(line, wrap, 0, held - 1, False, counts)


def _split_line(line: int, wrap: Unwrapped, width: int, held: int, terminated: bool, counts: LineCounts) -> Iterator[_Piece]:
    parts = _split(wrap.text)
    last = len(parts) - 1
    counts.split += last
    for index, (text, match) in enumerate(parts):
        yield _Piece(
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
            if found and _OPEN_QUOTE.search(part):
                # what follows within the same message is still what a user sent
                last = glued[-1][0] + text[found.start() :]
                return [*result, *glued[:-1], (last, match_line(last))]
            result += glued
        begins = found.end() if found else len(text)
    return result or [("", match_line(""))]


_LINE_ENDS = re.compile(r"[\r\n]+")


def _is_opaque(match: Match) -> bool:
    """True for a record that quotes what users sent, or settings that can hold a text."""
    return match.parsed is not None and (match.parsed.format.opaque or bool(match.parsed.format.arguments))


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
        if _OPEN_QUOTE.search(part):
            quoted += 1
            if quoted > _MAX_QUOTED:
                break
            continue
        result.append((part, match))
        begins = offset
    rest = text[begins:]
    result.append((rest, match_line(rest)))
    return result


def _wrap_width(head: list[_Piece]) -> int:
    """How wide the terminal was that wrapped this log; 0 when none did.

    Lines of that width go on in one that has no prefix, and no line is wider. Some few end there by chance.
    """
    width = max((p.width for p in head), default=0)
    if width < _MIN_WIDTH:
        return 0
    wide = [i for i, p in enumerate(head) if p.width == width and p.last_of_line and i + 1 < len(head)]
    goes_on = [i for i in wide if _is_continuation(head[i + 1])]
    if not wide or len(goes_on) <= len(wide) // 2:
        return 0
    return width if any(_goes_together(head, i) for i in goes_on) else 0


def _goes_together(head: list[_Piece], first: int) -> bool:
    """True when the line `first` is a part of a record, and a whole one only together with those that follow."""
    begun = head[first].match.parsed
    if _is_continuation(head[first]) or (begun is not None and _is_whole_record(begun)):
        return False
    texts = [head[first].text]
    for before, piece in pairwise(head[first : first + _MAX_PIECES]):
        if before.width < head[first].width or not _is_continuation(piece, after_prefix=len(texts) == 1):
            break
        texts.append(piece.text)
    joined = match_line("".join(texts)).parsed
    return joined is not None and not joined.damaged and _is_whole_record(joined)


def _is_whole_record(parsed: Parsed) -> bool:
    if parsed.format.arguments:
        return read_repr(parsed.argument_text)[1]
    return parsed.complete and parsed.format.literal != "" and not parsed.format.id.endswith("_cut")


def _is_continuation(piece: _Piece, after_prefix: bool = False) -> bool:
    """True for a line that can be the rest of the one above it; `after_prefix`: of which little more than the prefix stands there."""
    if not piece.first_of_line or not piece.text or piece.match.head.prefixes or piece.wrap.wrappers:
        return False
    if piece.match.parsed is not None and piece.match.attested and not after_prefix:
        return False
    return not _PARTIAL_PREFIX.fullmatch(piece.text)


class _Assembler:
    """Turns pieces into records, joining the pieces of a record that a terminal wrapped."""

    def __init__(self, counts: LineCounts, width: int) -> None:
        self._counts = counts
        self._width = width
        self._engines: set[str] = set()
        self._line = 0
        self._best: Match | None = None

    def run(self, pieces: Iterator[_Piece]) -> Iterator[Record]:
        window: deque[_Piece] = deque()
        while True:
            piece = window.popleft() if window else next(pieces, None)
            if piece is None:
                break
            if piece.width > self._width:
                self._width = 0
            if piece.match is FOREIGN and not self._at_width(piece):
                self._count_line()
                self._counts.other += 1
                continue
            match, last = piece.match, piece
            if piece.last_of_line and self._may_go_on(piece):
                match, used = self._join(piece, window, pieces)
                if used:
                    self._counts.joined += 1
                    last = window[used - 1]
                    for _ in range(used):
                        window.popleft()
            if last is piece and _ENDS_IN_NUMBER.search(piece.text) and match.parsed is not None:
                # a number alone on the next line may be the rest of this one, or another program's
                if not window and (following := next(pieces, None)) is not None:
                    window.append(following)
                if window and _ONLY_NUMBER.fullmatch(window[0].text) and _is_continuation(window[0]):
                    distrust_end(match.parsed, match.message)
            record, match = self._finish(piece, last, match)
            self._count(piece, last, match)
            if record is not None:
                yield record
        self._count_line()

    def _count(self, piece: _Piece, last: _Piece, match: Match) -> None:
        """A line that holds several records counts once, as the best of them."""
        if piece.held:
            self._counts.count(match, piece.held)
        if piece.line != self._line:
            self._count_line()
            self._line = piece.line
        if self._best is None or _fate(match) > _fate(self._best):
            self._best = match
        if last is not piece:
            self._count_line()
            self._counts.count(match, last.line - piece.line - 1)
            self._line, self._best = last.line, match

    def _count_line(self) -> None:
        if self._best is not None:
            self._counts.count(self._best, 1)
        self._best = None

    def _finish(self, piece: _Piece, last: _Piece, match: Match) -> tuple[Record | None, Match]:
        parsed = match.parsed
        if parsed is not None and parsed.format.engine != "any":
            if match.attested:
                self._engines.add(parsed.format.engine)
            elif parsed.format.engine not in self._engines:
                match, parsed = Match(match.head, match.message, None), None
        if last.unterminated and not self._is_whole(piece, match):
            self._counts.last_line_cut = True
            return None, Match(match.head, match.message, None)
        if parsed is None:
            return None, match
        self._counts.damaged += len(parsed.damaged)
        self._counts.records += parsed.format.table != "ignored"
        wrap = piece.wrap
        return Record(piece.line, match, wrap.outer, wrap.outer_naive, wrap.origin, cut=last.unterminated), match

    def _is_whole(self, piece: _Piece, match: Match) -> bool:
        """False when the last line was cut inside; else without the values that may be incomplete."""
        parsed = match.parsed
        if parsed is None:
            return not (match.of_engine or _PARTIAL_PREFIX.fullmatch(piece.text))
        if parsed.format.arguments and parsed.format.table == "requests":
            return read_repr(parsed.argument_text)[1]
        whole = not parsed.format.pairs or (parsed.complete and not parsed.damaged)
        distrust_end(parsed, match.message)
        return whole

    def _may_go_on(self, piece: _Piece) -> bool:
        """True when the record may have been wrapped inside: cheap, for it is asked of every line."""
        parsed = piece.match.parsed
        if piece.width < _MIN_WIDTH:
            return bool(_PARTIAL_PREFIX.fullmatch(piece.text))
        if parsed is None:
            return piece.match.of_engine or self._at_width(piece) or bool(_PARTIAL_PREFIX.fullmatch(piece.text))
        return not parsed.complete or self._at_width(piece)

    def _at_width(self, piece: _Piece) -> bool:
        # copying from a terminal drops a blank at the end of a line
        return self._width > 0 and self._width - 1 <= piece.width <= self._width

    def _join(self, piece: _Piece, window: deque[_Piece], pieces: Iterator[_Piece]) -> tuple[Match, int]:
        """The record that `piece` begins, and how many of the following pieces belong to it."""
        at_width = self._at_width(piece)
        full = self._width if at_width else piece.width
        unread = piece.match.parsed is None or not piece.match.message.strip()
        texts = [piece.text]
        used = 0
        before = piece
        while used < _MAX_PIECES:
            if len(window) <= used:
                following = next(pieces, None)
                if following is None:
                    break
                window.append(following)
            nxt = window[used]
            # a wrapped line is one stretch: what looks like a record in its middle is quoted
            inside = at_width and not nxt.first_of_line
            if not inside and (nxt.width > full or not _is_continuation(nxt, at_width and not used and unread)):
                quoted = at_width and nxt.first_of_line and before.width >= full - 1 and _OPEN_QUOTE.search("".join(texts))
                if not quoted:
                    break
            used += 1
            # one column short: copying dropped the blank that stood there
            texts.append(nxt.text if inside or before.width >= full else " " + nxt.text)
            before = nxt
            if (nxt.last_of_line and nxt.width < full - 1) or not (nxt.last_of_line or at_width):
                break
        ends = range(used, max(used - 2, 0), -1)
        # the whole stretch, or all but its last line when that is the next program's
        for used in ends:
            for text in dict.fromkeys(("".join(texts[: used + 1]), " ".join(t.strip() for t in texts[: used + 1]))):
                candidate = match_line(text)
                if _better(candidate, piece.match, surely=at_width):
                    return candidate, used
        return piece.match, 0


def _better(candidate: Match, than: Match, *, surely: bool) -> bool:
    """True when joining gave a whole record, or more of one, and invented nothing.

    `surely`: the line is as wide as the terminal was.
    """
    new, old = candidate.parsed, than.parsed
    if new is None or new.damaged or not new.complete:
        return False
    if _is_opaque(candidate):
        return surely and (old is None or _is_opaque(than) or old.format.table == "ignored")
    if new.format.table == "ignored":
        return surely and (old is None or old.format is not new.format)
    if old is None:
        return True
    if new.format is not old.format:
        return surely
    if not old.complete:
        return True
    if not surely:
        return False
    # the last number may be longer now, but a foreign key would be the next program's output
    return new.values.keys() >= old.values.keys() and new.extra.keys() >= old.extra.keys()
