"""Reads the records of a text line by line, as the lines are read that cannot be read in bulk."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.sources.pieces import Line, LineCounts, Pieces
from analyzer.sources.records import HEAD_LINES, Assembler, Record, wrap_width


def read_records(text: str, counts: LineCounts) -> list[Record]:
    """All records that a format reads (ignored ones too), in input order; `counts` is kept up to date."""
    lines = list(_lines(text))
    pieces = Pieces(counts)
    assembler = Assembler(counts, wrap_width([line for _, line, _ in lines[:HEAD_LINES]]))
    return [*assembler.run(pieces.of(lines)), *assembler.run(pieces.rest())]


def _lines(text: str) -> Iterator[Line]:
    whole = text.split("\n")
    for number, line in enumerate(whole, 1):
        if number < len(whole) or line:
            yield number, line.removesuffix("\r") if number < len(whole) else line, number < len(whole)
