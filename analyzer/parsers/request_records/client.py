"""The simplest record of requests: JSON lines that a user's own client writes, one request each."""

from __future__ import annotations

from functools import lru_cache

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.fields import client_fields, known_keys
from analyzer.parsers.request_records.growing import growing_records
from analyzer.parsers.request_records.jsonlines import Document, glance
from analyzer.parsers.request_records.together import FieldRows
from analyzer.parsers.request_records.values import address

# What a log record has; a client's measurement has none.
_OF_LOGS = frozenset(("message", "msg", "log", "level", "levelname", "logger", "MESSAGE"))


def _is_record(document: Document) -> bool:
    return _are_of_a_record(tuple(document))


@lru_cache(maxsize=4096)
def _are_of_a_record(keys: tuple[str, ...]) -> bool:
    return _OF_LOGS.isdisjoint(keys) and len({name for _, name, _ in known_keys(keys)}) >= 2


def _tells_ttft(document: Document) -> bool:
    # a summary has a TTFT too, but neither a time nor an id
    fields = client_fields(document)
    return ("ttft" in fields or "first_token" in fields) and not {"arrival", "e2e", "finish", "rid"}.isdisjoint(fields)


class ClientRecords:
    """Reads one object a line; docs/requests.md lists the keys."""

    name = "client"

    def claims(self, head: str, name: str) -> bool:
        """True for objects with a TTFT beside a time, a duration or an id."""
        seen = glance(head)
        return seen.mostly(_is_record) and any(map(_tells_ttft, seen.records or (seen.first,)))

    def read(self, given: Given) -> SourceRead:
        """One row a line."""
        servers = (address(client_fields(d).get("server", (None,))[0]) for d in glance(given.head).records)
        rows = FieldRows(given, self.name, {s for s in servers if s}, known_keys)
        for record, document in growing_records(given, rows, _is_record):
            rows.take(record, document)
        return rows.result("no request in it")
