"""Bench tools, traces of spans and public workloads."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from record_reading import T0, T, jsonl, read
from samples import (
    AZURE,
    BURST,
    MOONCAKE,
    VLLM_ATTRIBUTES,
    aiperf_record,
    guidellm_report,
    sglang_run,
    span_document,
    vllm_run,
)

DETAILS = ("input_lens", "output_lens", "ttfts", "itls", "errors", "generated_texts", "start_times")


def picked(row: dict[str, Any], *columns: str) -> tuple[Any, ...]:
    return tuple(row.get(c) for c in columns)


def test_a_run_of_sglang_bench() -> None:
    got = read(jsonl(sglang_run()), "sglang_bench")
    timed = (
        "record",
        "clock",
        "ttft_s",
        "e2e_s",
        "decode_s",
        "itl_mean_s",
        "itl_max_s",
        "prompt_tokens",
        "output_tokens",
        "status",
        "error",
    )
    assert [picked(r, *timed) for r in got.requests] == [
        (1, "order", 0.5, 1.5, 1.0, 0.5, 0.75, 100, 3, "finished", None),
        (2, "order", 0.75, 0.75, 0.0, None, None, 200, 1, "finished", None),
        (3, "order", None, None, None, None, None, 300, 0, "error", "timeout"),
    ]
    assert {r["key"]: r["value"] for r in got.rows["facts"]} == {
        "arg.port": "30000",
        "arg.host": "127.0.0.1",
        "arg.max_running_requests": "48",
    }
    assert (got.read.versions.stated, got.read.streams[""].addresses) == ("0.5.9", [("127.0.0.1", 30000)])
    assert all(r["engine"] == "sglang" for r in got.requests)


def test_appended_runs_are_numbered_and_their_arguments_stored_once() -> None:
    got = read(jsonl(sglang_run(), sglang_run()), "sglang_bench")
    assert [(r["record"], r["extra"]["run"]) for r in got.requests] == [(n, "1" if n < 4 else "2") for n in range(1, 7)]
    assert len(got.rows["facts"]) == 3


@pytest.mark.parametrize(
    ("name", "run", "flag"), [("sglang_bench", sglang_run(), "--output-details"), ("vllm_bench", vllm_run(), "--save-detailed")]
)
def test_totals_alone_are_of_no_use_and_the_flag_is_named(name: str, run: dict[str, Any], flag: str) -> None:
    bare = {k: v for k, v in run.items() if k not in DETAILS}
    got = read(jsonl(bare), name)
    assert (got.read.usable, flag in got.read.nothing) == (False, True)
    both = read(jsonl(bare, run), name)
    assert any(flag in note for note in both.read.notes)


def test_a_run_of_vllm_bench() -> None:
    got = read(json.dumps(vllm_run()), "vllm_bench")
    good, bad = got.requests
    assert picked(good, "engine", "clock", "arrival_rel_s", "ttft_s", "e2e_s", "decode_s", "status") == (
        "client", "monotonic", 8672.5, 0.5, 1.75, 1.0, "finished",
    )  # fmt: skip
    assert picked(bad, "arrival_rel_s", "ttft_s", "e2e_s", "status", "error") == (8673.0, None, None, "error", "http_503")
    assert got.read.notes == ["run 1 ended at about 20260102-030415, local time; its requests are on a clock of its own"]


def test_latencies_of_another_length_are_nobodys() -> None:
    got = read(json.dumps(vllm_run(latencies=[9.0], backend="vllm")), "vllm_bench")
    assert picked(got.requests[0], "e2e_s", "engine") == (1.5, "vllm")


def test_a_span_of_vllm() -> None:
    got = read(jsonl(span_document(VLLM_ATTRIBUTES, name="llm_request", service="x", pod="vllm-0")), "otlp_traces")
    row = got.only()
    assert picked(row, "engine", "stream", "observer", "rid", "arrival_ts", "queue_s", "ttft_s", "e2e_s", "prefill_s", "decode_s") == (
        "vllm", "vllm-0", "frontend", "cmpl-1", T, 0.25, 0.5, 2.5, 0.2, 2.0,
    )  # fmt: skip
    assert picked(row, "prompt_tokens", "output_tokens", "max_new_tokens", "finish_ts", "extra") == (
        100, 21, 64, T + timedelta(seconds=2.5), {"time_in_model_inference_s": "2.2"},
    )  # fmt: skip
    assert got.read.streams["vllm-0"].engines == {"vllm"}


def test_a_span_of_sglang_has_the_queue_inside_its_prefill() -> None:
    attributes = VLLM_ATTRIBUTES | {"gen_ai.usage.cached_tokens": 16, "gen_ai.latency.time_in_model_prefill": 0.45}
    row = read(jsonl(span_document(attributes, name="Req 1", service="sglang")), "otlp_traces").only()
    assert picked(row, "engine", "queue_s", "prefill_s", "cached_tokens") == ("sglang", 0.25, 0.2, 16)
    del attributes["gen_ai.latency.time_in_queue"]
    row = read(jsonl(span_document(attributes, name="Req 1", service="sglang")), "otlp_traces").only()
    assert picked(row, "prefill_s", "ttft_s") == (None, 0.5)


def test_a_span_without_its_latency_ends_when_it_ends() -> None:
    attributes = {"gen_ai.latency.time_in_queue": 0.25, "gen_ai.usage.prompt_tokens": 5}
    row = read(jsonl(span_document(attributes, name="llm_request", service="x", status={"code": 2})), "otlp_traces").only()
    assert picked(row, "e2e_s", "status", "error") == (3.0, "error", "other")


def test_other_spans_are_left() -> None:
    got = read(jsonl(span_document({"http.method": "POST"}, name="POST /v1/completions", service="x")), "otlp_traces")
    assert (got.read.usable, got.read.counts.matched) == (False, 1)


def test_a_report_of_guidellm() -> None:
    got = read(json.dumps(guidellm_report()), "guidellm")
    assert [picked(r, "status", "error", "ttft_s", "e2e_s", "itl_mean_s", "rid") for r in got.requests] == [
        ("finished", None, 0.5, 2.5, 0.095, "cmpl-1"),
        ("unfinished", None, None, None, None, "r-1"),
        ("error", "connection", None, None, None, "r-1"),
    ]
    assert picked(got.requests[0], "arrival_ts", "prompt_tokens", "output_tokens", "cached_tokens") == (T, 100, 21, 16)
    assert got.read.streams[""].addresses == [("10.0.0.5", 8000)]


def test_a_report_of_an_older_guidellm() -> None:
    request = {
        "request_id": "r-1", "prompt": "a", "output": "b", "prompt_tokens": 100, "output_tokens": 21, "start_time": T0,
        "first_token_time": T0 + 0.5, "end_time": T0 + 2.5, "request_latency": 2.5, "time_to_first_token_ms": 500.0,
    }  # fmt: skip
    cut = request | {"first_token_time": None, "time_to_first_token_ms": 0.0, "end_time": T0 + 1}
    benchmark: dict[str, Any] = {"type_": "generative_benchmark", "worker": {"backend_target": "http://a:1"}}
    got = read(
        json.dumps({"benchmarks": [benchmark | {"requests": {"successful": [request], "incomplete": [cut], "errored": None}}]}), "guidellm"
    )
    assert [picked(r, "status", "ttft_s", "arrival_ts") for r in got.requests] == [("finished", 0.5, T), ("unfinished", None, T)]
    assert got.read.streams[""].addresses == [("a", 1)]


def test_records_of_aiperf() -> None:
    failed = aiperf_record(metrics={"error_isl": {"value": 50, "unit": "tokens"}}, error={"code": 500, "type": "X", "message": "no"})
    cancelled = aiperf_record(metrics={}, error={"code": 499, "type": "RequestCancellationError"})
    cancelled["metadata"]["was_cancelled"] = True
    cancelled["metadata"]["benchmark_phase"] = "warmup"
    good, bad, stopped = read(jsonl(aiperf_record(), failed, cancelled), "aiperf").requests
    assert picked(good, "rid", "arrival_ts", "ttft_s", "e2e_s", "itl_mean_s", "itl_max_s", "prompt_tokens", "output_tokens", "status") == (
        "7609a2e7-aa53", T, 0.5, 2.5, 0.1, 0.3, 100, 21, "finished",
    )  # fmt: skip
    assert picked(bad, "prompt_tokens", "status", "error") == (50, "error", "http_500")
    assert picked(stopped, "status", "error", "extra") == ("aborted", "abort", {"phase": "warmup"})


def test_a_metric_in_no_unit_of_time_is_no_duration() -> None:
    row = read(jsonl(aiperf_record(metrics={"time_to_first_token": {"value": 500.0, "unit": "tokens"}})), "aiperf").only()
    assert "ttft_s" not in row


def test_workloads_have_times_and_lengths_and_no_end() -> None:
    columns = ("engine", "clock", "arrival_rel_s", "prompt_tokens", "output_tokens", "status", "block_hashes", "e2e_s")
    assert [picked(r, *columns) for r in read(MOONCAKE, "mooncake_trace").requests] == [
        ("client", "monotonic", 0.0, 1000, 52, None, [1, 2], None),
        ("client", "monotonic", 3.5, 600, 26, None, [1, 3], None),
    ]
    assert [picked(r, *columns) for r in read(BURST, "burstgpt_trace").requests] == [
        ("client", "monotonic", 5.0, 472, 18, None, None, 2.5),
        ("client", "monotonic", 45.5, 300, 0, None, None, None),
    ]
    azure = read(AZURE, "azure_trace").requests
    assert [picked(r, "clock", "arrival_ts", "prompt_tokens", "output_tokens", "status") for r in azure] == [
        ("wall", T, 374, 44, None),
        ("wall", T + timedelta(seconds=1.5), 396, 109, None),
    ]


def test_traces_with_chat_ids_count_in_seconds() -> None:
    text = jsonl({"chat_id": 159, "timestamp": 61.5, "input_length": 5, "output_length": 1, "hash_ids": ["a"]})
    assert picked(read(text, "mooncake_trace").only(), "arrival_rel_s", "block_hashes") == (61.5, None)
