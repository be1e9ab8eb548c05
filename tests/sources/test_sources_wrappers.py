"""Collectors' envelopes: each alone around each engine's lines, stacked, and what is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from one_by_one import read_records

from analyzer.formats.match import match_line
from analyzer.sources.pieces import LineCounts
from analyzer.sources.wrappers import unwrap

LINES = {
    "sglang": "[2026-01-02 03:04:05 DP1 TP0] Decode batch, #running-req: 24, token usage: 0.62, #queue-req: 3",
    "vllm": "(APIServer pid=77) INFO 01-02 03:04:05 [loggers.py:338] Engine 001: Avg prompt throughput: 1.0 tokens/s, "
    "Avg generation throughput: 1.0 tokens/s, Running: 24 reqs, Waiting: 3 reqs, GPU KV cache usage: 62.0%",
    "vllm_core": "(EngineCore_DP1 pid=123) INFO 01-02 03:04:05 [core.py:359] Iteration(1041): 2 context requests, 4096 context tokens, "
    "24 generation requests, 24 generation tokens, iteration elapsed time: 41.22 ms",
    "lmcache": "\x1b[32;20m[2026-11-30 05:55:58,123] LMCache INFO:\x1b[0m Reqid: a, Total tokens 4096, LMCache hit tokens: 2048, "
    "need to load: 1024 \x1b[3m(vllm_v1_adapter.py:1330:lmcache)\x1b[0m",
}
OUTER = datetime(2026, 1, 2, 11, 4, 6, tzinfo=UTC)
EPOCH = int(OUTER.timestamp())
Wrap = Callable[[str], str]
WRAPPERS: dict[str, tuple[Wrap, str]] = {
    "docker": (lambda s: f"2026-01-02T11:04:06.000000000Z {s}", ""),
    "docker-zone": (lambda s: f"2026-01-02T19:04:06.000+08:00 {s}", ""),
    "docker-json": (lambda s: json.dumps({"log": s + "\n", "stream": "stderr", "time": "2026-01-02T11:04:06.000000000Z"}), ""),
    "fluent-json": (lambda s: json.dumps({"log": s, "time": "2026-01-02T11:04:06Z", "kubernetes": {"pod_name": "p-0"}}), "p-0"),
    "cri": (lambda s: f"2026-01-02T11:04:06.000000000Z stderr F {s}", ""),
    "kubectl": (lambda s: f"[pod/p-0/engine] 2026-01-02T11:04:06.000000000Z {s}", "p-0"),
    "journald": (lambda s: f"2026-01-02T11:04:06+0000 gpu-1 python[42]: {s}", "gpu-1"),
    "journald-json": (lambda s: json.dumps({"__REALTIME_TIMESTAMP": f"{EPOCH}000000", "_HOSTNAME": "gpu-1", "MESSAGE": s}), "gpu-1"),
    "journald-bytes": (
        lambda s: json.dumps({"__REALTIME_TIMESTAMP": f"{EPOCH}000000", "_HOSTNAME": "g", "MESSAGE": list(s.encode())}),
        "g",
    ),
    "logcli": (lambda s: f'2026-01-02T11:04:06Z {{app="x", pod="p-0"}} {s}', "p-0"),
    "loki-json": (lambda s: json.dumps({"labels": {"pod": "p-0"}, "line": s, "timestamp": "2026-01-02T11:04:06Z"}), "p-0"),
    "gcp": (lambda s: json.dumps({"textPayload": s, "timestamp": "2026-01-02T11:04:06Z", "resource": {"type": "k8s"}}), ""),
}
TIMELESS: dict[str, tuple[Wrap, str]] = {
    "kubectl-prefix": (lambda s: f"[pod/p-0/engine] {s}", "p-0"),
    "ray": (lambda s: f"(SGLangEngine pid=1, ip=10.0.0.7) {s}", "10.0.0.7"),
    "ray-repeated": (lambda s: f"(SGLangEngine pid=1, ip=10.0.0.7) {s} [repeated 3x across cluster]", "10.0.0.7"),
    "ray-local": (lambda s: f"(ServeReplica:app pid=1) {s}", ""),
    "compose": (lambda s: f"engine-1  | {s}", "engine-1"),
    "journald-short": (lambda s: f"Jan  2 11:04:06 gpu-1 python[42]: {s}", "gpu-1"),
    "none": (lambda s: s, ""),
    "crlf": (lambda s: s + "\r", ""),
}


def the_record(line: str):
    counts = LineCounts()
    (record,) = read_records(line + "\n", counts)
    assert counts.matched == 1
    return record


@pytest.mark.parametrize("engine", LINES)
@pytest.mark.parametrize("wrapper", [*WRAPPERS, *TIMELESS])
def test_each_envelope_around_each_engine(wrapper: str, engine: str) -> None:
    wrap, origin = (WRAPPERS | TIMELESS)[wrapper]
    bare, got = the_record(LINES[engine]), the_record(wrap(LINES[engine]))
    assert got.match.parsed.values == bare.match.parsed.values
    assert got.match.head.ranks == bare.match.head.ranks
    assert got.match.head.stamp == bare.match.head.stamp
    assert got.origin == origin
    if wrapper in WRAPPERS:
        assert got.outer == OUTER
    if wrapper == "journald-short":
        assert got.outer_naive == datetime(1904, 1, 2, 11, 4, 6)


# nobody logs the journal to the journal
TWO = [(o, i) for o in WRAPPERS for i in TIMELESS if not (o.startswith("journald") and i.startswith("journald"))]


@pytest.mark.parametrize("engine", LINES)
@pytest.mark.parametrize(("outer", "inner"), TWO)
def test_two_envelopes(outer: str, inner: str, engine: str) -> None:
    (out, origin), (into, inner_origin) = WRAPPERS[outer], TIMELESS[inner]
    got = the_record(out(into(LINES[engine])))
    assert got.match.parsed.values == the_record(LINES[engine]).match.parsed.values
    assert got.outer == OUTER
    assert got.origin == origin or inner_origin


def test_kubectl_over_cri_over_ray() -> None:
    line = f"[pod/p-0/c] 2026-01-02T11:04:06.5Z stdout F (Engine pid=7, ip=10.0.0.7) {LINES['sglang']}"
    got = unwrap(line)
    assert (got.wrappers, got.origin, got.text) == (["kubectl", "docker", "ray"], "p-0", LINES["sglang"])


def test_an_engines_own_process_tag_is_no_envelope() -> None:
    for line in (LINES["vllm"], LINES["vllm_core"], "(EngineCore_DP0 pid=123) Traceback (most recent call last):"):
        assert unwrap(line).wrappers == []


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1}', '{"message": 5}', '{"message": ["x"]}', '{"message": [300]}', "{", "{}", '{"log": null}', "[x] y", "(x) y", "a | b",
        '{"message": ' + "[" * 100_000 + '"}"}', '{"message": "x", "time": ' + "9" * 400 + "}", '{"message": "x", "ts": 1e400}',
        '{"message": "x", "time": true, "labels": 5, "pod": 7}', '{"message": "\\ud800", "pod": "\\ud800"}',
    ],
)  # fmt: skip
def test_odd_lines_are_survived(line: str) -> None:
    got = unwrap(line)
    assert got.outer is None
    got.origin.encode()


def test_a_long_line_in_parts_is_one() -> None:
    line = LINES["sglang"]
    text = (
        f"2026-01-02T11:04:06Z stderr P {line[:40]}\n"
        f"2026-01-02T11:04:06Z stdout P {LINES['vllm'][:30]}\n"
        f"2026-01-02T11:04:06Z stderr P {line[40:60]}\n"
        f"2026-01-02T11:04:06Z stdout F {LINES['vllm'][30:]}\n"
        f"2026-01-02T11:04:06Z stderr F {line[60:]}\n"
    )
    counts = LineCounts()
    got = read_records(text, counts)
    assert [(r.match.head.engine, r.line) for r in got] == [("vllm", 2), ("sglang", 1)]
    assert (counts.lines, counts.matched, counts.other) == (5, 5, 0)
    counts = LineCounts()
    read_records(text[: text.index("stdout F")], counts)
    assert counts.lines == counts.matched + counts.other + counts.unmatched + counts.ignored


def test_dockers_pieces_of_16_kib() -> None:
    long = LINES["sglang"][:-3] + ", #shiny-req: 5" * 2000
    parts = [long[at : at + 16384] for at in range(0, len(long), 16384)]
    lines = [json.dumps({"log": p, "stream": "stderr", "time": "2026-01-02T11:04:06Z"}) for p in parts[:-1]]
    lines.append(json.dumps({"log": parts[-1] + "\n", "stream": "stderr", "time": "2026-01-02T11:04:06Z"}))
    counts = LineCounts()
    (record,) = read_records("\n".join(lines) + "\n", counts)
    assert record.match.parsed.values["running"] == 24
    assert counts.matched == len(parts) == 2


def test_collectors_that_drop_the_newline_do_not_glue_lines() -> None:
    wrap, _ = WRAPPERS["fluent-json"]
    counts = LineCounts()
    assert len(read_records((wrap(LINES["sglang"]) + "\n") * 5, counts)) == 5


def test_the_collector_is_kept_apart_from_the_message() -> None:
    got = unwrap(WRAPPERS["logcli"][0]("hello"))
    assert (got.text, got.wrappers) == ("hello", ["loki"])
    assert match_line(got.text).parsed is None
