"""Where in a message each value stands that a format reads from it."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.formats.model import LineFormat, find_key, split_pairs
from analyzer.formats.values import Reader, read_text


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """A column (or `extra.NAME`), the part of the message that its value is read from, and how it is read."""

    column: str
    begin: int
    end: int
    reader: Reader


def value_spans(fmt: LineFormat, message: str) -> list[ValueSpan]:
    """The spans of all values in a message that `fmt` reads; values that stand there in another form are left out."""
    match = fmt.head.match(message) if fmt.pairs else fmt.head.fullmatch(message)
    if match is None:
        return []
    found = [ValueSpan(f.column, *match.span(f.group), f.reader) for f in fmt.fields if match[f.group] is not None]
    if fmt.pairs is None:
        return found
    at = match.end()
    for key, value in split_pairs(message[at:], fmt.pairs.separator):
        spec = find_key(fmt.pairs, key)
        begin = message.find(value, max(message.find(key, at), at) + len(key))
        if begin < 0:
            continue
        at = begin + len(value)
        if spec is None:
            found.append(ValueSpan(f"extra.{key}", begin, at, read_text))
            continue
        inside = begin
        for column, part in zip(spec.to, value.split(spec.split) if spec.split else [value], strict=False):
            start = message.find(part.strip(), inside)
            found.append(ValueSpan(column, start, start + len(part.strip()), spec.reader))
            inside = start + len(part)
    return found
