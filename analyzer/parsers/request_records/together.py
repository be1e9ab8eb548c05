"""Many records of named fields at once, column by column.

Only records that raise no question are read so: numbers where numbers are wanted, times in seconds, no two keys that mean the
same. `request_row` reads all others, and reads these alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from analyzer.formats.values import read_float
from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.completion import Moments, Numbers, as_microseconds, rounded
from analyzer.parsers.request_records.fields import COUNTS, DURATIONS, TIMES, Keys, fields_of, request_row
from analyzer.parsers.request_records.jsonlines import Document
from analyzer.parsers.request_records.outcome import outcome
from analyzer.parsers.request_records.rows import TOGETHER, Row, Rows
from analyzer.parsers.request_records.texts import text_columns
from analyzer.parsers.request_records.values import LONGEST_S, MOST, NOTHING, RANKS, request_id, scaled
from analyzer.sources.timestamps import parse_epoch, parse_iso

_Column = tuple[Sequence[Any], float | None]
"""The values of many records, and seconds of their unit."""

_Waiting = tuple[int, tuple[str, ...], Document, Row]
"""Record number, keys, document without its texts, and their columns."""

# Where many together raise a question, so many are asked again.
_FEW = 50
# Within these a number is an epoch in seconds, and up to this one it is none.
_FIRST_S, _LAST_S = 1.5e9, 4.1e9
_NO_EPOCH = 1e9
_PER_SECOND = (1, 1_000, 1_000_000, 1_000_000_000)
_MOST_EPOCH = 1e20
_NUMBERS = {int, float, type(None)}
_PLAIN = (str, int, bool)


class FieldRows(Rows):
    """Rows of records of named fields, which are collected and read together. `keys` tells what the keys of a record mean."""

    def __init__(self, given: Given, name: str, servers: set[tuple[str, int]], keys: Callable[[tuple[str, ...]], Keys]) -> None:
        super().__init__(given, name, "client", servers)
        self._keys = keys
        self._text_keys = lru_cache(maxsize=4096)(self._text_keys_of)
        self._waiting: list[_Waiting] = []

    def take(self, record: int, document: Document) -> None:
        """Take one record, which is the callee's from now on."""
        texts: dict[str, Any] = {"prompt": None, "output": None}
        keys = tuple(document)
        for key, name in self._text_keys(keys):
            if texts[name] is None:
                texts[name] = document[key]
            # a thousand long texts are not kept for their hashes
            document[key] = None
        self._waiting.append((record, keys, document, text_columns(texts["prompt"], texts["output"], self.keep_text)))
        if len(self._waiting) >= TOGETHER:
            self.store()

    def state(self) -> dict[str, Any]:
        """As of `Rows`."""
        self.store()
        return super().state()

    def result(self, nothing: str) -> SourceRead:
        """As of `Rows`."""
        self.store()
        return super().result(nothing)

    def store(self) -> None:
        """As of `Rows`."""
        waiting, self._waiting = self._waiting, []
        if waiting and not self._add_together(waiting):
            for at in range(0, len(waiting), _FEW):
                few = waiting[at : at + _FEW]
                if not self._add_together(few):
                    self._add_alone(few)
        super().store()

    def _text_keys_of(self, keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return tuple((key, name) for key, name, _ in self._keys(keys) if name in ("prompt", "output"))

    def _add_together(self, waiting: Sequence[_Waiting]) -> bool:
        """Add these records; False, and nothing done, when they are to be read one by one."""
        records, shapes, documents, texts = zip(*waiting, strict=True)
        keys: tuple[str, ...] = shapes[0]
        if set(shapes) == {keys}:
            values = dict(zip(keys, zip(*(document.values() for document in documents), strict=True), strict=True))
        else:
            keys = tuple(dict.fromkeys(chain.from_iterable(shapes)))
            values = {key: tuple([document.get(key) for document in documents]) for key in keys}
        fields: dict[str, _Column] = {}
        for key, name, unit in self._keys(keys):
            if name in fields:
                return False
            fields[name] = values[key], unit
        columns = columns_of(fields, len(documents))
        if columns is None:
            return False
        for name in dict.fromkeys(name for row in texts for name in row):
            columns[name] = [row.get(name) for row in texts]
        servers = fields["server"][0] if "server" in fields else [None] * len(documents)
        self.add_columns(records, "client", columns, self._origins_of(servers))
        return True

    def _origins_of(self, urls: Sequence[Any]) -> list[str]:
        """The stream of each; those that are new come in the order of their records."""
        texts = [url if isinstance(url, str) else None for url in urls]
        known = {url: self.stream(self.server(url)).origin for url in dict.fromkeys(texts)}
        return [known[url] for url in texts]

    def _add_alone(self, waiting: Sequence[_Waiting]) -> None:
        for record, keys, document, texts in waiting:
            fields = fields_of(document, self._keys(keys))
            row = request_row(self.values, fields) | texts
            self.add(record, "client", row, self.server(fields.get("server", (None, None))[0]))


def columns_of(fields: Mapping[str, _Column], rows: int) -> dict[str, Any] | None:
    """What `request_row` makes of each of these records, in columns; None when they are to be read one by one."""
    if "itls" in fields:
        return None
    columns: dict[str, Any] = {}
    for name, column in DURATIONS.items():
        if name in fields:
            values, unit = fields[name]
            columns[column] = _durations(_read(values), unit)
    for name in (*COUNTS, "dp"):
        if name in fields:
            columns[name] = _counts(_read(fields[name][0]), RANKS - 1 if name == "dp" else MOST)
    own: dict[str, Numbers | None] = {}
    for name, column in TIMES:
        if name in fields:
            columns[column] = _moments(*fields[name])
            if columns[column] is None:
                own[name] = _own_times(*fields[name])
                del columns[column]
    if any(values is None for values in (*columns.values(), *own.values())):
        return None
    arrival = own.get("arrival")
    if arrival is not None:
        columns["arrival_rel_s"] = arrival
        for name, column in (("first_token", "ttft_s"), ("finish", "e2e_s")):
            time = own.get(name)
            if time is not None:
                columns[column] = _since(arrival, time, columns.get(column))

    def raw(name: str) -> Sequence[Any]:
        return fields[name][0] if name in fields else [None] * rows

    columns["rid"] = [request_id(value) for value in raw("rid")]
    answered = np.zeros(rows, np.bool_)
    for column in ("ttft_s", "first_token_ts", "e2e_s", "finish_ts"):
        if column in columns:
            answered |= ~np.isnan(columns[column])
    columns["status"], columns["error"] = _outcomes(raw("status"), raw("error"), raw("pending"), answered.tolist())
    return columns


def _read(values: Sequence[Any]) -> Sequence[Any]:
    """`values` with numbers in the place of texts that say one."""
    if str not in set(map(type, values)):
        return values
    return [_read_text(value.strip()) if isinstance(value, str) else value for value in values]


def _read_text(text: str) -> float | str | None:
    if text.lower() in NOTHING:
        return None
    number = read_float(text)
    return text if number is None else number


def _numbers(values: Sequence[Any], most: float) -> Numbers | None:
    """As they are; None when one is not surely a number from zero to `most`."""
    if not set(map(type, values)) <= _NUMBERS:
        return None
    try:
        array = pa.array(values, pa.float64())
    except (pa.ArrowInvalid, OverflowError):
        return None
    numbers: Numbers = array.to_numpy(zero_copy_only=False)
    fit = np.count_nonzero((numbers >= 0) & (numbers <= most))
    return numbers if fit + array.null_count == len(values) else None


def _durations(values: Sequence[Any], unit: float | None) -> Numbers | None:
    """In seconds; None when one is not surely a duration."""
    scale = unit or 1.0
    numbers = _numbers(values, LONGEST_S / scale)
    return numbers if numbers is None or scale == 1.0 else _scaled(values, scale, LONGEST_S)


def _scaled(values: Sequence[Any], scale: float, most: float) -> Numbers | None:
    return _numbers([None if value is None else scaled(value, scale) for value in values], most)


def _counts(values: Sequence[Any], most: float) -> Sequence[int | None] | None:
    """As whole numbers; None when one is not surely a count."""
    numbers = _numbers(values, most)
    if numbers is None or float not in set(map(type, values)):
        return None if numbers is None else values
    whole = (np.isnan(numbers) | (np.floor(numbers) == numbers)).all()
    return [None if value is None else int(value) for value in values] if whole else None


def _moments(values: Sequence[Any], unit: float | None) -> Moments | None:
    """Times of the wall clock; None when one is not surely such a time."""
    kinds = set(map(type, values))
    if unit is None and kinds <= {str, type(None)}:
        return _written_moments(values)
    numbers = _numbers(values, _MOST_EPOCH)
    if numbers is None:
        return None
    none = np.isnan(numbers)
    for per_second in _PER_SECOND if unit is None else (round(1 / unit),):
        seconds = numbers / per_second
        if (none | ((seconds > _FIRST_S) & (seconds < _LAST_S))).all():
            moments: Moments = np.datetime64(0, "us") + as_microseconds(seconds)
            return moments
    return None


def _written_moments(values: Sequence[str | None]) -> Moments | None:
    """Times from stamps with a zone and from epochs; what stamps without one mean depends on those before."""
    moments: list[datetime | None] = []
    for value in values:
        text = "" if value is None else value.strip()
        moment = parse_iso(text) or parse_epoch(text)
        if (moment is None and text.lower() not in NOTHING) or (moment is not None and moment.tzinfo is None):
            return None
        moments.append(moment if moment is None else moment.astimezone(UTC).replace(tzinfo=None))
    return np.array(moments, "datetime64[us]")


def _own_times(values: Sequence[Any], unit: float | None) -> Numbers | None:
    """Seconds on a clock of the client's own; None when one may be of the wall clock."""
    numbers = _numbers(values, _NO_EPOCH)
    return numbers if numbers is None or unit in (None, 1.0) else _scaled(values, unit or 1.0, _NO_EPOCH)


def _since(begin: Numbers, end: Numbers, known: Numbers | None) -> Numbers:
    """`known`, and where there is none the time from `begin` to `end`, if it is one."""
    since = np.full(len(begin), np.nan) if known is None else known.copy()
    where = np.isnan(since) & (end >= begin)
    since[where] = rounded((end - begin)[where])
    return since


def _outcomes(
    status: Sequence[Any], error: Sequence[Any], pending: Sequence[Any], answered: Sequence[bool]
) -> tuple[Sequence[str], Sequence[str | None]]:
    """(status, error) of each."""
    ends = list(zip(status, error, pending, answered, strict=True))
    if all(_is_plain(values) for values in (status, error, pending)):
        # there are few
        known = {end: outcome(*end) for end in set(ends)}
        found = [known[end] for end in ends]
    else:
        found = [outcome(*end) for end in ends]
    statuses, errors = zip(*found, strict=True)
    return statuses, errors


def _is_plain(values: Sequence[Any]) -> bool:
    """True when equal values are the same."""
    kinds = set(map(type, values)) - {type(None)}
    return len(kinds) <= 1 and kinds.issubset(_PLAIN)
