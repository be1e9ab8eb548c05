"""AIPerf's `profile_export.jsonl`: one record a request, each metric with its unit."""

from __future__ import annotations

from typing import Any

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.jsonlines import Document, glance, json_records
from analyzer.parsers.request_records.outcome import error_kind
from analyzer.parsers.request_records.rows import Row, Rows
from analyzer.parsers.request_records.values import Values, request_id

_SCALES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_DURATIONS = {
    "ttft_s": "time_to_first_token",
    "e2e_s": "request_latency",
    "decode_s": "decode_duration",
    "itl_mean_s": "inter_token_latency",
}
_COUNTS = {
    "prompt_tokens": ("input_sequence_length", "error_isl", "usage_prompt_tokens"),
    "output_tokens": ("output_sequence_length", "output_token_count", "usage_completion_tokens"),
    "cached_tokens": ("usage_prompt_cache_read_tokens",),
}


def _is_record(document: Document) -> bool:
    metadata = document.get("metadata")
    return "metrics" in document and isinstance(metadata, dict) and "request_start_ns" in metadata


class Aiperf:
    """Reads what AIPerf measured; times are epoch nanoseconds."""

    name = "aiperf"

    def claims(self, head: str, name: str) -> bool:
        """True for objects with `metrics` and `metadata.request_start_ns`."""
        return glance(head).mostly(_is_record)

    def read(self, given: Given) -> SourceRead:
        """One row a line."""
        rows = Rows(given, self.name, "client")
        for record, document in json_records(given.chunks, rows.read.counts, _is_record):
            rows.add(record, "client", _row(rows.values, document))
        return rows.result("no request in it")


def _row(values: Values, document: Document) -> Row:
    metadata: Document = document["metadata"]
    metrics = document["metrics"] if isinstance(document["metrics"], dict) else {}
    row: Row = {
        "rid": request_id(metadata.get("x_request_id")),
        "arrival_ts": values.moment(metadata.get("request_start_ns")),
        "finish_ts": values.moment(metadata.get("request_end_ns")),
        "status": "finished",
        "extra": {"phase": "warmup"} if metadata.get("benchmark_phase") == "warmup" else {},
    }
    for column, name in _DURATIONS.items():
        value, scale = _metric(metrics, name)
        row[column] = values.seconds(value, scale) if scale else None
    for column, names in _COUNTS.items():
        row[column] = next((values.count(v) for v, _ in (_metric(metrics, n) for n in names) if v is not None), None)
    gaps, scale = _metric(metrics, "inter_chunk_latency")
    row["itl_max_s"] = max(values.list_of_seconds(gaps, scale or 1e-3), default=None)
    error = document.get("error")
    if metadata.get("was_cancelled") is True:
        row["status"] = "aborted"
    elif error:
        kind = error_kind(error) or "other"
        row["status"], row["error"] = ("aborted" if kind == "abort" else "error"), kind
    return row


def _metric(metrics: dict[str, Any], name: str) -> tuple[Any, float | None]:
    """(value, seconds of its unit; None when it is no time)."""
    metric = metrics.get(name)
    if not isinstance(metric, dict):
        return None, None
    return metric.get("value"), _SCALES.get(str(metric.get("unit")).lower())
