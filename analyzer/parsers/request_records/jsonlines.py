"""JSON records out of text: one a line, an array of them, or one document over many lines.

A broken line costs that line, not the file. Only what lies between the beginning and the end of one
record is held in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from analyzer.sources.pieces import LineCounts

Document = dict[str, Any]
Test = Callable[[Document], bool]

_BLANK = " \t\r\n\ufeff"
_BRACKETS = _BLANK + "[],"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_LAX = re.compile(r"NaN|Infinity|[\ud800-\udfff]|\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder()
# Records looked at to tell what a file holds.
_GLANCES = 50


@dataclass(frozen=True, slots=True)
class Glance:
    """The beginning of a file: its whole `records`, the `first` one as far as it goes, lines that are none (`broken`)."""

    records: tuple[Document, ...]
    first: Document
    broken: int

    def mostly(self, test: Test) -> bool:
        """True when it begins with such records; one in five may be of another kind or broken."""
        if not self.records:
            return bool(self.first) and test(self.first)
        fit = sum(map(test, self.records))
        return fit > 0 and (len(self.records) - fit + self.broken) * 5 <= len(self.records)

    def only(self, test: Test) -> bool:
        """True when it begins with such records and nothing else."""
        return not self.broken and all(map(test, self.records)) and bool(self.first) and test(self.first)


@lru_cache(maxsize=4)
def glance(head: str) -> Glance:
    """Look at the beginning of a text, whose last line may be cut."""
    text = head.lstrip(_BRACKETS)
    broken, at = 0, 0
    if not text.startswith("{"):
        # a rotated file may begin inside a record
        text, broken = text.partition("\n")[2].lstrip(_BLANK), 1
        if not text.startswith("{"):
            return Glance((), {}, broken)
    records: list[Document] = []
    while at < len(text) and len(records) < _GLANCES:
        document, end = _decode_at(text, at)
        if isinstance(document, dict):
            records.append(document)
            at = end
        else:
            line, newline, _ = text[at:].partition("\n")
            after = at + len(line) + 1
            if not newline or ((_depth(line) or 0) > 0 and not text.startswith("{", after)):
                break
            broken, at = broken + 1, after
        while at < len(text) and text[at] in _BRACKETS:
            at += 1
    return Glance(tuple(records), records[0] if records else _leading(text), broken)


def _decode_at(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at


def _leading(text: str) -> Document:
    """The top-level values of an object whose end is missing; what is not whole is None."""
    found: Document = {}
    at = 1
    while True:
        while at < len(text) and text[at] in _BLANK + ",":
            at += 1
        key, end = _decode_at(text, at)
        colon = text.find(":", end)
        if not isinstance(key, str) or colon < 0:
            return found
        at = colon + 1
        while at < len(text) and text[at] in _BLANK:
            at += 1
        value, end = _decode_at(text, at)
        found[key] = value
        if end == at:
            return found
        at = end


def _depth(line: str) -> int | None:
    """Brackets opened less brackets closed; None when a string is not closed, which no line of JSON leaves open."""
    bare = _STRING.sub("", line)
    if '"' in bare:
        return None
    return bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")


def parse_json(text: str) -> Any:
    """The value of a JSON text, infinities allowed; None when it is none."""
    try:
        return orjson.loads(text)
    except ValueError:
        if not _LAX.search(text):
            return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parse_piece(text: str) -> Any:
    """As `parse_json`, for a text that may carry brackets and commas of the array around it."""
    document = parse_json(text)
    if document is None and text.strip(_BRACKETS).endswith("}"):
        document = parse_json(f"[{text.strip(_BRACKETS)}]")
    return document


def lines(blocks: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """(line, terminated) for each line, however long: a document may be one line."""
    rest: list[str] = []
    for block in blocks:
        *whole, last = block.split("\n")
        for line in whole:
            yield "".join(rest) + line, True
            rest.clear()
        rest.append(last)
    end = "".join(rest)
    if end:
        yield end, False


@dataclass(slots=True)
class Stop:
    """Between the last line that has an end and what stands behind it: `given` records came before, and `held` lines wait for the
    rest of their record. `rest` is the number of bytes behind."""

    given: int
    held: int
    rest: int


def json_records(
    chunks: Iterable[bytes],
    counts: LineCounts,
    is_record: Test,
    prefix: re.Pattern[str] | None = None,
    *,
    given: int = 0,
    stop: Callable[[Stop], None] | None = None,
) -> Iterator[tuple[int, Document]]:
    """(record number, record) for each record that `is_record` knows; every line is counted in `counts`.

    The number is that of the line where it begins, or among several on one line its place in the file.
    `prefix` is what may stand before the JSON on a line. `given` records stand before what `chunks` begins with. `stop` is called
    once, when all lines with an end were taken.
    """
    reader = _Reader(counts, is_record, prefix, given)
    stopped = stop is None
    for line, terminated in _byte_lines(chunks):
        if not terminated and stop is not None:
            stop(reader.stop(len(line)))
            stopped = True
        yield from reader.take(line, terminated)
    if not stopped and stop is not None:
        stop(reader.stop(0))
    reader.end()


def _byte_lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """As `lines`, of bytes."""
    rest: list[bytes] = []
    for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for line in whole:
            if rest:
                line = b"".join([*rest, line])
                rest.clear()
            yield line, True
        rest.append(last)
    end = b"".join(rest)
    if end:
        yield end, False


class _Reader:
    def __init__(self, counts: LineCounts, is_record: Test, prefix: re.Pattern[str] | None, given: int) -> None:
        self._counts = counts
        self._is_record = is_record
        self._prefix = prefix
        # where it matches bytes it matches their text, which is seldom needed
        self._before = re.compile(prefix.pattern.encode()) if prefix is not None else None
        self._held: list[str] = []
        self._depth = 0
        self._given = given

    def stop(self, rest: int) -> Stop:
        """Where it is."""
        return Stop(self._given, len(self._held), rest)

    def take(self, line: bytes, terminated: bool) -> Iterable[tuple[int, Document]]:
        """The records that a line completes."""
        self._counts.lines += 1
        if not self._held:
            # nearly always a line is one record and nothing else
            before = self._before.match(line) if self._before is not None else None
            json_part = line[before.end() :] if before else line
            if json_part.startswith(b"{"):
                try:
                    document = orjson.loads(json_part)
                except orjson.JSONDecodeError:
                    pass
                else:
                    if self._is_record(document):
                        self._counts.matched += 1
                        self._given += 1
                        return ((self._counts.lines, document),)
                    self._counts.other += 1
                    return ()
        return self._take_text(line.decode("utf-8", "surrogateescape"), terminated)

    def _take_text(self, line: str, terminated: bool) -> Iterator[tuple[int, Document]]:
        text = line.strip(_BLANK)
        if self._prefix is not None:
            text = self._prefix.sub("", text, count=1)
        if self._held:
            yield from self._go_on(line, text, terminated)
        elif not text.strip(_BRACKETS):
            self._counts.ignored += 1
        else:
            document = _parse_piece(text)
            if document is not None:
                yield from self._give(document, 1)
            elif text[0] in "[{" and (_depth(text.lstrip(_BRACKETS)) or 0) > 0:
                text = text.lstrip(_BRACKETS)
                self._held, self._depth = [text], _depth(text) or 0
                self._counts.last_line_cut = not terminated
            else:
                self._lose(1)
                self._counts.last_line_cut = not terminated

    def _go_on(self, line: str, text: str, terminated: bool) -> Iterator[tuple[int, Document]]:
        if text.startswith("{") and not line[0].isspace():
            # a record of its own inside another: that one was cut
            document = _parse_piece(text)
            if isinstance(document, dict) and self._is_record(document):
                self._lose(len(self._held))
                self._held = []
                yield from self._give(document, 1)
                return
        self._held.append(text)
        change = _depth(text)
        if change is None:
            self._lose(len(self._held))
            self._held = []
            self._counts.last_line_cut = not terminated
            return
        self._depth += change
        if self._depth > 0:
            return
        held, self._held = self._held, []
        document = _parse_piece("\n".join(held))
        if document is None:
            self._lose(len(held))
        else:
            yield from self._give(document, len(held))

    def _give(self, document: Any, held: int) -> Iterator[tuple[int, Document]]:
        several = isinstance(document, list)
        records = [d for d in (document if several else [document]) if isinstance(d, dict) and self._is_record(d)]
        if records:
            self._counts.matched += held
        else:
            self._counts.other += held
        for record in records:
            self._given += 1
            yield (self._given if several and len(records) > 1 else self._counts.lines - held + 1), record

    def _lose(self, held: int) -> None:
        self._counts.unmatched += held
        self._counts.unmatched_surely += held

    def end(self) -> None:
        if self._held:
            self._lose(len(self._held))
            self._held = []
            self._counts.last_line_cut = True
