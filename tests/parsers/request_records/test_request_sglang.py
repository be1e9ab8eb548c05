"""SGLang's own records: the metrics export, the JSON request log, and request lines in engine logs."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from record_reading import T0, T, jsonl, read
from samples import export_record, log_events

from analyzer.formats.match import match_line
from analyzer.parsers.requests_text import RequestLines, meta_values


def test_what_the_export_tells() -> None:
    row = read(jsonl(export_record()), "sglang_metrics_file").only()
    row.pop("prompt_sha256")
    assert row == {
        "source_id": "s", "record": 1, "engine": "sglang", "stream": "", "ts": T, "dp": 1, "observer": "frontend", "clock": "wall",
        "rid": "6f1c2a", "arrival_ts": T, "first_token_ts": T + timedelta(seconds=0.5), "finish_ts": T + timedelta(seconds=2.5),
        "queue_s": 0.25, "prefill_s": 0.2, "decode_s": 2.0, "ttft_s": 0.5, "itl_mean_s": 0.1, "e2e_s": 2.5, "prompt_tokens": 512,
        "output_tokens": 21, "max_new_tokens": 64, "cached_tokens": 128, "cached_device_tokens": 96, "cached_host_tokens": 32,
        "retractions": 1, "status": "finished", "extra": {"decode_throughput": "10.0"},
    }  # fmt: skip


def test_an_export_without_times_keeps_its_order() -> None:
    bare = {k: v for k, v in export_record().items() if not k.endswith(("_ts", "_time", "_latency"))}
    row = read(jsonl(bare), "sglang_metrics_file").only()
    assert (row["clock"], row.get("ts"), row["prompt_tokens"]) == ("order", None, 512)


def test_an_abort_in_the_export() -> None:
    reason = {"type": "abort", "message": "queue is full", "status_code": 503}
    row = read(jsonl(export_record(finish_reason=reason)), "sglang_metrics_file").only()
    assert (row["status"], row["error"]) == ("aborted", "http_503")


def test_both_events_are_one_request() -> None:
    got = read(jsonl(*log_events()), "sglang_request_log")
    row = got.only()
    assert (row["record"], row["rid"], row["arrival_ts"], row["finish_ts"]) == (1, "6f1c2a", T, T + timedelta(seconds=1.5))
    assert (row["e2e_s"], row["output_tokens"], row["max_new_tokens"], row["status"]) == (1.5, 64, 64, "finished")
    assert (got.read.engines, got.read.utc_offset_s) == ({"sglang"}, 0.0)
    assert "read as UTC (set --tz)" in got.read.notes[0]


def test_epoch_times_tell_the_zone() -> None:
    events = log_events(request_finished_ts=T0 + 1.5)
    for event in events:
        event["timestamp"] = event["timestamp"].replace("T03:", "T11:")
    got = read(jsonl(*events, *log_events("b")[:1]), "sglang_request_log")
    assert got.requests[0]["arrival_ts"] == T
    assert got.requests[1]["arrival_ts"] == T - timedelta(hours=8)
    assert got.read.utc_offset_s == 8 * 3600
    assert "+8 h" in got.read.notes[0]


def test_requests_without_an_end_are_unfinished_only_where_ends_are_logged() -> None:
    (begun, _), (_, ended) = log_events("a"), log_events("b")
    assert {r["rid"]: r["status"] for r in read(jsonl(begun, ended), "sglang_request_log").requests} == {"a": "unfinished", "b": "finished"}
    assert "status" not in read(jsonl(begun), "sglang_request_log").only()


def test_other_events_of_the_log_are_no_requests() -> None:
    status = {"timestamp": "2026-01-02T03:04:05", "event": "scheduler.status", "running_rids": ["a"]}
    openai = {"timestamp": "2026-01-02T03:04:05", "event": "request.received.openai", "obj": {}}
    got = read(jsonl(status, openai, *log_events()), "sglang_request_log")
    assert (len(got.requests), got.read.counts.other) == (1, 1)


def test_the_json_event_tells_the_limit_too() -> None:
    assert meta_values(json.dumps(log_events(dp_rank=3)[1]))["max_new_tokens"] == 64
    assert meta_values(json.dumps(log_events(dp_rank=3)[1]))["dp"] == 3


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("output_len=9, type=unified): queue_duration=500.00ms, forward_duration=2000.00ms", {"e2e_s": 2.5}),
        ("output_len=1, type=prefill): queue_duration=5.00ms, forward_duration=40.00ms", {"prefill_s": 0.04}),
        ("output_len=9, type=decode): queue_duration=5.00ms, forward_duration=800.00ms", {"decode_s": 0.8}),
    ],
)
def test_half_of_a_pd_pair_tells_its_own_work(line: str, expected: dict[str, float]) -> None:
    parsed = match_line(f"[2026-01-02 03:04:05 TP0] ReqTimeStats(rid=a, input_len=5, cached_input_len=0, {line}, entry_time={T0}").parsed
    assert parsed is not None
    (row,) = RequestLines().add(parsed, {"ts": T} | parsed.values, {})
    assert {k: row[k] for k in ("e2e_s", "prefill_s", "decode_s") if k in row} == expected
    assert (row["arrival_ts"], row["clock"]) == (T, "wall")
