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

_INT = re.compile(r"-?\d{1,3}(?:,\d{3})+|-?\d+")
_FLOAT = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def read_int(text: str) -> int | None:
    """A whole number, thousands commas allowed."""
    return int(text.replace(",", "")) if _INT.fullmatch(text) else None


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


_LEADING = re.compile(r"(\d+) [a-z ]+")


def read_leading_int(text: str) -> int | None:
    """`1 waiting to start` as 1."""
    match = _LEADING.fullmatch(text)
    return int(match[1]) if match else None


def read_text(text: str) -> str:
    """Any text, as it stands."""
    return text


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
        return None if value is None else round(value * unit)

    return read


READERS: dict[str, Reader] = {
    "int": read_int,
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
    "GiB": _bytes(1 << 30),
    "GB": _bytes(10**9),
}
"""The readers a format can name. Size units are what the engine means, not what it prints:
LMCache's `gb` and SGLang's `GB` are 2**30 bytes."""
