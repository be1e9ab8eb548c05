"""SGLang's `--export-metrics-to-file`: one JSON object for each finished request."""

from __future__ import annotations

from typing import Any

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.growing import growing_records
from analyzer.parsers.request_records.jsonlines import Document, glance, parse_json
from analyzer.parsers.request_records.rows import Rows
from analyzer.parsers.request_records.texts import find_prompt, text_columns
from analyzer.parsers.request_records.values import finite, request_id
from analyzer.parsers.requests_text import meta_columns

_EXTRA = (
    "decode_throughput",
    "storage_prefetch_wait",
    "storage_staging_wait",
    "spec_accept_rate",
    "spec_accept_length",
    "spec_verify_ct",
)


def _is_record(document: Document) -> bool:
    return "request_parameters" in document and not {"prompt_tokens", "e2e_latency", "finish_reason"}.isdisjoint(document)


def meta_extra(meta: dict[str, Any]) -> dict[str, str | None]:
    """The numbers of `meta_info` that have no column."""
    return {key: finite(meta[key]) for key in _EXTRA if key in meta}


class SglangMetricsFile:
    """Reads what the front end knew of each request; times are epoch seconds."""

    name = "sglang_metrics_file"

    def claims(self, head: str, name: str) -> bool:
        """True for objects with `request_parameters` beside the keys of `meta_info`."""
        return glance(head).mostly(_is_record)

    def read(self, given: Given) -> SourceRead:
        """One row a line."""
        rows = Rows(given, self.name, "frontend")
        for record, document in growing_records(given, rows, _is_record):
            asked = document["request_parameters"]
            asked = parse_json(asked) if isinstance(asked, str) else asked
            asked = asked if isinstance(asked, dict) else {}
            row = meta_columns(document)
            row["rid"] = request_id(document.get("id") or asked.get("rid"))
            sampling = asked.get("sampling_params")
            if isinstance(sampling, dict):
                row["max_new_tokens"] = rows.values.count(sampling.get("max_new_tokens"))
            row |= text_columns(find_prompt(asked), document.get("text"), rows.keep_text)
            row["extra"] = meta_extra(document)
            rows.add(record, "sglang", row)
        return rows.result("no request in it")
