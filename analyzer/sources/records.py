"""From physical lines to records: glued ones split, wrapped ones joined, cut ones left out.

A record is what the engine wrote with one call; a physical line is what the capture made of it. Lines
are counted once each, under what became of them: `lines = matched + ignored + unmatched + other`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from analyzer.formats.match import Match, match_line
from analyzer.formats.prefix import starts
from analyzer.sources.wrappers import Unwrapped, unwrap

# A prefix that runs into the end of a line: the line was wrapped inside it.
_PARTIAL_PREFIX = re.compile(
    r"\[\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d*)?(?: [A-Z_]+\d*)*| [\d:]{0,8})?"
    r"|(?:\([A-Za-z][\w .=-]* pid=\d+\) )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d"
    r"(?: [\d:.]{0,12}(?: \[?[\w./]*(?::\d*)?)?)?"
)
# No terminal is narrower than this, and no wrapped record longer than this many lines.
_MIN_WIDTH = 30
_MAX_PIECES = 12
# Two lines of one record are never that long: a runaway line is not searched for more records.
_MAX_GLUED = 1 << 20


@dataclass(slots=True)
class Record:
    """One record: where it stands, what the collector said, and what it was read as."""

    line: int
    match: Match
    outer: datetime | None
    outer_naive: datetime | None
    origin: str
    truncated_value: bool = False


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
        parsed = match.parsed
        if parsed is None:
            if match.of_engine:
                self.unmatched += lines
                self.unmatched_surely += lines * match.surely_of_engine
                name = match.head.file or "(no file name)"
                if name in self.unmatched_files or len(self.unmatched_files) < 200:
                    self.unmatched_files[name] = self.unmatched_files.get(name, 0) + lines
            else:
                self.other += lines
        elif parsed.format.table == "ignored":
            self.ignored += lines
        else:
            self.matched += lines


@dataclass(slots=True)
class _Piece:
    """A stretch of text that is at most one record: what is left of a line once it was split."""

    line: int
    text: str
    wrap: Unwrapped
    last_of_line: bool
    first_of_line: bool
    unterminated: bool = False


def physical_lines(blocks: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """(line, terminated) for each physical line; a trailing carriage return is no part of it."""
    rest = ""
    for block in blocks:
        lines = (rest + block).split("\n")
        rest = lines.pop()
        for line in lines:
            yield line.removesuffix("\r"), True
    if rest:
        yield rest, False


def read_records(blocks: Iterable[str], counts: LineCounts) -> Iterator[Record]:
    """All records that a format reads (ignored ones too), in input order; `counts` is kept up to date."""
    return _Assembler(counts).run(_pieces(blocks, counts))


def _pieces(blocks: Iterable[str], counts: LineCounts) -> Iterator[_Piece]:
    pending: Unwrapped | None = None
    for number, (raw, terminated) in enumerate(physical_lines(blocks), 1):
        counts.lines += 1
        wrap = unwrap(raw.replace("\0", ""))
        for name in wrap.wrappers:
            counts.wrappers[name] = counts.wrappers.get(name, 0) + 1
        if pending is not None:
            # the collector cut a long line and says so
            wrap.text = pending.text + wrap.text
            wrap.outer = pending.outer or wrap.outer
        pending = wrap if wrap.partial else None
        if pending is not None and terminated:
            counts.other += 1
            continue
        texts = _split(wrap.text)
        counts.split += len(texts) - 1 if len(texts) > 1 and texts[0].strip() else 0
        for index, text in enumerate(texts):
            yield _Piece(
                number, text, wrap, index == len(texts) - 1, index == 0,
                unterminated=not terminated and index == len(texts) - 1,
            )  # fmt: skip


def _split(text: str) -> list[str]:
    """Parts of one physical line at carriage returns, newlines (from JSON) and record starts."""
    if "\r" in text or "\n" in text:
        parts = [p for p in re.split(r"[\r\n]+", text) if p.strip()]
        if not parts:
            return [""]
    else:
        parts = [text]
    result: list[str] = []
    for part in parts:
        offsets = [o for o in starts(part[:_MAX_GLUED]) if o > 0]
        if not offsets or _carries_user_text(part):
            result.append(part)
            continue
        bounds = [0, *offsets, len(part)]
        result += [part[a:b] for a, b in pairwise(bounds) if part[a:b].strip()]
    return result


def _carries_user_text(text: str) -> bool:
    """True for lines that hold prompts or outputs: what looks like a record in there is none."""
    parsed = match_line(text).parsed
    if parsed is not None:
        return parsed.format.opaque
    # such a line may itself be glued behind a progress bar
    inner = starts(text)
    if inner and inner[0] > 0:
        parsed = match_line(text[inner[0] :]).parsed
        return parsed is not None and parsed.format.opaque
    return False


class _Assembler:
    """Turns pieces into records, joining the pieces of a record that a terminal wrapped."""

    def __init__(self, counts: LineCounts) -> None:
        self._counts = counts
        self._width = 0

    def run(self, pieces: Iterator[_Piece]) -> Iterator[Record]:
        window: list[_Piece] = []
        counted = 0

        def fill(size: int) -> None:
            while len(window) < size:
                piece = next(pieces, None)
                if piece is None:
                    return
                window.append(piece)

        fill(1)
        while window:
            piece = window.pop(0)
            match = match_line(piece.text)
            used = 0
            if piece.last_of_line and self._may_go_on(piece, match):
                fill(_MAX_PIECES)
                joined, used = self._join(piece, match, window)
                if used:
                    match = joined
                    self._counts.joined += 1
                    self._width = self._width or len(piece.text)
            last = window[used - 1] if used else piece
            del window[:used]
            record, match = self._finish(piece, last, match)
            # a line that holds several records is counted once, with its first
            fresh = int(piece.line > counted)
            lines = fresh + (last.line - piece.line)
            counted = max(counted, last.line)
            self._counts.count(match, lines)
            if record is not None:
                yield record
            fill(1)

    def _finish(self, piece: _Piece, last: _Piece, match: Match) -> tuple[Record | None, Match]:
        parsed = match.parsed
        cut_value = False
        if last.unterminated:
            if parsed is None and (match.of_engine or _PARTIAL_PREFIX.fullmatch(piece.text)):
                self._counts.last_line_cut = True
            elif parsed is not None and parsed.format.pairs:
                if not parsed.complete:
                    self._counts.last_line_cut = True
                    return None, Match(match.head, match.message, None)
                # `#queue-req: 1` may have been 12: the last number is not trusted
                cut_value = match.message[-1:].isdigit()
        if parsed is None:
            return None, match
        self._counts.damaged += len(parsed.damaged)
        self._counts.records += parsed.format.table != "ignored"
        record = Record(
            piece.line,
            match,
            piece.wrap.outer,
            piece.wrap.outer_naive,
            piece.wrap.origin,
            truncated_value=cut_value,
        )
        return record, match

    def _may_go_on(self, piece: _Piece, match: Match) -> bool:
        if len(piece.text) < _MIN_WIDTH:
            return bool(_PARTIAL_PREFIX.fullmatch(piece.text))
        if match.parsed is None:
            return match.of_engine or bool(_PARTIAL_PREFIX.fullmatch(piece.text))
        if match.parsed.format.pairs is None:
            return False
        return not match.parsed.complete or (self._width > 0 and len(piece.text) == self._width)

    def _join(self, piece: _Piece, match: Match, following: list[_Piece]) -> tuple[Match, int]:
        """The record that `piece` begins, and how many of the following pieces belong to it."""
        variants = [piece.text]
        best: tuple[Match, int] = (match, 0)
        for index, nxt in enumerate(following[:_MAX_PIECES]):
            if not nxt.first_of_line or not self._is_continuation(nxt):
                break
            variants = [v + sep + nxt.text for v in variants[:16] for sep in ("", " ")]
            for variant in variants:
                candidate = match_line(variant)
                if _better(candidate, best[0]):
                    best = (candidate, index + 1)
            if best[1] and best[0].parsed and best[0].parsed.complete and len(nxt.text) < len(piece.text):
                break
        return best

    def _is_continuation(self, piece: _Piece) -> bool:
        if not piece.text.strip():
            return False
        head = match_line(piece.text).head
        return not head.prefixes and not _PARTIAL_PREFIX.fullmatch(piece.text)


def _better(candidate: Match, than: Match) -> bool:
    """True when joining gave a whole record, or more of one, and invented nothing."""
    new, old = candidate.parsed, than.parsed
    if new is None or new.format.table == "ignored" or new.format.opaque:
        return False
    if old is None:
        return new.complete and not new.damaged
    if new.format is not old.format:
        return False
    gained = len(new.values) - len(old.values)
    unknown = len(new.extra) - len(old.extra)
    if new.complete and not old.complete:
        return True
    if new.complete == old.complete and not new.damaged:
        # the last number may be longer now, but an unknown key would be the next program's output
        return gained >= 0 and unknown <= 0 and new.values != old.values
    return False
