"""From pieces to records: wrapped ones joined, cut ones left out.

A record is what the engine wrote with one call; a physical line is what the capture made of it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from analyzer.formats.match import FOREIGN, Match, match_line
from analyzer.formats.model import Parsed, distrust_end
from analyzer.formats.prefix import begins_with_prefix, strip_ansi
from analyzer.formats.pyrepr import read_repr
from analyzer.sources.pieces import MAX_LINE, OPEN_QUOTE, PARTIAL_PREFIX, LineCounts, Piece, Pieces, fate_of
from analyzer.sources.wrappers import may_be_partial

# No terminal is narrower than this, and no wrapped record longer than this many lines.
MIN_WIDTH = 30
MAX_PIECES = 1000
# So many lines are looked at to see whether a terminal wrapped the log, and how wide it was.
HEAD_LINES = 1000
ENDS_IN_NUMBER = re.compile(r"[0-9.,]$")
ONLY_NUMBER = re.compile(r"[0-9.,]{1,12} *")


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


def _is_opaque(match: Match) -> bool:
    """True for a record that quotes what users sent, or settings that can hold a text."""
    return match.parsed is not None and (match.parsed.format.opaque or bool(match.parsed.format.arguments))


def wrap_width(lines: list[str]) -> int:
    """How wide the terminal was that wrapped the log that begins with these lines; 0 when none did.

    Lines of that width go on in one that has no prefix, and no line is wider. Some few end there by chance.
    """
    width = max(map(len, lines), default=0)
    if width < MIN_WIDTH:
        return 0
    # most logs can be told without a look into their lines
    below = [after for line, after in pairwise(lines) if len(line) == width]
    if 2 * sum(not begins_with_prefix(strip_ansi(after)) for after in below) <= len(below):
        return 0
    if not any(may_be_partial(line.encode("utf-8", "surrogateescape")) for line in lines):
        lines = _around_widest(lines, width)
    head = list(Pieces(LineCounts()).of((number, line, True) for number, line in enumerate(lines, 1)))
    wide = [i for i, p in enumerate(head) if p.width == width and p.last_of_line and i + 1 < len(head)]
    goes_on = [i for i in wide if is_continuation(head[i + 1])]
    if not wide or len(goes_on) <= len(wide) // 2:
        return 0
    return width if any(_goes_together(head, i) for i in goes_on) else 0


def _around_widest(lines: list[str], width: int) -> list[str]:
    """The lines that are as wide as that, each with those below it down to the first that is not: all that tells of wrapping."""
    kept: list[str] = []
    wide = False
    for line in lines:
        if wide or len(line) == width:
            kept.append(line)
        wide = len(line) == width
    return kept


def _goes_together(head: list[Piece], first: int) -> bool:
    """True when the line `first` is a part of a record, and a whole one only together with those that follow."""
    begun = head[first].match.parsed
    if is_continuation(head[first]) or (begun is not None and _is_whole_record(begun)):
        return False
    texts = [head[first].text]
    for before, piece in pairwise(head[first : first + MAX_PIECES]):
        if before.width < head[first].width or not is_continuation(piece, after_prefix=len(texts) == 1):
            break
        texts.append(piece.text)
    joined = match_line("".join(texts)).parsed
    return joined is not None and not joined.damaged and _is_whole_record(joined)


def _is_whole_record(parsed: Parsed) -> bool:
    if parsed.format.arguments:
        return read_repr(parsed.argument_text)[1]
    return parsed.complete and parsed.format.literal != "" and not parsed.format.id.endswith("_cut")


def is_continuation(piece: Piece, after_prefix: bool = False) -> bool:
    """True for a line that can be the rest of the one above it; `after_prefix`: of which little more than the prefix stands there."""
    if not piece.first_of_line or not piece.text or piece.match.head.prefixes or piece.wrap.wrappers:
        return False
    if piece.match.parsed is not None and piece.match.attested and not after_prefix:
        return False
    return not PARTIAL_PREFIX.fullmatch(piece.text)


class Assembler:
    """Turns pieces into records, joining the pieces of a record that a terminal wrapped.

    `attested` are the engines that have shown themselves: words that any program could print count for those only.
    """

    def __init__(self, counts: LineCounts, width: int) -> None:
        self.attested: set[str] = set()
        self._counts = counts
        self._width = width
        self._line = 0
        self._best: Match | None = None

    def run(self, pieces: Iterator[Piece]) -> Iterator[Record]:
        """The records of a stretch of pieces that nothing before or behind it belongs to."""
        window: deque[Piece] = deque()
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
            if piece.last_of_line and self.may_go_on(piece):
                match, used = self._join(piece, window, pieces)
                if used:
                    self._counts.joined += 1
                    last = window[used - 1]
                    for _ in range(used):
                        window.popleft()
            if last is piece and ENDS_IN_NUMBER.search(piece.text) and match.parsed is not None:
                # a number alone on the next line may be the rest of this one, or another program's
                if not window and (following := next(pieces, None)) is not None:
                    window.append(following)
                if window and ONLY_NUMBER.fullmatch(window[0].text) and is_continuation(window[0]):
                    distrust_end(match.parsed, match.message)
            record, match = self._finish(piece, last, match)
            self._count(piece, last, match)
            if record is not None:
                yield record
        self._count_line()

    def _count(self, piece: Piece, last: Piece, match: Match) -> None:
        """A line that holds several records counts once, as the best of them."""
        if piece.held:
            self._counts.count(match, piece.held)
        if piece.line != self._line:
            self._count_line()
            self._line = piece.line
        if self._best is None or fate_of(match) > fate_of(self._best):
            self._best = match
        if last is not piece:
            self._count_line()
            self._counts.count(match, last.line - piece.line - 1)
            self._line, self._best = last.line, match

    def _count_line(self) -> None:
        if self._best is not None:
            self._counts.count(self._best, 1)
        self._best = None

    def _finish(self, piece: Piece, last: Piece, match: Match) -> tuple[Record | None, Match]:
        parsed = match.parsed
        if parsed is not None and parsed.format.engine != "any":
            if match.attested:
                self.attested.add(parsed.format.engine)
            elif parsed.format.engine not in self.attested:
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

    def _is_whole(self, piece: Piece, match: Match) -> bool:
        """False when the last line was cut inside; else without the values that may be incomplete."""
        parsed = match.parsed
        if parsed is None:
            return not (match.of_engine or PARTIAL_PREFIX.fullmatch(piece.text))
        if parsed.format.arguments and parsed.format.table == "requests":
            return read_repr(parsed.argument_text)[1]
        whole = not parsed.format.pairs or (parsed.complete and not parsed.damaged)
        distrust_end(parsed, match.message)
        return whole

    def may_go_on(self, piece: Piece) -> bool:
        """True when the record may have been wrapped inside: cheap, for it is asked of every line."""
        parsed = piece.match.parsed
        if piece.width >= MAX_LINE:
            return False
        if piece.width < MIN_WIDTH:
            return bool(PARTIAL_PREFIX.fullmatch(piece.text))
        if parsed is None:
            return piece.match.of_engine or self._at_width(piece) or bool(PARTIAL_PREFIX.fullmatch(piece.text))
        return not parsed.complete or self._at_width(piece)

    def _at_width(self, piece: Piece) -> bool:
        # copying from a terminal drops a blank at the end of a line
        return self._width > 0 and self._width - 1 <= piece.width <= self._width

    def _join(self, piece: Piece, window: deque[Piece], pieces: Iterator[Piece]) -> tuple[Match, int]:
        """The record that `piece` begins, and how many of the following pieces belong to it."""
        at_width = self._at_width(piece)
        full = self._width if at_width else piece.width
        unread = piece.match.parsed is None or not piece.match.message.strip()
        texts = [piece.text]
        used = 0
        before = piece
        while used < MAX_PIECES:
            if len(window) <= used:
                following = next(pieces, None)
                if following is None:
                    break
                window.append(following)
            nxt = window[used]
            # a wrapped line is one stretch: what looks like a record in its middle is quoted
            inside = at_width and not nxt.first_of_line
            if not inside and (nxt.width > full or not is_continuation(nxt, at_width and not used and unread)):
                quoted = at_width and nxt.first_of_line and before.width >= full - 1 and OPEN_QUOTE.search("".join(texts))
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
