"""One made-up file of each kind of request records, with a marker in every field that can hold what a user wrote."""

from __future__ import annotations

import json
from typing import Any

from record_reading import T0, jsonl

MARK = "correct-horse-battery-staple"
PROMPT = f"tell me about {MARK}, please"


def export_record(**changes: Any) -> dict[str, Any]:
    """A line of SGLang's --export-metrics-to-file."""
    asked = {"rid": "6f1c2a", "text": PROMPT, "sampling_params": {"max_new_tokens": 64, "stop": PROMPT}, "extra_key": PROMPT}
    return {
        "request_parameters": json.dumps(asked),
        "id": "6f1c2a",
        "finish_reason": {"type": "stop", "matched": PROMPT},
        "prompt_tokens": 512,
        "weight_version": "default",
        "completion_tokens": 21,
        "cached_tokens": 128,
        "cached_tokens_details": {"device": 96, "host": 32},
        "num_retractions": 1,
        "e2e_latency": 2.5,
        "queue_time": 0.25,
        "forward_entry_time": T0 + 0.25,
        "prefill_finished_time": T0 + 0.45,
        "request_received_ts": T0,
        "request_finished_ts": T0 + 2.5,
        "first_token_latency": 0.5,
        "decode_throughput": 10.0,
        "dp_rank": 1,
        "text": PROMPT,
    } | changes


def log_events(rid: str = "6f1c2a", **meta: Any) -> list[dict[str, Any]]:
    """The two events of one request in SGLang's JSON request log."""
    asked = {"rid": rid, "text": PROMPT, "sampling_params": {"max_new_tokens": 64}}
    told = {"id": rid, "finish_reason": {"type": "length"}, "prompt_tokens": 512, "completion_tokens": 64, "e2e_latency": 1.5} | meta
    return [
        {"timestamp": "2026-01-02T03:04:05.000000", "event": "request.received", "rid": rid, "obj": asked, "headers": {"x": PROMPT}},
        {
            "timestamp": "2026-01-02T03:04:06.500000",
            "event": "request.finished",
            "rid": rid,
            "obj": asked,
            "out": {"text": PROMPT, "meta_info": told},
        },
    ]


def client_record(**changes: Any) -> dict[str, Any]:
    """A line of the simplest format, as docs/requests.md shows it."""
    return {
        "id": 7,
        "send": T0,
        "ttft": 0.5,
        "e2e": 2.5,
        "prompt_tokens": 100,
        "requested_output_tokens": 30,
        "output_tokens": 21,
        "max_itl": 0.3,
        "error": None,
        "server": "http://127.0.0.1:8112",
        "prompt": PROMPT,
        "output": PROMPT,
        "note": PROMPT,
    } | changes


def _attribute(key: str, value: Any) -> dict[str, Any]:
    kind = {str: "stringValue", int: "intValue", float: "doubleValue", bool: "boolValue"}[type(value)]
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


def span_document(attributes: dict[str, Any], *, name: str, service: str, pod: str = "", scope: str = "", **more: Any) -> dict[str, Any]:
    """An OTLP document with one request span."""
    resource = {"service.name": service} | ({"k8s.pod.name": pod} if pod else {})
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "name": name,
        "startTimeUnixNano": str(int(T0) * 10**9),
        "endTimeUnixNano": str(int(T0 + 3) * 10**9),
        "attributes": [_attribute(k, v) for k, v in attributes.items()],
    } | more
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [_attribute(k, v) for k, v in resource.items()]},
                "scopeSpans": [{"scope": {"name": scope}, "spans": [span]}],
            }
        ]
    }


VLLM_ATTRIBUTES = {
    "gen_ai.request.id": "cmpl-1",
    "gen_ai.request.max_tokens": 64,
    "gen_ai.usage.prompt_tokens": 100,
    "gen_ai.usage.completion_tokens": 21,
    "gen_ai.latency.time_in_queue": 0.25,
    "gen_ai.latency.time_to_first_token": 0.5,
    "gen_ai.latency.e2e": 2.5,
    "gen_ai.latency.time_in_model_prefill": 0.2,
    "gen_ai.latency.time_in_model_decode": 2.0,
    "gen_ai.latency.time_in_model_inference": 2.2,
    "gen_ai.prompt": PROMPT,
}


def sglang_run(**changes: Any) -> dict[str, Any]:
    """A run of sglang.bench_serving with --output-details."""
    return {
        "tag": PROMPT,
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": None,
        "server_info": {"port": 30000, "host": "127.0.0.1", "max_running_requests": 48, "api_key": MARK, "version": "0.5.9"},
        "duration": 10.0,
        "completed": 2,
        "input_lens": [100, 200, 300],
        "output_lens": [3, 1, 0],
        "ttfts": [0.5, 0.75, 0.0],
        "itls": [[0.25, 0.75], [], []],
        "generated_texts": [PROMPT, "", ""],
        "errors": ["", "", f"Traceback ({PROMPT}):\n  File x, in connect\nTimeoutError: {PROMPT}"],
    } | changes


