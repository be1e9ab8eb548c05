"""Strict readers for single values.

A reader gets the text of one value and returns the typed value, or None when the text is not
wholly of the expected shape. None means "not reported": a damaged value is never guessed at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

Value = int | float | str | bool
Reader = Callable[[str], Value | None]

_INT = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3}){1,6}|-?[0-9]{1,19}")
_FLOAT = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INT64 = 1 << 63
_INT16 = 1 << 15


def as_int64(value: int) -> int | None:
    """`value`, or None when no column could hold it."""
    return value if -_INT64 <= value < _INT64 else None


def read_int(text: str) -> int | None:
    """A whole number that a column can hold, thousands commas allowed."""
    return as_int64(int(text.replace(",", ""))) if _INT.fullmatch(text) else None


def read_rank(text: str) -> int | None:
    """A rank: a small whole number."""
    value = read_int(text)
    return value if value is not None and 0 <= value < _INT16 else None


def read_float(text: str) -> float | None:
    """A finite decimal number; `nan` and `inf` are not reported values."""
    if not _FLOAT.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def read_percent(text: str) -> float | None:
    """`96.8%` as the share 0.968."""
    if not text.endswith("%"):
        return None
    value = read_float(text[:-1])
    return None if value is None else round(value / 100.0, 6)


def read_bool(text: str) -> bool | None:
    """Python's `True` and `False`."""
    return {"True": True, "False": False}.get(text)


_LEADING = re.compile(r"([0-9]{1,18}) [a-z ]+")


def read_leading_int(text: str) -> int | None:
    """`1 waiting to start` as 1."""
    match = _LEADING.fullmatch(text)
    return int(match[1]) if match else None


def read_text(text: str) -> str:
    """Any text; bytes that were no UTF-8 are written as escapes, for no column could hold them as they are."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _with_suffix(reader: Reader, suffix: str) -> Reader:
    def read(text: str) -> Value | None:
        return reader(text[: -len(suffix)]) if text.endswith(suffix) else None

    return read


def _scaled(factor: float) -> Reader:
    def read(text: str) -> float | None:
        value = read_float(text.replace(",", ""))
        # round: 12.3 ms is 0.0123 s, not 0.012300000000000002
        return None if value is None else float(f"{value * factor:.12g}")

    return read


def _bytes(unit: int) -> Reader:
    def read(text: str) -> int | None:
        value = read_float(text.replace(",", ""))
        return None if value is None else as_int64(round(value * unit))

    return read


_PARTS = re.compile(r"\{'[a-z_]+': [0-9]{1,19}(?:, '[a-z_]+': [0-9]{1,19})*\}")


def read_sum_of_parts(text: str) -> int | None:
    """`{'memory': 256, 'disk': 64}` as 320."""
    return as_int64(sum(map(int, re.findall(r"[0-9]+", text)))) if _PARTS.fullmatch(text) else None


# A value so read carries its own end (`%`, ` reqs`): cut short, it would not have been read at all.
SELF_ENDING = frozenset(("percent", "reqs", "tokens", "tokens/s", "bool", "leading_int"))

READERS: dict[str, Reader] = {
    "int": read_int,
    "rank": read_rank,
    "float": read_float,
    "percent": read_percent,
    "bool": read_bool,
    "leading_int": read_leading_int,
    "text": read_text,
    "reqs": _with_suffix(read_int, " reqs"),
    "tokens": _with_suffix(read_int, " tokens"),
    "tokens/s": _with_suffix(read_float, " tokens/s"),
    "ms": _scaled(1e-3),
    "us": _scaled(1e-6),
    "bytes": read_int,
    "sum_of_parts": read_sum_of_parts,
    "GiB": _bytes(1 << 30),
    "GB": _bytes(10**9),
}
"""The readers a format can name. Size units are what the engine means, not what it prints:
LMCache's `gb` and SGLang's `GB` are 2**30 bytes, but the `GB` of SGLang's host pools (HiCache) are 10**9."""

# What lets a whole column be read at once: these readers give the number itself, or the number divided by a power of ten,
# rounded once. Both hold for numbers of at most EXACT_DIGITS digits.
WHOLE: frozenset[Reader] = frozenset(READERS[name] for name in ("int", "rank", "reqs", "tokens", "bytes"))
DECIMAL_SHIFT: dict[Reader, int] = {
    READERS[name]: shift for name, shift in (("float", 0), ("tokens/s", 0), ("percent", 2), ("ms", 3), ("us", 6))
}
EXACT_DIGITS = 12
# A share is rounded to six places: of a percentage, four.
PERCENT_PLACES = 4
