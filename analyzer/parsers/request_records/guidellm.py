"""GuideLLM's `benchmarks.json`: the requests of each benchmark, by how they ended."""

from __future__ import annotations

import re
from typing import Any

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.jsonlines import Document, json_records, parse_json
from analyzer.parsers.request_records.outcome import error_kind
from analyzer.parsers.request_records.rows import Row, Rows
from analyzer.parsers.request_records.texts import find_prompt, text_columns
from analyzer.parsers.request_records.values import request_id

_HEAD = re.compile(r'"guidellm_version"\s*:|"benchmarks"\s*:[\s\S]*"type_"\s*:\s*"generative_benchmark"')
_STATUS = {"successful": "finished", "incomplete": "unfinished", "errored": "error"}


def _is_record(document: Document) -> bool:
    return isinstance(document.get("benchmarks"), list)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class Guidellm:
    """Reads the per-request lists. Times are epoch seconds."""

    name = "guidellm"

    def claims(self, head: str, name: str) -> bool:
        """True for a report that names GuideLLM's version or its benchmark type."""
        return head.lstrip("\ufeff \t\r\n").startswith("{") and bool(_HEAD.search(head))

    def read(self, given: Given) -> SourceRead:
        """One row a request."""
        rows = Rows(given, self.name, "client")
        for _, document in json_records(given.chunks, rows.read.counts, _is_record):
            for number, benchmark in enumerate(document["benchmarks"], 1):
                benchmark = _dict(benchmark)
                origin = rows.server(_target(document, benchmark))
                requests = _dict(benchmark.get("requests"))
                for ended, status in _STATUS.items():
                    listed = requests.get(ended)
                    for request in listed if isinstance(listed, list) else ():
                        if isinstance(request, dict):
                            row = _row(rows, request, status)
                            row["extra"] = {"run": str(number)}
                            rows.add(rows.added + 1, "client", row, origin)
        return rows.result("benchmarks without their requests")


def _target(document: Document, benchmark: Document) -> object:
    """The server's URL, which every release keeps elsewhere."""
    args = _dict(document.get("args"))
    backend = _dict(_dict(benchmark.get("config")).get("backend"))
    return (
        args.get("target")
        or _dict(args.get("backend")).get("target")
        or backend.get("target")
        or _dict(benchmark.get("worker")).get("backend_target")
    )


def _row(rows: Rows, request: Document, status: str) -> Row:
    values = rows.values
    info = _dict(request.get("info") or request.get("scheduler_info"))
    times = _dict(info.get("timings") or info.get("request_timings"))

    def moment(*candidates: object) -> Any:
        return values.moment(next((c for c in candidates if c is not None), None))

    row: Row = {
        "rid": request_id(request.get("response_id")) or request_id(request.get("request_id")),
        "arrival_ts": moment(times.get("request_start"), request.get("request_start_time"), request.get("start_time")),
        "first_token_ts": moment(times.get("first_token_iteration"), times.get("first_iteration"), request.get("first_token_time")),
        "finish_ts": moment(times.get("request_end"), request.get("request_end_time"), request.get("end_time")),
        "ttft_s": values.seconds(request.get("time_to_first_token_ms"), 1e-3),
        "e2e_s": values.seconds(request.get("request_latency")),
        "itl_mean_s": values.seconds(request.get("inter_token_latency_ms"), 1e-3),
        "prompt_tokens": values.count(request.get("prompt_tokens")),
        "output_tokens": values.count(request.get("output_tokens")),
        "cached_tokens": values.count(request.get("cached_tokens")),
        "status": status,
    }
    if row["first_token_ts"] is None:
        # older releases compute with 0 where no token came
        row["ttft_s"] = row["ttft_s"] or None
    if status == "error":
        row["error"] = error_kind(info.get("error") or request.get("error")) or "other"
        row["status"] = "aborted" if row["error"] == "abort" else "error"
    return row | text_columns(_prompt(request), request.get("output"), rows.keep_text)


def _prompt(request: Document) -> Any:
    """The prompt: a field of its own in older releases, inside the arguments of the call in newer ones."""
    if request.get("prompt"):
        return request["prompt"]
    called = request.get("request_args")
    called = parse_json(called) if isinstance(called, str) else called
    return find_prompt(_dict(_dict(called).get("body") or called))
