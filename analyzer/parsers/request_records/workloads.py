"""Public workload traces: when requests came and how long they were. No server answered them, so nothing says how they ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.jsonlines import Document, glance, json_records
from analyzer.parsers.request_records.rows import Row, Rows
from analyzer.parsers.request_records.table import header_of, table_records

_AZURE = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
_BURST = {"Timestamp", "Model", "Request tokens", "Response tokens"}


def _is_record(document: Document) -> bool:
    return {"timestamp", "input_length", "output_length"} <= document.keys()


class Mooncake:
    """Mooncake's JSON lines, and those of Qwen-Bailian, which look the same but count in seconds.

    Equal `hash_ids` at the beginning of two requests are a shared prefix. A block of them is 512 tokens in
    Mooncake's traces and 16 in Qwen-Bailian's.
    """

    name = "mooncake_trace"

    def claims(self, head: str, name: str) -> bool:
        """True for objects with `timestamp`, `input_length` and `output_length`."""
        return glance(head).mostly(_is_record)

    def read(self, given: Given) -> SourceRead:
        """One row a line."""
        rows = Rows(given, self.name, "client")
        for record, document in json_records(given.chunks, rows.read.counts, _is_record):
            values = rows.values
            row: Row = {
                "arrival_rel_s": values.number(document["timestamp"], 1.0 if "chat_id" in document else 1e-3),
                "prompt_tokens": values.count(document["input_length"]),
                "output_tokens": values.count(document["output_length"]),
                "block_hashes": _hashes(document.get("hash_ids")),
            }
            rows.add(record, "client", row)
        return rows.result("no request in it")


def _hashes(value: Any) -> list[int] | None:
    if not isinstance(value, list) or not value:
        return None
    fit = set(map(type, value)) == {int} and min(value) >= -(1 << 63) and max(value) < 1 << 63
    return value if fit else None


class AzureTrace:
    """The Azure LLM inference traces (CSV). Times are of the wall clock."""

    name = "azure_trace"

    def claims(self, head: str, name: str) -> bool:
        """True for a table with Azure's columns."""
        header = header_of(head)
        return header is not None and set(header[0]) >= _AZURE

    def read(self, given: Given) -> SourceRead:
        """One row a line."""

        def row(rows: Rows, cells: dict[str, str]) -> Row:
            return {
                "arrival_ts": rows.values.moment(cells["TIMESTAMP"]),
                "prompt_tokens": rows.values.count(cells["ContextTokens"]),
                "output_tokens": rows.values.count(cells["GeneratedTokens"]),
            }

        return _read_table(given, self.name, row)


class BurstGpt:
    """BurstGPT's traces (CSV). Times are seconds from the first day's midnight."""

    name = "burstgpt_trace"

    def claims(self, head: str, name: str) -> bool:
        """True for a table with BurstGPT's columns."""
        header = header_of(head)
        return header is not None and set(header[0]) >= _BURST

    def read(self, given: Given) -> SourceRead:
        """One row a line."""

        def row(rows: Rows, cells: dict[str, str]) -> Row:
            return {
                "arrival_rel_s": rows.values.number(cells["Timestamp"]),
                "e2e_s": rows.values.seconds(cells.get("Elapsed time")),
                "prompt_tokens": rows.values.count(cells["Request tokens"]),
                "output_tokens": rows.values.count(cells["Response tokens"]),
            }

        return _read_table(given, self.name, row)


def _read_table(given: Given, name: str, row: Callable[[Rows, dict[str, str]], Row]) -> SourceRead:
    rows = Rows(given, name, "client")
    header = header_of(given.head)
    assert header is not None, "a source is read by the reader that claimed it"
    for record, cells in table_records(given.blocks, rows.read.counts, *header):
        rows.add(record, "client", row(rows, cells))
    return rows.result("no request in it")
