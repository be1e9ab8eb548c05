"""Finds the format of a message, and tells how far each came when there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzer.formats.load import registry
from analyzer.formats.model import LineFormat, Parsed, find_key, looks_damaged, parse, split_pairs
from analyzer.formats.pattern import Pattern
from analyzer.formats.prefix import NO_HEAD, Head, split_head


@dataclass(frozen=True, slots=True)
class Match:
    """A line taken apart. `parsed` is None when no format reads the message."""

    head: Head
    message: str
    parsed: Parsed | None

    @property
    def of_engine(self) -> bool:
        """True when the prefix is an engine's own, so that not matching is worth counting."""
        return self.head.engine is not None

    @property
    def surely_of_engine(self) -> bool:
        """The same, without prefixes that other programs' loggers print too (`[time] `)."""
        return self.of_engine and (not self.head.shared or bool(self.head.tags))

    @property
    def attested(self) -> bool:
        """True when the line itself shows that the format's engine wrote it: by its prefix, its logger's name or its words."""
        fmt = self.parsed.format if self.parsed else None
        return fmt is not None and (not fmt.weak or self.head.engine == fmt.engine or self.head.file.startswith(f"{fmt.engine}."))


FOREIGN = Match(NO_HEAD, "", None)
"""What a line is that no engine wrote."""


def is_foreign(line: str) -> bool:
    """True only when no engine wrote `line` (as captured, with any plain envelope): a quick test that spares most lines the rest."""
    return not registry().tells.is_in(line)


def match_line(line: str) -> Match:
    """Take `line` (unwrapped, no colour codes) apart and find its format."""
    head, message = split_head(line)
    parsed = _find(head, message, head.engine)
    if parsed is None and head.shared and not head.tags:
        # `[time] ` is not only SGLang's: a user's logging format can look the same
        parsed = _find(head, message, None)
        if parsed is not None and parsed.format.weak:
            parsed = None
    return Match(head, message, parsed)


def _find(head: Head, message: str, engine: str | None) -> Parsed | None:
    stripped = message.rstrip()
    bare = not head.prefixes
    for fmt in registry().candidates(engine, message):
        if bare and not fmt.literal:
            continue  # nothing but its logger's prefix tells such a line
        parsed = parse(fmt, message if fmt.pairs else stripped)
        if parsed is not None:
            return parsed
    return None


@dataclass(frozen=True, slots=True)
class Attempt:
    """How far one format came: characters of the message its pattern read, and what came next."""

    format: LineFormat
    read: int
    problem: str


def attempts(engine: str | None, message: str, most: int = 5) -> list[Attempt]:
    """The formats that came furthest on a message none of them reads, best first."""
    found: list[Attempt] = []
    for fmt in registry().for_engine(engine):
        if fmt.table == "ignored" and not fmt.literal:
            continue
        read = _furthest(fmt.head, message)
        # a pattern that begins with a wildcard reads the beginning of anything
        told = read > 2 and fmt.head.pattern[:1].isalpha()
        if told or (fmt.literal and fmt.literal in message):
            expected = "" if fmt.literal in message else f"needs {fmt.literal!r} somewhere; "
            found.append(Attempt(fmt, read, f"{expected}stopped before {message[read : read + 30]!r}"))
    found.sort(key=lambda a: (-a.read, a.format.id))
    return found[:most]


_ATOM = re.compile(
    r"""\\[pPxuU]?.(?:\{[^}]*\})?      # an escape
      | \[\^?\]?(?:\\.|[^\]\\])*\]     # a character class
      | \((?:[^()\\]|\\.|\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\))*\)   # a group, three deep
      | .""",
    re.VERBOSE | re.DOTALL,
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[?+]?")


def _furthest(pattern: Pattern, message: str) -> int:
    """Characters read by the longest leading part of `pattern` that matches."""
    source = pattern.pattern
    cuts: list[int] = []
    at = 0
    while at < len(source):
        atom = _ATOM.match(source, at)
        if atom is None:
            break
        at = atom.end()
        quantifier = _QUANTIFIER.match(source, at)
        if quantifier:
            at = quantifier.end()
        cuts.append(at)
    for cut in reversed(cuts):
        try:
            match = re.match(source[:cut], message, re.DOTALL)
        except re.error:
            continue
        if match:
            return match.end()
    return 0


@dataclass(frozen=True, slots=True)
class KeyReport:
    """What became of one `key: value` of a pair message."""

    key: str
    value: str
    fate: str


def key_reports(parsed: Parsed, message: str) -> list[KeyReport]:
    """For each pair of a matched `key: value` message: its column, `extra`, or why it was dropped."""
    dictionary = parsed.format.pairs
    match = parsed.format.head.match(message)
    if dictionary is None or match is None:
        return []
    reports: list[KeyReport] = []
    for key, value in split_pairs(message[match.end() :].rstrip(), dictionary.separator):
        spec = find_key(dictionary, key)
        if spec is not None:
            fate = "damaged value, not stored" if key in parsed.damaged else " + ".join(spec.to)
        elif not key or looks_damaged(key, dictionary.words):
            fate = "damaged key, not stored"
        else:
            fate = "unknown key, kept in extra"
        reports.append(KeyReport(key, value, fate))
    return reports
