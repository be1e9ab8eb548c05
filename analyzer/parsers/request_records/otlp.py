"""OTLP traces as JSON (the collector's file exporter): the request spans of vLLM and SGLang."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.jsonlines import Document, glance, json_records
from analyzer.parsers.request_records.rows import Row, Rows
from analyzer.parsers.request_records.values import Values, finite, request_id

Attributes = dict[str, Any]

_ORIGIN = re.compile(r"[\w.:/@-]{1,200}", re.ASCII)
# What names the process in a span's resource, best first.
_ORIGIN_KEYS = ("k8s.pod.name", "service.instance.id", "host.name", "host", "container.name")
_LATENCY = "gen_ai.latency."
_PROMPT = ("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens", "llm.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens", "llm.usage.completion_tokens")
_LIMIT = ("gen_ai.request.max_tokens", "llm.request.max_tokens")
_FINISH = ("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason")
_EXTRA = ("time_in_scheduler", "time_in_model_forward", "time_in_model_execute", "time_in_model_inference")
_STATUS_ERROR = (2, "2", "STATUS_CODE_ERROR")


def _is_record(document: Document) -> bool:
    return "resourceSpans" in document


class OtlpTraces:
    """Reads spans that carry `gen_ai.latency.*`: one request each. All other spans are left."""

    name = "otlp_traces"

    def claims(self, head: str, name: str) -> bool:
        """True for documents with `resourceSpans`."""
        return glance(head).mostly(_is_record)

    def read(self, given: Given) -> SourceRead:
        """One row for each request span."""
        rows = Rows(given, self.name, "frontend")
        for record, document in json_records(given.chunks, rows.read.counts, _is_record):
            for resource, scope, span, attributes in _spans(document):
                if any(key.startswith(_LATENCY) for key in attributes):
                    engine = _engine(resource, scope, span, attributes)
                    rows.add(record, engine, _row(rows.values, span, attributes, engine), _origin(resource))
        return rows.result("spans, none of them a request of vLLM or SGLang")


def _spans(document: Document) -> Iterator[tuple[Attributes, str, Document, Attributes]]:
    """(resource attributes, scope name, span, span attributes)."""
    for of_resource in _list(document.get("resourceSpans")):
        resource = _attributes(_dict(of_resource.get("resource")))
        for of_scope in _list(of_resource.get("scopeSpans") or of_resource.get("instrumentationLibrarySpans")):
            scope = _dict(of_scope.get("scope") or of_scope.get("instrumentationLibrary"))
            for span in _list(of_scope.get("spans")):
                yield resource, str(scope.get("name") or ""), span, _attributes(span)


def _list(value: Any) -> list[Document]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _dict(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _attributes(holder: Document) -> Attributes:
    found: Attributes = {}
    for item in _list(holder.get("attributes")):
        found[str(item.get("key"))] = _value(_dict(item.get("value")))
    return found


def _value(value: Document) -> Any:
    for kind in ("stringValue", "intValue", "doubleValue", "boolValue"):
        if kind in value:
            return value[kind]
    values = _list(_dict(value.get("arrayValue")).get("values"))
    return [_value(v) for v in values] or None


def _origin(resource: Attributes) -> str:
    for key in _ORIGIN_KEYS:
        name = resource.get(key)
        if isinstance(name, str) and _ORIGIN.fullmatch(name):
            return name
    return ""


def _engine(resource: Attributes, scope: str, span: Document, attributes: Attributes) -> str:
    names = f"{scope} {resource.get('service.name')}".lower()
    if "sglang" in names or "gen_ai.usage.cached_tokens" in attributes or f"{_LATENCY}time_in_request" in attributes:
        return "sglang"
    return "vllm" if span.get("name") == "llm_request" or "vllm" in names else "client"


def _first(attributes: Attributes, keys: tuple[str, ...]) -> Any:
    return next((attributes[k] for k in keys if attributes.get(k) is not None), None)


def _row(values: Values, span: Document, attributes: Attributes, engine: str) -> Row:
    def latency(name: str) -> float | None:
        return values.seconds(attributes.get(_LATENCY + name))

    e2e = latency("e2e")
    row: Row = {
        "rid": request_id(attributes.get("gen_ai.request.id")),
        "arrival_ts": values.moment(span.get("startTimeUnixNano")),
        "queue_s": latency("time_in_queue"),
        "ttft_s": latency("time_to_first_token"),
        "e2e_s": latency("time_in_request") if e2e is None else e2e,
        "prefill_s": latency("time_in_model_prefill"),
        "decode_s": latency("time_in_model_decode"),
        "prompt_tokens": values.count(_first(attributes, _PROMPT)),
        "output_tokens": values.count(_first(attributes, _OUTPUT)),
        "cached_tokens": values.count(attributes.get("gen_ai.usage.cached_tokens")),
        "max_new_tokens": values.count(_first(attributes, _LIMIT)),
        "extra": {f"{name}_s": finite(attributes.get(_LATENCY + name)) for name in _EXTRA},
    }
    if engine == "sglang":
        # SGLang counts from the dispatch by the API server to the first token: the queue is inside
        queue, prefill = row["queue_s"], row["prefill_s"]
        row["prefill_s"] = round(prefill - queue, 9) if queue is not None and prefill is not None and prefill >= queue else None
    if row["e2e_s"] is None:
        row["finish_ts"] = values.moment(span.get("endTimeUnixNano"))
    row["status"] = "finished"
    if "abort" in str(_first(attributes, _FINISH)):
        row["status"] = "aborted"
    elif _dict(span.get("status")).get("code") in _STATUS_ERROR:
        row["status"], row["error"] = "error", "other"
    return row
