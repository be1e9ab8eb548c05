"""What a line can look like, as data.

A *prefix* is what stands before the message (time, ranks, process); a *format* is a message: a head
and `key: value` pairs, or one anchored pattern. Both are read from the TOML files beside this module;
nothing here knows an engine by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from analyzer.formats.pattern import Pattern
from analyzer.formats.values import READERS, SELF_ENDING, Reader, Value, read_text

TableName = Literal["scheduler", "events", "cache_ops", "requests", "facts", "ignored"]
# What is filled into the text of a format.
_NAMES = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Sample:
    """A line this format must match, the versions that print it, and the values it holds."""

    versions: str
    line: str
    expect: dict[str, Value]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stands before a message.

    Groups: `stamp` (time), `tags` (rank tags), `proc`, `pid`, `level`, `file`.
    `inline` prefixes are distinctive enough to be found inside a physical line whose newlines were
    lost; every line with an engine's prefix holds its `literal`. `suffix` is what the same logger puts behind the
    message. Behind an `outer` prefix another one may stand. A `shared` prefix is printed by other
    programs too, so it names its engine for certain only together with rank tags.
    """

    id: str
    engine: str | None
    pattern: re.Pattern[str]
    inline: bool
    literal: str
    outer: bool
    shared: bool
    suffix: re.Pattern[str] | None
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class PairKey:
    """Where the value of one key goes: columns (or `extra.NAME`), and how it is read.

    `self_ending` values show that they are whole, even at the end of a line that was cut.
    """

    to: tuple[str, ...]
    reader: Reader
    split: str = ""
    self_ending: bool = False


@dataclass(frozen=True, slots=True)
class PairKeys:
    """The keys a `key: value` message can carry; unknown ones go to `extra`."""

    id: str
    separator: str
    keys: dict[str, PairKey]
    patterns: tuple[tuple[re.Pattern[str], PairKey], ...]
    words: frozenset[str]
    terminator: str = ""


@dataclass(frozen=True, slots=True)
class GroupField:
    """Which group of a pattern a column is read from, and how."""

    column: str
    group: str
    reader: Reader
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the shape of a line says about the meaning of its values (it changed between versions)."""

    when: Pattern
    set: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Feature:
    """A shape that only some versions print: narrows the version of a source."""

    when: Pattern
    since: str
    until: str


@dataclass(frozen=True, slots=True)
class LineFormat:
    """One kind of message, over all versions that print it.

    Either `pairs` is set (`head`, then pairs) or not (`head` is the whole anchored pattern).
    `literal` must occur in a message for it to be tried. `opaque` messages carry what users sent:
    no record is looked for inside what they quote. The words of a `weak` format are any program's: it counts only
    behind its engine's prefix, or in a source where that engine has shown itself. `continues` names the
    format whose last row this one completes.
    `role` marks lines that tell the life of the process: start, ready, serving or end.
    """

    id: str
    engine: str
    table: TableName
    literal: str
    head: Pattern
    pairs: PairKeys | None
    required: tuple[str, ...]
    set: dict[str, Value]
    fields: tuple[GroupField, ...]
    arguments: str
    opaque: bool
    weak: bool
    continues: str
    role: str
    text: str
    meanings: tuple[Meaning, ...]
    features: tuple[Feature, ...]
    samples: tuple[Sample, ...]
    notes: str = ""

    def sentence(self, values: Mapping[str, Value | None]) -> str:
        """The format's own words with these values in them, and `?` for one that is not there."""
        return self.text.format_map(dict.fromkeys(_NAMES.findall(self.text), "?") | dict(values))


@dataclass(slots=True)
class Parsed:
    """What one message gave: column values, `extra`, and what was wrong with it."""

    format: LineFormat
    values: dict[str, Value] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    complete: bool = True
    argument_text: str = ""


def parse(fmt: LineFormat, message: str) -> Parsed | None:
    """Read `message` (no prefix, no trailing blanks) as `fmt`; None when it is something else."""
    if fmt.literal not in message:
        return None
    match = fmt.head.match(message) if fmt.pairs else fmt.head.fullmatch(message)
    if match is None:
        return None
    parsed = Parsed(fmt, dict(fmt.set))
    groups = match.groupdict()
    for gf in fmt.fields:
        text = groups.get(gf.group)
        if text is None:
            continue
        value = gf.reader(text)
        if value is None:
            parsed.damaged.append(gf.column)
        else:
            _store(parsed, gf.column, value)
    if fmt.arguments:
        parsed.argument_text = groups.get(fmt.arguments) or ""
    if fmt.pairs:
        _read_pairs(parsed, fmt.pairs, message[match.end() :])
        parsed.complete = not parsed.damaged and all(
            any(column in parsed.values for column in choice.split("|")) for choice in fmt.required
        )
    for meaning in fmt.meanings:
        if meaning.when.search(message):
            for column, text in meaning.set.items():
                _store(parsed, column, text)
    return parsed


# A stats line is never longer: what comes behind is something else.
_MAX_PAIR_TEXT = 8192

# `name:('a', 'b')=4`: the commas of a label tuple separate nothing.
_OUTSIDE_LABELS = re.compile(r",\s+(?![^()]*\)=)")


def split_pairs(text: str, separator: str) -> list[tuple[str, str]]:
    """`a: 1, b: 2, 3` as [("a", "1"), ("b", "2, 3")]; a part without a key belongs to the one before.

    A leading part without a key comes back under the key "".
    """
    pairs: list[tuple[str, str]] = []
    by_name = separator == ":"
    for part in text.split(",") if by_name else _OUTSIDE_LABELS.split(text):
        key, found, value = part.partition(":") if by_name else part.rpartition("=")
        if found and key.strip():
            pairs.append((key.strip(), value.strip()))
        elif pairs:
            last_key, last_value = pairs[-1]
            pairs[-1] = (last_key, f"{last_value}, {part.strip()}" if part.strip() else last_value)
        elif part.strip():
            pairs.append(("", part.strip()))
    return pairs


