"""Which reader takes what, and what none of them takes."""

from __future__ import annotations

import json

import pytest
from metric_reading import EPOCH, claimed_by

VLLM_LINE = (
    "(APIServer pid=77) INFO 11-30 07:07:56 [loggers.py:338] Engine 000: Running: 24 reqs, Waiting: 17 reqs, GPU KV cache usage: 96.8%"
)
NOT_OURS = {
    "engine log": f"{VLLM_LINE}\n" * 20,
    "engine log that names metrics": f"{VLLM_LINE}\nINFO 11-30 07:07:57 [x.py:1] metric vllm:num_requests_running 3 is deprecated\n" * 20,
    "engine log with a scrape pasted in": f"{VLLM_LINE}\n" * 60 + '# TYPE vllm:x gauge\nvllm:x{engine="0"} 1\n' + f"{VLLM_LINE}\n" * 60,
    "SGLang log": "[2026-11-30 07:07:56 TP0] Decode batch, #running-req: 24, #token: 81234, token usage: 0.62, #queue-req: 17\n" * 9,
    "access log": 'INFO:     127.0.0.1:5555 - "GET /metrics HTTP/1.1" 200 OK\n' * 9,
    "request records": '{"id": "a", "send": 1796022476.1, "ttft": 0.2, "e2e": 1.0, "error": null}\n' * 9,
    "request records with a status": '{"status":"success","latency":1.5,"data":{"prompt_tokens":3}}\n' * 9,
    "workload trace": '{"timestamp": 0, "input_length": 100, "output_length": 5, "hash_ids": [1, 2]}\n' * 9,
    "OTLP": json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "llm_request"}]}]}]}),
    "OTLP metrics": json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "vllm:x"}]}]}]}),
    "benchmark": json.dumps({"date": "20261130-070756", "backend": "vllm", "ttfts": [0.1], "metric": {"values": [1]}}, indent=1),
    "Azure trace": "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-11-30 07:07:56,4808,10\n",
    "BurstGPT": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n",
    "request table": f"time,name,value_tokens,ttft\n{EPOCH},a,5,0.1\n",
    "results by name": f"time,name,value\n{EPOCH},median_ttft,0.1\n",
    "results by metric": "time,metric,value\nrun 1,ttft p50,0.1\n",
    "configuration": "max_num_seqs 256\nblock_size 16\n# a comment\nport 8000\n",
    "shell script": "# HELP me\n#!/bin/sh\nset -e\nwhile true; do\ncurl localhost:8000/metrics\nsleep 1\ndone\n",
    "program text": '#include <x>\nx{a="b"}\nreturn;\nint main() {\n}\n',
    "HTML": "<!DOCTYPE html>\n<html>\n<body>metrics</body>\n</html>\n",
    "stamps only": f"=== 2026-11-30T07:07:56Z ===\n{EPOCH}\n",
    "nothing": "",
    "blanks": "\n \n\t\n",
}


@pytest.mark.parametrize("what", NOT_OURS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_other_inputs_are_not_claimed(what: str, end: str) -> None:
    assert claimed_by(NOT_OURS[what].replace("\n", end)) == []


SCRAPE = '# HELP vllm:x A gauge.\n# TYPE vllm:x gauge\nvllm:x{engine="0"} 1\n'


@pytest.mark.parametrize(
    "text",
    [
        SCRAPE,
        "$ curl -s localhost:8000/metrics\n" + SCRAPE,
        "root@gpu-7:~# curl http://10.0.0.7:8000/metrics\n" + SCRAPE,
        "HTTP/1.1 200 OK\ndate: Mon, 30 Nov 2026 07:07:56 GMT\nserver: uvicorn\ncontent-length: 5\n\n" + SCRAPE,
        "*   Trying 127.0.0.1:8000...\n> GET /metrics HTTP/1.1\n> Host: localhost:8000\n>\n< HTTP/1.1 200 OK\n< server: uvicorn\n<\n"
        + SCRAPE,
        "=== Mon Nov 30 07:07:56 UTC 2026 ===\n" + SCRAPE,
        f"# scrape_ts {EPOCH}\n# scrape_failed curl_rc=7\n" * 5 + f"# scrape_ts {EPOCH}\n" + SCRAPE,
        'vllm:x{engine="0"} 1\nvllm:y{engine="0"} 2\n',
        "vllm:x 1\n",
        "# HELP vllm:x A gauge.\n# TYPE vllm:x gauge\n",
        "# TYPE node_load1 gauge\nnode_load1 0.5\n",
        f'# TYPE vllm:x untyped\nvllm:x{{instance="h:1",job="v"}} 1 {EPOCH}061\n',
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_scrapes_are_claimed_whatever_stands_before_them(text: str, end: str) -> None:
    assert claimed_by(text.replace("\n", end)) == ["prometheus_text"]


def test_a_beginning_that_is_cut_inside_a_line_is_claimed() -> None:
    text = SCRAPE * 3
    assert all(claimed_by(text[:cut]) == ["prometheus_text"] for cut in range(len(SCRAPE) * 2, len(text)))


def test_a_long_first_line_of_an_export_is_claimed() -> None:
    line = json.dumps({"metric": {"__name__": "vllm:x", "a": 'b"}],'}, "values": [1.5] * 50_000, "timestamps": [EPOCH * 1000] * 50_000})
    assert claimed_by(line[:65536]) == ["victoriametrics_json"]
