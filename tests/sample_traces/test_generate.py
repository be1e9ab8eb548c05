"""The shipped sample traces are what the generator writes, and what their labels say."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))

from sample_traces.generate import files  # noqa: E402
from sample_traces.generator.cases import CASES  # noqa: E402

SAMPLES = REPO / "sample_traces"
RECORDED = sorted(p.name for p in SAMPLES.glob("recorded_*"))
CAUSES = {
    *("crash", "restart", "hang", "unschedulable", "l1_bound", "reservation_bound", "cap_bound"),
    *("prefill_bound", "l2_bound", "transfer_bound", "decode_bound", "skew", "none", "insufficient_data"),
}
PEAKS = {"running", "waiting", "kv_usage", "retraction_events", "retracted_requests", "preemptions"}


def expected(name: str) -> dict[str, Any]:
    return json.loads((SAMPLES / name / "expected.json").read_text())


def log_text(name: str) -> str:
    return (SAMPLES / name / "server.log").read_text()


def sglang_peaks(text: str) -> dict[str, Any]:
    """Read the peaks with patterns that know nothing of the generator."""
    latest: dict[str, tuple[int, int]] = {}
    running = waiting = 0
    usage = 0.0
    retractions: dict[tuple[str, str, str], int] = {}
    for line in text.splitlines():
        if " server_args=" in line:
            latest.clear()
        dp = (re.search(r"^\[[^\]]* DP(\d+)", line) or ["", "0"])[1]
        if re.search(r"\] (Prefill|Decode) batch", line):
            fields = dict(re.findall(r"(#running-req|#queue-req|token usage): ([\d.]+)", line))
            latest[dp] = (int(fields["#running-req"]), int(fields["#queue-req"]))
            running = max(running, sum(r for r, _ in latest.values()))
            waiting = max(waiting, sum(q for _, q in latest.values()))
            usage = max(usage, float(fields["token usage"]))
        found = re.search(r"#retracted_reqs: (\d+).*#new_token_ratio: (.*)", line)
        if found:
            retractions[(dp, line[1:20], found[2])] = int(found[1])
    return {
        "running": running,
        "waiting": waiting,
        "kv_usage": usage,
        "retraction_events": len(retractions),
        "retracted_requests": sum(retractions.values()),
        "preemptions": None,
    }


def vllm_peaks(text: str) -> dict[str, Any]:
    line = re.compile(r"Running: (\d+) reqs.*?(?:Waiting|Pending): (\d+) reqs.*?[GC]PU KV cache usage: ([\d.]+)%")
    rows = [(int(m[1]), int(m[2]), float(m[3])) for m in line.finditer(text)]
    counts = re.findall(r"total_num_cumulative_preemption=(\d+)", text)
    return {
        "running": max(r for r, _, _ in rows),
        "waiting": max(w for _, w, _ in rows),
        "kv_usage": round(max(u for _, _, u in rows) / 100, 3),
        "retraction_events": None,
        "retracted_requests": None,
        "preemptions": int(counts[-1]) if counts else None,
    }


# Every model and every kind of event is in one of the first; the others are made of the same.
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if i % 3 == 0 else pytest.mark.thorough) for i, n in enumerate(CASES)])
def test_regenerating_gives_the_same_bytes(name: str) -> None:
    made = files(name)
    assert {p.name for p in (SAMPLES / name).iterdir()} == set(made)
    for file, data in made.items():
        kept = (SAMPLES / name / file).read_bytes()
        if file.endswith(".gz"):  # another zlib packs the same text differently
            kept, data = gzip.decompress(kept), gzip.decompress(data)
        assert kept == data, f"{name}/{file}: run python -m sample_traces.generate"


def test_packing_twice_gives_the_same_bytes() -> None:
    packed = [data for file, data in files("healthy_vllm").items() if file.endswith(".gz")]
    assert len(packed) == 2
    assert packed == [data for file, data in files("healthy_vllm").items() if file.endswith(".gz")]
    assert all(data[4:8] == bytes(4) for data in packed)  # no time stamp


@pytest.mark.parametrize("name", RECORDED)
def test_recordings_are_unchanged(name: str) -> None:
    data = (SAMPLES / name / "server.log").read_bytes()
    assert hashlib.sha256(data).hexdigest() == expected(name)["sha256"]


@pytest.mark.parametrize("name", [*CASES, *RECORDED])
def test_labels_are_complete(name: str) -> None:
    label = expected(name)
    assert set(label["peaks"]) == PEAKS
    assert label["cause"]
    assert set(label["cause"]) <= CAUSES
    assert set(label["not_expected"]) <= CAUSES - set(label["cause"])
    assert (label["year"], label["tz"]) == (2026, "UTC")
    assert label["description"].endswith(".")
    window = label["truth"]["window"]
    if window["start"] is not None:
        assert datetime.fromisoformat(window["start"]) < datetime.fromisoformat(window["end"])


@pytest.mark.parametrize("name", [*CASES, *RECORDED])
def test_peaks_are_what_the_lines_print(name: str) -> None:
    read = sglang_peaks if "sglang" in name else vllm_peaks
    assert expected(name)["peaks"] == read(log_text(name))


@pytest.mark.parametrize("name", CASES)
def test_logs_are_small_and_tell_no_paths(name: str) -> None:
    data = (SAMPLES / name / "server.log").read_bytes()
    assert len(data) < 400_000
    assert not re.search(rb"/(home|root|work|tmp|opt|usr)/", data)


@pytest.mark.parametrize("name", [n for n in CASES if "sglang" in n])
def test_sglang_times_do_not_run_backwards(name: str) -> None:
    times = re.findall(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", log_text(name), re.M)
    assert times == sorted(times)


def test_v1_log_is_silent_about_preemptions() -> None:
    assert expected("l1_bound_vllm")["truth"]["preemptions"] > 100
    assert "reempt" not in log_text("l1_bound_vllm")


def test_v0_warns_every_fiftieth_time() -> None:
    counts = re.findall(r"total_num_cumulative_preemption=(\d+)", log_text("l1_bound_vllm_v0"))
    assert [int(c) for c in counts] == [1 + 50 * k for k in range(len(counts))]
    assert expected("l1_bound_vllm_v0")["truth"]["preemptions"] < int(counts[-1]) + 50


def test_an_idle_vllm_prints_one_zero_line_and_then_nothing() -> None:
    stats = [s for s in log_text("healthy_vllm").splitlines() if "Engine 000" in s]
    zero = [n for n, s in enumerate(stats) if " 0.0 tokens/s, Avg generation throughput: 0.0 " in s]
    assert zero
    assert all(b - a > 1 for a, b in pairwise(zero))
    clock = re.findall(r" (\d\d):(\d\d):(\d\d) \[", "\n".join(stats))
    times = [int(h) * 3600 + int(m) * 60 + int(s) for h, m, s in clock]
    assert max(b - a for a, b in pairwise(times)) > 30


def test_retractions_are_printed_by_every_tp_rank() -> None:
    lines = [s for s in log_text("l1_bound_sglang").splitlines() if "Retract requests" in s]
    assert sum(" TP0]" in s for s in lines) == sum(" TP1]" in s for s in lines) == len(lines) / 2
    ranks = {m[1] for s in log_text("dp_sglang").splitlines() if (m := re.search(r" (DP\d TP\d)\].*Retract", s))}
    assert ranks == {"DP0 TP0", "DP0 TP1", "DP1 TP0", "DP1 TP1"}


def test_the_title_case_shows_what_its_title_says() -> None:
    truth = expected("l1_bound_sglang")["truth"]
    assert 1.5 < truth["ttft_before_load_s"]["p99"] < 2.5
    assert 35 < truth["ttft_in_window_s"]["p99"] < 50
    assert truth["l2_used_share_max"] < 0.5


def test_the_hang_leaves_work_behind() -> None:
    text = log_text("hang_sglang")
    last = re.findall(r".* batch, .*", text)[-1]
    assert int(re.search(r"#running-req: (\d+)", last)[1]) > 0  # type: ignore[index]
    assert int(re.search(r"#queue-req: (\d+)", last)[1]) > 0  # type: ignore[index]
    hang = expected("hang_sglang")["truth"]["hang"]
    silent = datetime.fromisoformat(hang["end"]) - datetime.fromisoformat(hang["start"])
    assert silent.total_seconds() > 300
    assert "watchdog timeout" in text.splitlines()[-3]


def test_capacity_differs_after_the_restart() -> None:
    found = re.findall(r"max_total_num_tokens=(\d+)", log_text("restart_sglang"))
    assert [int(x) for x in found] == expected("restart_sglang")["truth"]["capacity_tokens"]
    assert "SIGTERM" not in log_text("restart_sglang")
