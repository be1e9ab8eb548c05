"""Reads the Python (or JSON) literals that engines print, as far as they go.

Nothing is evaluated. What is no literal (an object's repr, an enum) becomes its text; a line that was
cut gives what stood before the cut.
"""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?)(?![\w.])")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_STRING = re.compile(r"[bBrRuU]{0,2}('''|\"\"\"|'|\")")
_WORDS: dict[str, Any] = {
    "None": None, "True": True, "False": False, "null": None, "true": True, "false": False,
    "nan": None, "NaN": None, "inf": None, "Infinity": None,
}  # fmt: skip
_CLOSING = {"{": "}", "[": "]", "(": ")"}
# Server arguments have a few hundred fields; deeper or longer than this is no configuration.
_MAX_DEPTH = 60


class _CutShortError(Exception):
    """The text ended inside a value; what was read so far is in `value`."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def read_repr(text: str) -> tuple[Any, bool]:
    """(value, whole): `Name(a=1)` and `{'a': 1}` as dict; whole is False when the text was cut."""
    try:
        value, _ = _value(text, _blank(text, 0), 0)
    except _CutShortError as cut:
        return cut.value, False
    return value, True


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if at >= len(text) or depth > _MAX_DEPTH:
        raise _CutShortError(None)
    string = _STRING.match(text, at)
    if string:
        return _string(text, string)
    char = text[at]
    if char in _CLOSING:
        return _collection(text, at + 1, _CLOSING[char], depth, as_dict=char == "{")
    if char == "<":
        return _opaque(text, at, depth)
    number = _NUMBER.match(text, at)
    if number:
        return _number(number[0].replace("_", "")), _inside(text, number.end(), depth)
    name = _NAME.match(text, at)
    if name:
        end = name.end()
        if end < len(text) and text[end] == "(":
            return _collection(text, end + 1, ")", depth, as_dict=True)
        return _WORDS.get(name[0], name[0]), _inside(text, end, depth)
    return _opaque(text, at, depth)


def _inside(text: str, end: int, depth: int) -> int:
    """`end`, unless the text ends there within a collection: then `16` may be all that is left of 16384."""
    if depth and end >= len(text):
        raise _CutShortError(None)
    return end


def _number(digits: str) -> int | float | str:
    if len(digits) > 40:
        return digits  # no setting; and int() refuses what is much longer
    return int(digits) if re.fullmatch(r"[-+]?[0-9]+", digits) else float(digits)


def _string(text: str, opening: re.Match[str]) -> tuple[str, int]:
    quote = opening[1]
    at = start = opening.end()
    while True:
        end = text.find(quote, at)
        if end < 0:
            raise _CutShortError(text[start:])
        slashes = 0
        while end - 1 - slashes >= start and text[end - 1 - slashes] == "\\":
            slashes += 1
        if slashes % 2 == 0:
            body = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[start:end], flags=re.DOTALL)
            return body, end + len(quote)
        at = end + 1


def _opaque(text: str, at: int, depth: int) -> tuple[str, int]:
    """Text that is no literal: up to the comma or bracket that ends it."""
    start, open_angles = at, 0
    while at < len(text):
        char = text[at]
        if char == "<":
            open_angles += 1
        elif char == ">" and open_angles:
            open_angles -= 1
        elif char in ",)]}" and not open_angles:
            break
        at += 1
    if at == start:
        raise _CutShortError(None)
    return text[start:at].strip(), _inside(text, at, depth)


def _collection(text: str, at: int, closing: str, depth: int, *, as_dict: bool) -> tuple[Any, int]:
    items: list[Any] = []
    named: dict[str, Any] = {}

    def result(cut: bool = False) -> Any:
        # `{'a'` may be the beginning of a set or of a dict: then nothing is known
        return named if as_dict and (named or cut or not items) else items

    while True:
        at = _blank(text, at)
        if at >= len(text):
            raise _CutShortError(result(cut=True))
        if text[at] == closing:
            return result(), at + 1
        if text[at] == ",":
            at += 1
            continue
        try:
            value, at = _value(text, at, depth + 1)
        except _CutShortError as cut:
            if isinstance(cut.value, (dict, list)):
                items.append(cut.value)
            raise _CutShortError(result(cut=True)) from None
        at = _blank(text, at)
        if as_dict and at < len(text) and text[at] in ":=":
            key = str(value)
            try:
                named[key], at = _value(text, _blank(text, at + 1), depth + 1)
            except _CutShortError as cut:
                # a string that was cut is not the value; a container's beginning is worth keeping
                if isinstance(cut.value, (dict, list)):
                    named[key] = cut.value
                raise _CutShortError(result(cut=True)) from None
        else:
            items.append(value)
