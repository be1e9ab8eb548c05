"""Records of a file that may grow: reading goes on behind the last line that had an end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from analyzer.parsers.reader import HEAD_CHARACTERS, Given
from analyzer.parsers.request_records.jsonlines import Document, Stop, Test, json_records
from analyzer.parsers.request_records.rows import Rows
from analyzer.parsers.resume import Resume


class Memory(Protocol):
    """What a reader of records remembers of those before, besides what `Rows` does."""

    def state(self) -> dict[str, Any] | None:
        """As plain JSON; None when reading cannot go on from here."""

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""


def growing_records(
    given: Given, rows: Rows, is_record: Test, prefix: re.Pattern[str] | None = None, memory: Memory | None = None
) -> Iterator[tuple[int, Document]]:
    """As `json_records` of what is given; says in `rows.read` where reading may go on, and puts the rows from there into the tail.

    The caller takes a record before it asks for the next one. `rows` and `memory` know by then what they knew where
    reading goes on from.
    """
    before, begin = 0, 0
    if given.resume is not None:
        before, begin = given.resume.state["given"], given.resume.offset
        rows.go_on(given.resume.state["rows"])
        if memory is not None:
            memory.go_on(given.resume.state["memory"])
    size = begin

    def counted() -> Iterator[bytes]:
        nonlocal size
        for chunk in given.chunks:
            size += len(chunk)
            yield chunk

    def stop(at: Stop) -> None:
        remembered = {} if memory is None else memory.state()
        # what servers there are is told by the beginning, which has to be there
        rows.store()
        whole_head = given.resume is not None or len(given.head) >= HEAD_CHARACTERS
        if at.held or remembered is None or not whole_head:
            return
        state = {"given": at.given, "rows": rows.state(), "memory": remembered}
        # rows may wait until their state is asked for
        if not rows.added:
            return
        rows.read.resume = Resume(rows.read.format, size - at.rest, rows.read.counts.lines, state)
        given.spool = given.spool.begin_tail()

    return json_records(counted(), rows.read.counts, is_record, prefix, given=before, stop=stop if given.resumable else None)
