"""Each format is taken by its reader, however it is laid out, and nothing else is."""

from __future__ import annotations

import json

import pytest
from record_reading import claimant, jsonl
from samples import FILES, client_record, export_record, log_events, vllm_run

SGLANG = "[2026-01-02 03:04:05 TP0] Decode batch, #running-req: 24, #token: 81234, token usage: 0.62, #queue-req: 17\n"


@pytest.mark.parametrize("name", FILES)
def test_each_format_is_claimed_by_its_reader(name: str) -> None:
    assert claimant(FILES[name]) == name


@pytest.mark.parametrize("name", [n for n in FILES if n not in ("azure_trace", "burstgpt_trace", "sglang_request_log")])
def test_layout_does_not_matter(name: str) -> None:
    documents = [json.loads(line) for line in FILES[name].splitlines()]
    assert claimant("\ufeff" + FILES[name].replace("\n", "\r\n")) == name
    assert claimant(json.dumps(documents[0], indent=2)) == name
    if name != "guidellm":
        assert claimant(json.dumps(documents)) == name
        assert claimant(json.dumps(documents, indent=1)) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        SGLANG * 3,
        "[1, 2, 3]",
        '{"a": 1}',
        '"text"',
        '{"message": "x", "timestamp": "2026-01-02T03:04:05Z", "ttft": 0.5, "latency": 1.0}\n',
        '{"timestamp": "2026-01-02T03:04:05Z", "latency": 0.1, "status": 200, "url": "/v1/models"}\n',
        '{"model": "m", "ttft": 0.5, "output_tokens": 5}\n',
        '{"resourceMetrics": []}\n',
        "a,b,c\n1,2,3\n",
        "# HELP x y\nx 1\n",
    ],
)
def test_other_files_are_left(text: str) -> None:
    assert claimant(text) is None


def test_the_request_log_inside_an_engine_log_is_left() -> None:
    lines = "".join(json.dumps(e) + "\n" for e in log_events())
    assert claimant(lines) == "sglang_request_log"
    assert claimant(lines + SGLANG + lines) is None
    assert claimant(SGLANG + lines) is None


def test_records_longer_than_what_is_looked_at_are_claimed() -> None:
    long = "x" * 100_000
    assert claimant(json.dumps({"timestamp": "2026-01-02T03:04:05", "event": "request.received", "obj": long})) == "sglang_request_log"
    assert claimant(json.dumps(vllm_run(itls=[[0.5] * 50_000]))) == "vllm_bench"
    assert claimant(json.dumps(export_record() | {"text": long})) == "sglang_metrics_file"


def test_a_few_broken_lines_do_not_hinder() -> None:
    good = jsonl(*(client_record(id=n) for n in range(10)))
    assert claimant('d": 5}\n' + good) == "client"
    assert claimant(good + '{"id": 5, "se\n' + good) == "client"
    assert claimant(jsonl(client_record()) + "hello\n" * 5) is None
