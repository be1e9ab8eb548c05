"""Many records of a client at once, column by column.

Only records that raise no question are read so: numbers where numbers are wanted, times that are epoch seconds, no two keys
that mean the same. `request_row` reads all others, and reads these alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.fields import COUNTS, DURATIONS, TIMES, client_fields, known_keys, request_row
from analyzer.parsers.request_records.jsonlines import Document
from analyzer.parsers.request_records.outcome import outcome
from analyzer.parsers.request_records.rows import Row, Rows, complete
from analyzer.parsers.request_records.texts import text_columns
from analyzer.parsers.request_records.values import LONGEST_S, MOST, RANKS, request_id, scaled

_TOGETHER = 1000
_EPOCH = datetime.fromtimestamp(0, UTC)
# Columns of each row, whether there is anything to fill in or not.
_FILLED_IN = (
    *(column for _, column in TIMES), *("ttft_s", "e2e_s", "decode_s", "itl_mean_s", "ts", "clock"),
    *("prompt_sha256", "prompt_text", "output_text"),
)  # fmt: skip
# Times within these are seconds, and nothing else.
_FIRST_S, _LAST_S = 1.4e9, 4.2e9


class ClientRows(Rows):
    """Rows of a client's records, which are collected and read together."""

    def __init__(self, given: Given, name: str, servers: set[tuple[str, int]]) -> None:
        super().__init__(given, name, "client", servers)
        self._waiting: list[tuple[int, Document]] = []

    def take(self, record: int, document: Document) -> None:
        """Take one record."""
        self._waiting.append((record, document))
        if len(self._waiting) >= _TOGETHER:
            self._read_waiting()

    def state(self) -> dict[str, Any]:
        """As of `Rows`."""
        self._read_waiting()
        return super().state()

    def result(self, nothing: str) -> SourceRead:
        """As of `Rows`."""
        self._read_waiting()
        return super().result(nothing)

    def _read_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        documents = [document for _, document in waiting]
        read = rows_together(documents, keep_text=self.keep_text)
        if read is None:
            for record, document in waiting:
                fields = client_fields(document)
                row = request_row(self.values, fields, keep_text=self.keep_text)
                self.add(record, "client", row, self.server(fields.get("server", (None, None))[0]))
            return
        rows, server = read
        origins = [""] * len(rows) if server is None else [self.server(document.get(server)) for document in documents]
        self.add_together([record for record, _ in waiting], "client", rows, origins)


def rows_together(documents: Sequence[Document], *, keep_text: bool) -> tuple[list[Row], str | None] | None:
    """(rows as `complete` leaves them, the key of the server) of these records; None when they are to be read one by one."""
    fields: dict[str, tuple[str, float | None]] = {}
    for key, name, unit in known_keys(tuple(dict.fromkeys(key for keys in {tuple(d) for d in documents} for key in keys))):
        if name in fields:
            return None
        fields[name] = key, unit

    def of(name: str) -> list[Any]:
        key = fields[name][0] if name in fields else None
        return [None] * len(documents) if key is None else [document.get(key) for document in documents]

    found: dict[str, Sequence[Any] | None] = {}
    for name, column in DURATIONS.items():
        if name in fields:
            found[column] = _durations(of(name), fields[name][1] or 1.0)
    for name in COUNTS:
        if name in fields:
            found[name] = _counts(of(name), MOST)
    for name, column in TIMES:
        if name in fields:
            found[column] = _moments(of(name)) if fields[name][1] is None else None
    found["dp"] = _counts(of("dp"), RANKS - 1)
    columns = {column: values for column, values in found.items() if values is not None}
    if "itls" in fields or len(columns) < len(found):
        return None
    columns["rid"] = [request_id(value) for value in of("rid")]
    answers = [columns[c] for c in ("ttft_s", "first_token_ts", "e2e_s", "finish_ts") if c in columns]
    answered = [any(v is not None for v in values) for values in zip(*answers, strict=True)] if answers else [False] * len(documents)
    ends = map(_outcome, of("status"), of("error"), of("pending"), answered)
    columns["status"], columns["error"] = zip(*ends, strict=True)
    nothing = dict.fromkeys(_FILLED_IN if keep_text else _FILLED_IN[:-2])
    rows = [nothing | dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for row, prompt, output in zip(rows, of("prompt"), of("output"), strict=True):
        row |= text_columns(prompt, output, keep_text)
        complete(row)
    return rows, fields["server"][0] if "server" in fields else None


def _durations(values: list[Any], unit: float) -> list[float | None] | None:
    """In seconds; None when one is not surely a duration."""
    if not set(map(type, values)) <= {float, int, type(None)}:
        return None
    seconds = [None if v is None else scaled(v, unit) for v in values]
    return seconds if all(s is None or 0 <= s <= LONGEST_S for s in seconds) else None


def _counts(values: list[Any], most: float) -> list[int | None] | None:
    """As they are; None when one is not surely a count."""
    if not set(map(type, values)) <= {int, type(None)}:
        return None
    return values if all(v is None or 0 <= v <= most for v in values) else None


def _moments(values: list[Any]) -> list[datetime | None] | None:
    """Times of the wall clock; None when one is not surely in epoch seconds."""
    if not set(map(type, values)) <= {float, int, type(None)}:
        return None
    if not all(v is None or _FIRST_S < v < _LAST_S for v in values):
        return None
    return [None if v is None else _EPOCH + timedelta(seconds=float(v)) for v in values]


# Ends are few, and what users were sent as an error is long: it is looked at anew.
_known_outcome = lru_cache(maxsize=256, typed=True)(outcome)
_PLAIN = frozenset((int, bool, type(None)))


def _outcome(status: object, error: object, pending: object, answered: bool) -> tuple[str, str | None]:
    plain = type(error) in _PLAIN and type(pending) in _PLAIN and (type(status) in _PLAIN or (type(status) is str and len(status) < 20))
    return _known_outcome(status, error, pending, answered) if plain else outcome(status, error, pending, answered)
