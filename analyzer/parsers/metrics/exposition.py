"""One line of the text exposition format: name, label set, value, time.

Read as servers and tools write it, not only as the grammar has it: blanks around braces and equal signs,
a comma behind the last label, quoted names, exemplars, escapes of Go's as well as of the format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:.]*")
_QUOTED = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_LABEL = re.compile(rf"\s*(?:([a-zA-Z_:][a-zA-Z0-9_:.]*)|{_QUOTED})\s*(?:=\s*{_QUOTED}\s*)?(,|(?=\}}))")
_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI][nN][fF](?:inity)?|[nN][aA][nN])"
_REST = re.compile(rf"\s*({_NUMBER})(?:[ \t]+([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))?(?:[ \t]+#[ \t]*\{{.*)?$")
_VALUE = re.compile(_NUMBER)
# What a line of a sample begins with, whatever became of the rest of it.
_BEGINS_AS_SAMPLE = re.compile(r'(?:[a-zA-Z_:][a-zA-Z0-9_:.]*\s*\{\s*(?:"|[a-zA-Z_]\w*\s*=|\})|\{\s*"[^"]*"\s*[,}]|\{\s*__name__\s*=)')
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "\\": "\\", '"': '"'}
_GO = _SIMPLE | {"a": "\a", "b": "\b", "f": "\f", "r": "\r", "t": "\t", "v": "\v"}

# What names a series and is longer than this is not remembered.
_LONG = 2000
# A time below this is in seconds (OpenMetrics), above it in milliseconds: 1e11 ms is in 1973.
SECONDS_BELOW = 1e11
# Moments (microseconds) that a sample can have been taken at: 2010 to 2100.
_FIRST_SANE, _LAST_SANE = 1_262_304_000_000_000, 4_102_444_800_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample as written: `key_end` is where the part that names the series ends, `ts` microseconds or None."""

    name: str
    labels: Mapping[str, str]
    key_end: int
    value: str
    ts: int | None


def read_sample(line: str, *, go_escapes: bool = False) -> Sample | None:
    """The sample on `line`, or None. `go_escapes`: label values are quoted as Go does it (`promtool`)."""
    line = line.rstrip()
    at = line.rfind("}") + 1
    # an exemplar has braces too
    series = _series(line[:at], go_escapes) if 0 < at < _LONG and " # " not in line else None
    if series is None:
        series = _first_series(line, go_escapes)
    if series is None:
        return None
    name, labels, at = series
    rest = _REST.match(line, at)
    if rest is None:
        return None
    ts = None if rest[2] is None else sample_time(rest[2])
    return None if rest[2] is not None and ts is None else Sample(name, labels, at, rest[1], ts)


# The series of a server are the same in every file of a scrape, and are asked for by whoever looks whether it is one.
@lru_cache(maxsize=1 << 12)
def _series(key: str, go_escapes: bool) -> tuple[str, Mapping[str, str], int] | None:
    """As `_first_series`, of a text that is nothing but a name and its labels; None for any other."""
    found = _first_series(key, go_escapes)
    return found if found is not None and found[2] == len(key) else None


def _first_series(line: str, go_escapes: bool) -> tuple[str, Mapping[str, str], int] | None:
    """(name, labels, end) of the series a line begins with; None for a line that begins otherwise."""
    start = _NAME.match(line)
    name = start[0] if start else ""
    at = start.end() if start else 0
    brace = at
    while brace < len(line) and line[brace] in " \t":
        brace += 1
    if line[brace : brace + 1] != "{":
        return (name, {}, at) if name and brace > at else None
    read = read_labels(line, brace, go_escapes=go_escapes)
    if read is None:
        return None
    inner, labels, end = read
    name = name or inner
    return (name, labels, end) if name else None


def read_labels(text: str, start: int = 0, *, go_escapes: bool = False) -> tuple[str, dict[str, str], int] | None:
    """(metric name, labels, end) of the label set that opens at `start`; the name is empty when it stands outside.

    A name inside is `__name__="x"` or, quoted, alone: `{"x", a="b"}`. None when it is no label set.
    """
    name = ""
    labels: dict[str, str] = {}
    at = start + 1
    separator = ","
    while True:
        label = _LABEL.match(text, at) if separator else None
        if label is None:
            break
        plain, quoted, value, separator = label.groups()
        at = label.end()
        if value is None:
            if quoted is None or name:
                return None
            name = unescape(quoted, go=go_escapes)
        else:
            key = plain if plain is not None else unescape(quoted, go=go_escapes)
            labels[key] = unescape(value, go=go_escapes)
    while at < len(text) and text[at] in " \t":
        at += 1
    if text[at : at + 1] != "}":
        return None
    return labels.pop("__name__", "") or name, labels, at + 1


def read_selector(text: str) -> tuple[str, dict[str, str]] | None:
    """(name, labels) of `name{a="b"}`, `{__name__="name"}` or a bare name, with nothing behind it; None otherwise."""
    text = text.strip()
    start = _NAME.match(text)
    name = start[0] if start else ""
    at = start.end() if start else 0
    if at == len(text):
        return (name, {}) if name else None
    if text[at:].lstrip()[:1] != "{":
        return None
    read = read_labels(text, text.index("{", at))
    if read is None or read[2] != len(text):
        return None
    return name or read[0], read[1]


def unescape(text: str, *, go: bool = False) -> str:
    """A label value without its escapes. What is no escape stays as it stands."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_unescape_go if go else _unescape_simple, text)


def _unescape_simple(match: re.Match[str]) -> str:
    return _SIMPLE.get(match[0][1], match[0])


def _unescape_go(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _GO.get(match[4], match[0])
    return chr(int(code, 16)) if int(code, 16) < 0x110000 else match[0]


def sample_time(text: str) -> int | None:
    """Time of a sample in microseconds: milliseconds or, by its size, seconds; None when no sample is of that time."""
    if text.isdigit() and len(text) == 13:
        us = int(text) * 1000
    else:
        value = float(text)
        if not -1e18 < value < 1e18:
            return None
        us = round(value * 1e6) if abs(value) < SECONDS_BELOW else round(value * 1e3)
    return us if is_sane(us) else None


def is_sane(us: int) -> bool:
    """True for a moment (microseconds) at which a sample can have been taken."""
    return _FIRST_SANE < us < _LAST_SANE


def is_value(text: str) -> bool:
    """True for what the format has as a value; Python's own numbers have underscores too."""
    return _VALUE.fullmatch(text.strip()) is not None


def numbers(texts: Sequence[str]) -> list[float] | None:
    """The values as numbers; None when one of them is none."""
    if "_" in "".join(texts):
        return None
    try:
        return list(map(float, texts))
    except ValueError:
        return None


def begins_as_sample(line: str) -> bool:
    """True for a line that was meant as a sample with labels, whether or not it can be read."""
    return _BEGINS_AS_SAMPLE.match(line) is not None


def family_type(types: dict[str, str], name: str) -> str:
    """The type a TYPE line gave `name` or the family it is a part of; empty without one."""
    if name in types:
        return types[name]
    base, _, suffix = name.rpartition("_")
    return types.get(base, "") if suffix in ("bucket", "sum", "count", "total", "created", "info") else ""
