"""CSV tables as records, row by row: comma, semicolon or tab, quoted fields, line breaks inside them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from analyzer.parsers.request_records.jsonlines import lines
from analyzer.sources.pieces import LineCounts

_DELIMITERS = ",;\t"
_NO_NAME = re.compile(r"^\d|\d:\d\d|[\[\]{}=]")
# A field may be a long prompt; an opened quote that is never closed ends here.
csv.field_size_limit(1 << 23)


def header_of(head: str) -> tuple[list[str], str] | None:
    """(column names, delimiter) of a table that begins so; None when its first line is no header."""
    line = head.lstrip("\ufeff\r\n").partition("\n")[0].rstrip("\r")
    delimiter = max(_DELIMITERS, key=line.count)
    if not line.count(delimiter):
        return None
    try:
        names = [n.strip() for n in next(csv.reader([line], delimiter=delimiter))]
    except csv.Error:
        return None
    # a line of numbers or of a log is none
    if len(set(names)) < len(names) or any(not n or len(n) > 100 or _NO_NAME.search(n) for n in names):
        return None
    return names, delimiter


def is_table(head: str) -> bool:
    """True when a header is followed by rows of as many cells."""
    header = header_of(head)
    if header is None:
        return False
    try:
        rows = [cells for cells in csv.reader(head.lstrip("\ufeff\r\n").splitlines()[:6], delimiter=header[1]) if cells]
    except csv.Error:
        return False
    # the last may go on where the beginning ends
    whole = rows[:-1] if len(rows) > 2 else rows
    return len(whole) > 1 and all(len(cells) == len(header[0]) for cells in whole)


def table_records(blocks: Iterable[str], counts: LineCounts, names: list[str], delimiter: str) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, cells by column name) for each row that has as many cells as the header."""
    cut = False

    def physical() -> Iterator[str]:
        nonlocal cut
        for line, terminated in lines(blocks):
            cut = not terminated
            yield line.lstrip("\ufeff") + "\n"

    reader = csv.reader(physical(), delimiter=delimiter)
    while True:
        before = reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error:
            cells = None
        taken = reader.line_num - before
        counts.lines += taken
        if cells is not None and (not any(cells) or [c.strip() for c in cells] == names):
            counts.ignored += taken
        elif cells is None or len(cells) != len(names):
            counts.unmatched += taken
            counts.unmatched_surely += taken
            counts.last_line_cut = cut
        else:
            counts.matched += taken
            yield before + 1, dict(zip(names, cells, strict=True))
