"""What becomes of a series: its number in the writer, or why it has none."""

from __future__ import annotations

from collections.abc import Mapping

from analyzer.parsers.series import SeriesWriter

IGNORED = -1
"""Of a model server and of no use (`_created`), or a comment."""
OTHER = -2
"""Of another program."""


def resolve(writer: SeriesWriter, name: str, labels: Mapping[str, str], record: int, declared: str = "") -> int:
    """The number of the series in the writer, IGNORED or OTHER."""
    name = _whole(name)
    number = writer.series(name, {_whole(k): _whole(v) for k, v in labels.items()}, record, declared)
    if number >= 0:
        return number
    return OTHER if name in writer.foreign else IGNORED


def _whole(text: str) -> str:
    """Text that can be stored: bytes that are no UTF-8 come in as lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