# What an unknown field of next month's version can look like. Anything else that stands there is text
# that got into the line, and nobody knows whose.
_PLAUSIBLE_KEY = re.compile(r"[#A-Za-z][\w .+/()#:%',-]{0,79}")
_PLAUSIBLE_VALUE = re.compile(r"-?[0-9.][\w.,%/()+> -]{0,79}|[A-Za-z_]{1,24}|\[[0-9., ]{0,80}\]|\{\}|nan%?|-?inf")


def _read_pairs(parsed: Parsed, dictionary: PairKeys, text: str) -> None:
    text = text[:_MAX_PAIR_TEXT].rstrip(" ,")
    if dictionary.terminator:
        text = text.rstrip().removesuffix(dictionary.terminator)
    seen: dict[str, str] = {}
    for key, value in split_pairs(text, dictionary.separator):
        if key in seen:
            # parts of two records in one: which value belongs to which is not known
            if seen[key] != value:
                _forget(parsed, dictionary, key)
                parsed.damaged.append(key)
            continue
        seen[key] = value
        spec = find_key(dictionary, key)
        if spec is None:
            if not key or looks_damaged(key, dictionary.words):
                parsed.damaged.append(key or value)
            else:
                _keep_unknown(parsed, key, value)
            continue
        parts = value.split(spec.split) if spec.split else [value]
        if len(parts) != len(spec.to):
            parsed.damaged.append(key)
            continue
        for column, part in zip(spec.to, parts, strict=True):
            read = spec.reader(part.strip())
            if read is None:
                if part.strip() not in ("nan%", "nan", "None"):
                    parsed.damaged.append(key)
            elif column in parsed.values and column not in parsed.format.set:
                # two keys with one meaning (`GPU …`, `CPU KV cache usage`): the first is the main one
                _keep_unknown(parsed, key, value)
            else:
                _store(parsed, column, read)


def _keep_unknown(parsed: Parsed, key: str, value: str) -> None:
    if _PLAUSIBLE_KEY.fullmatch(key) and _PLAUSIBLE_VALUE.fullmatch(value):
        parsed.extra[read_text(key)] = read_text(value)
    else:
        parsed.damaged.append("(text)")


def _forget(parsed: Parsed, dictionary: PairKeys, key: str) -> None:
    spec = find_key(dictionary, key)
    for column in spec.to if spec else (f"extra.{key}",):
        _drop(parsed, column)


def _drop(parsed: Parsed, column: str) -> None:
    if column.startswith("extra."):
        parsed.extra.pop(column[6:], None)
    else:
        parsed.values.pop(column, None)


def distrust_end(parsed: Parsed, message: str) -> None:
    """Drop what `message`, cut off at its end, may hold only the beginning of, and what its shape as a whole would mean."""
    fmt = parsed.format
    for column in {c for m in fmt.meanings for c in m.set}:
        _drop(parsed, column)
    if message.rstrip().endswith(","):
        return  # the separator behind the last value was still written
    if fmt.pairs is None:
        match = fmt.head.fullmatch(message)
        for gf in fmt.fields if match else ():
            if match is not None and match.end(gf.group) == len(message):
                _drop(parsed, gf.column)
        return
    match = fmt.head.match(message)
    pairs = split_pairs(message[match.end() :], fmt.pairs.separator) if match else []
    if not pairs or (fmt.pairs.terminator and message.endswith(fmt.pairs.terminator)):
        return
    key, _ = pairs[-1]
    spec = find_key(fmt.pairs, key)
    if spec is None or not spec.self_ending:
        _forget(parsed, fmt.pairs, key)


def find_key(dictionary: PairKeys, key: str) -> PairKey | None:
    """The entry for `key`, by name or else by pattern."""
    spec = dictionary.keys.get(key)
    if spec is None:
        for pattern, candidate in dictionary.patterns:
            if pattern.fullmatch(key):
                return candidate
    return spec


def _store(parsed: Parsed, column: str, value: Value) -> None:
    if column.startswith("extra."):
        parsed.extra[column[6:]] = read_text(str(value))
    else:
        parsed.values[column] = value


_WORD = re.compile(r"[A-Za-z]+")


def words_of(keys: list[str]) -> frozenset[str]:
    """The words that known keys are made of."""
    return frozenset(w for k in keys for w in _WORD.findall(k))


def looks_damaged(key: str, words: frozenset[str]) -> bool:
    """True when a word of `key` is the beginning of one known word glued to the end of another.

    That is what is left when the middle of a line was eaten (`#cached-tounning-req`). A new key made
    of whole words, known or not, is no damage.
    """
    for word in _WORD.findall(key):
        if word in words:
            continue
        for cut in range(2, len(word) - 1):
            head, tail = word[:cut], word[cut:]
            if any(w.startswith(head) and w != head for w in words) and any(
                w.endswith(tail) and w != tail and len(tail) >= 4 for w in words
            ):
                return True
    return False


def is_self_ending(reader_name: str) -> bool:
    """True for readers whose values show that they are whole."""
    return reader_name in SELF_ENDING


def reader(name: str) -> Reader:
    """The value reader called `name`; KeyError names the ones there are."""
    if name not in READERS:
        raise KeyError(f"no value reader {name!r}; there are {', '.join(sorted(READERS))}")
    return READERS[name]