def vllm_run(**changes: Any) -> dict[str, Any]:
    """A run of vllm bench serve with --save-detailed."""
    return {
        "date": "20260102-030415",
        "endpoint_type": "openai",
        "backend": "openai",
        "label": PROMPT,
        "model_id": "m",
        "tokenizer_id": "m",
        "num_prompts": 2,
        "request_rate": "inf",
        "duration": 5.0,
        "completed": 1,
        "failed": 1,
        "input_lens": [100, 200],
        "output_lens": [3, 0],
        "ttfts": [0.5, 0.0],
        "itls": [[0.25, 0.75], []],
        "latencies": [1.75, 0.0],
        "start_times": [8672.5, 8673.0],
        "generated_texts": [PROMPT, ""],
        "errors": ["", "Service Unavailable"],
        "mean_ttft_ms": 500.0,
    } | changes


def _timings(start: float) -> dict[str, Any]:
    return {
        "request_start": start,
        "first_token_iteration": start + 0.5,
        "last_token_iteration": start + 2.4,
        "request_end": start + 2.5,
    }


def guidellm_report() -> dict[str, Any]:
    """A report of a recent GuideLLM: one request of each ending."""
    good = {
        "type_": "generative_request_stats",
        "request_id": "r-1",
        "response_id": "cmpl-1",
        "request_args": json.dumps({"method": "POST", "body": {"prompt": PROMPT, "model": MARK}}),
        "output": PROMPT,
        "info": {"status": "completed", "timings": _timings(T0)},
        "prompt_tokens": 100,
        "cached_tokens": 16,
        "output_tokens": 21,
        "time_to_first_token_ms": 500.0,
        "inter_token_latency_ms": 95.0,
        "request_latency": 2.5,
    }
    cut = good | {"response_id": None, "info": {"timings": {"request_start": T0 + 1}}, "inter_token_latency_ms": None}
    cut |= {"time_to_first_token_ms": None, "request_latency": None}
    bad = cut | {"info": {"timings": {"request_start": T0 + 2}, "error": f"ConnectError: {PROMPT}", "traceback": PROMPT}}
    return {
        "metadata": {"version": 1, "guidellm_version": "0.5.0"},
        "args": {"target": "http://10.0.0.5:8000", "data": [PROMPT]},
        "benchmarks": [
            {"type_": "generative_benchmark", "config": {}, "requests": {"successful": [good], "incomplete": [cut], "errored": [bad]}}
        ],
    }


def aiperf_record(**changes: Any) -> dict[str, Any]:
    """A line of AIPerf's profile_export.jsonl."""
    start = int(T0) * 10**9
    return {
        "metadata": {
            "session_num": 1,
            "x_request_id": "7609a2e7-aa53",
            "conversation_id": PROMPT,
            "request_start_ns": start,
            "request_end_ns": start + 2_500_000_000,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        },
        "metrics": {
            "input_sequence_length": {"value": 100, "unit": "tokens"},
            "output_sequence_length": {"value": 21, "unit": "tokens"},
            "time_to_first_token": {"value": 500.0, "unit": "ms"},
            "request_latency": {"value": 2500.0, "unit": "ms"},
            "inter_token_latency": {"value": 100.0, "unit": "ms"},
            "inter_chunk_latency": {"value": [100.0, 300.0], "unit": "ms"},
        },
        "error": None,
    } | changes


MOONCAKE = jsonl(
    {"timestamp": 0, "input_length": 1000, "output_length": 52, "hash_ids": [1, 2]},
    {"timestamp": 3500, "input_length": 600, "output_length": 26, "hash_ids": [1, 3]},
)
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-01-02 03:04:05.0000000,374,44\n2026-01-02 03:04:06.5000000,396,109\n"
BURST = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    f"5,{MARK},2.5,{MARK},472,18,490,Conversation log\n45.5,,,GPT-4,300,0,300,API log\n"
)

FILES: dict[str, str] = {
    "sglang_metrics_file": jsonl(export_record(), export_record(id="b")),
    "sglang_request_log": "".join(f"[2026-01-02 03:04:05] {json.dumps(e)}\n" for e in log_events()),
    "otlp_traces": jsonl(span_document(VLLM_ATTRIBUTES, name="llm_request", service="vllm-server")),
    "sglang_bench": jsonl(sglang_run()),
    "vllm_bench": json.dumps(vllm_run()),
    "guidellm": json.dumps(guidellm_report()),
    "aiperf": jsonl(aiperf_record(), aiperf_record(error={"code": 500, "type": "X", "message": PROMPT})),
    "mooncake_trace": MOONCAKE,
    "azure_trace": AZURE,
    "burstgpt_trace": BURST,
    "client": jsonl(client_record(), client_record(id=8, error=f"ConnectionError: {PROMPT}", ttft=None)),
}
"""Reader name to a file of its format."""
