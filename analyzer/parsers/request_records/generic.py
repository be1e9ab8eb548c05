"""Any JSON lines or CSV table of requests, read by the columns that `--map` names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from analyzer.errors import KvpmError
from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.fields import SYNONYMS, unit_of
from analyzer.parsers.request_records.jsonlines import Document, glance, json_records
from analyzer.parsers.request_records.rows import Rows
from analyzer.parsers.request_records.table import header_of, is_table, table_records
from analyzer.parsers.request_records.together import FieldRows
from analyzer.parsers.request_records.values import address

# Records looked at to learn the columns: a column may be missing from some.
_FIRST = 200
_MOST_NAMED = 40


class GenericRecords:
    """Reads requests by `columns`: canonical names (docs/requests.md) to columns, `a.b` for a nested one."""

    name = "generic_records"

    def claims(self, head: str, name: str) -> bool:
        """True for JSON objects and for tables; to be asked only when `--map` was given."""
        seen = glance(head)
        return bool(seen.first and seen.mostly(bool)) or is_table(head)

    def read(self, given: Given) -> SourceRead:
        """One row a record. Raises KvpmError for a name or a column that is not there."""
        columns = given.options.columns
        unknown = sorted(set(columns) - set(SYNONYMS))
        if unknown:
            raise KvpmError(f"--map: no such field: {', '.join(unknown)}", hint=f"known are: {', '.join(SYNONYMS)}")
        return _read(given, columns)


def has_column(head: str, columns: Iterable[str]) -> bool:
    """True when the records that `head` shows have one of the columns."""
    known = {path for document in glance(head).records for path in _paths(document)}
    return not known.isdisjoint(columns)


def _read(given: Given, columns: Mapping[str, str]) -> SourceRead:
    name = GenericRecords.name
    units = tuple((field, field, unit_of(column)) for field, column in columns.items())
    rows = FieldRows(given, name, _servers(given, columns), lambda _: units)
    records = _records(given, rows)
    first = list(islice(records, _FIRST))
    _check(given.name, columns, [document for _, document in first])
    for record, document in chain(first, records):
        rows.take(record, {field: _lookup(document, column) for field, column in columns.items()})
    return rows.result("no record in it")


def _records(given: Given, rows: Rows) -> Iterator[tuple[int, Document]]:
    if glance(given.head).first:
        return json_records(given.chunks, rows.read.counts, bool)
    header = header_of(given.head)
    if header is None:
        raise KvpmError(f"{given.name}: neither JSON lines nor a table", hint="--map reads JSON lines, a JSON array and CSV with a header")
    return table_records(given.blocks, rows.read.counts, *header)


def _servers(given: Given, columns: Mapping[str, str]) -> set[tuple[str, int]]:
    """The servers that the beginning shows."""
    column = columns.get("server")
    found = (address(_lookup(document, column)) for document in glance(given.head).records) if column else ()
    return {server for server in found if server}


def _check(name: str, columns: Mapping[str, str], documents: list[Document]) -> None:
    if not documents:
        return
    known = dict.fromkeys(path for document in documents for path in _paths(document))
    missing = [column for column in columns.values() if column not in known]
    if missing:
        shown = list(known)[:_MOST_NAMED]
        more = f" and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
        raise KvpmError(
            f"{name}: --map names columns that are not there: {', '.join(missing)}", hint=f"there are: {', '.join(shown)}{more}"
        )


def _paths(document: Document, prefix: str = "", depth: int = 0) -> Iterator[str]:
    for key, value in document.items():
        yield prefix + str(key)
        if isinstance(value, dict) and depth < 5:
            yield from _paths(value, f"{prefix}{key}.", depth + 1)


def _lookup(document: Document, column: str) -> Any:
    """The value of a column; the name as a whole goes before its reading as a path."""
    if column in document:
        return document[column]
    value: Any = document
    for part in column.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value
