"""The scrapes and client records beside the generated logs: what they hold, read without the generator."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))

from sample_traces.generator.cases import CASES  # noqa: E402

SAMPLES = REPO / "sample_traces"
CAPTURED = [n for n in CASES if (SAMPLES / n / "client.jsonl.gz").exists()]
BROKEN = ("restart_sglang", "hang_sglang", "crash_vllm")  # not all requests got an answer
KEYS = {
    *("id", "send", "ttft", "e2e", "prompt_tokens", "requested_output_tokens"),
    *("output_tokens", "error", "pending", "server"),
}
Labels = tuple[tuple[str, str], ...]
Scrape = dict[tuple[str, Labels], float]


def expected(name: str) -> dict[str, Any]:
    return json.loads((SAMPLES / name / "expected.json").read_text())


def metrics_file(name: str) -> Path:
    (found,) = (SAMPLES / name).glob("metrics.*")
    return found


def clients(name: str) -> list[dict[str, Any]]:
    with gzip.open(SAMPLES / name / "client.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def from_text(text: str) -> dict[float, Scrape]:
    found: dict[float, Scrape] = {}
    for line in text.splitlines():
        if line.startswith("# scrape_ts "):
            scrape = found.setdefault(float(line.split()[-1]), {})
        elif not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            name, _, inside = series.partition("{")
            scrape[(name, tuple(re.findall(r'(\w+)="([^"]*)"', inside)))] = float(value)
    return {ts: scrape for ts, scrape in found.items() if scrape}


def from_csv(text: str) -> dict[float, Scrape]:
    found: dict[float, Scrape] = defaultdict(dict)
    for row in csv.DictReader(text.splitlines()):
        ts, name, value = (row.pop(k) for k in ("timestamp", "metric", "value"))
        found[float(ts)][(name, tuple((k, v) for k, v in sorted(row.items()) if v))] = float(value)
    return found


def from_api(text: str) -> dict[float, Scrape]:
    found: dict[float, Scrape] = defaultdict(dict)
    for series in json.loads(text)["data"]["result"]:
        labels = series["metric"]
        key = (labels.pop("__name__"), tuple(sorted(labels.items())))
        for ts, value in series["values"]:
            found[ts][key] = float(value)
    return dict(sorted(found.items()))


def scrapes(name: str) -> list[Scrape]:
    path = metrics_file(name)
    read = {".prom.gz": from_text, ".csv.gz": from_csv, ".json.gz": from_api}["".join(path.suffixes)]
    with gzip.open(path, "rt") as file:
        return list(read(file.read()).values())


def values(scrape: Scrape, name: str) -> list[float]:
    """All series of a name; where there are some by priority, only the one for all."""
    return [v for (n, labels), v in scrape.items() if n == name and not dict(labels).get("priority")]


def test_the_cases_asked_for_have_both_files() -> None:
    assert set(CASES) - set(CAPTURED) == {"l1_bound_vllm_v0"}


@pytest.mark.parametrize("name", CAPTURED)
def test_peaks_and_counters_are_what_the_scrapes_hold(name: str) -> None:
    told, seen = expected(name)["truth"]["metrics"], scrapes(name)
    engine = "sglang" if "sglang" in name else "vllm"
    running, waiting, usage = {
        "sglang": ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
        "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
    }[engine]
    assert len(seen) == told["scrapes"]
    assert max(sum(values(s, running)) for s in seen) == told["peaks"]["running"]
    assert max(sum(values(s, waiting)) for s in seen) == told["peaks"]["waiting"]
    assert max(max(values(s, usage)) for s in seen) == pytest.approx(told["peaks"]["kv_usage"], abs=1e-6)
    for key, counter in (("retracted_requests", "sglang:num_retracted_requests_total"), ("preemptions", "vllm:num_preemptions_total")):
        assert (sum(values(seen[-1], counter)) if values(seen[-1], counter) else None) == told[key]


@pytest.mark.parametrize("name", CAPTURED)
def test_counters_end_at_the_truth(name: str) -> None:
    truth = expected(name)["truth"]
    if truth["metrics"]["preemptions"] is not None:
        assert truth["metrics"]["preemptions"] == truth["preemptions"]  # all victims came back in the end
    if truth["metrics"]["retracted_requests"] is not None:
        assert truth["metrics"]["retracted_requests"] == truth["retractions"]


@pytest.mark.parametrize("name", CAPTURED)
def test_clients_are_what_the_truth_says(name: str) -> None:
    truth, records = expected(name)["truth"], clients(name)
    assert all(set(r) == KEYS for r in records)
    done = sorted(r["ttft"] for r in records if r["ttft"] is not None)
    told = truth["clients"]
    assert len(done) == told["ttft_s"]["n"]
    assert sum(r["error"] is None and not r["pending"] for r in records) == told["finished"]
    assert sum(r["error"] is not None for r in records) == told["errors"]
    for key, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert told["ttft_s"][key] == done[min(len(done) - 1, int(len(done) * share))]
    if name not in BROKEN:
        assert told["finished"] == truth["requests"]
        assert told["ttft_s"]["p99"] == pytest.approx(truth["ttft_s"]["p99"], abs=0.001)
    assert all(r["e2e"] >= r["ttft"] > 0 for r in records if r["error"] is None)


@pytest.mark.parametrize("name", [n for n in CAPTURED if expected(n)["truth"]["metrics"]["l1_at_peak"]])
def test_three_states_add_up_to_the_capacity_in_every_scrape(name: str) -> None:
    for scrape in scrapes(name):
        (capacity,) = values(scrape, "sglang:max_total_num_tokens")
        (used,) = values(scrape, "sglang:kv_used_tokens")
        (evictable,) = values(scrape, "sglang:kv_evictable_tokens")
        (available,) = values(scrape, "sglang:kv_available_tokens")
        (usage,) = values(scrape, "sglang:token_usage")
        assert used + evictable + available == capacity
        assert usage == round(used / capacity, 2)


@pytest.mark.parametrize("name", CAPTURED)
def test_histograms_are_cumulative_and_count_all_requests(name: str) -> None:
    (last,) = scrapes(name)[-1:]
    family = "sglang:time_to_first_token_seconds" if "sglang" in name else "vllm:time_to_first_token_seconds"
    buckets = sorted((float(dict(labels)["le"]), v) for (n, labels), v in last.items() if n == f"{family}_bucket")
    assert [v for _, v in buckets] == sorted(v for _, v in buckets)
    (count,) = values(last, f"{family}_count")
    assert buckets[-1] == (float("inf"), count)
    done = [r["ttft"] for r in clients(name) if r["ttft"] is not None]
    if name not in BROKEN:
        assert count == len(done)
        # the client's times are rounded to 0.1 ms, so a value next to a bound may be on its other side
        for bound, below in buckets:
            assert sum(t <= bound - 1e-4 for t in done) <= below <= sum(t <= bound + 1e-4 for t in done)


def test_a_retraction_counter_has_no_series_before_its_first_event() -> None:
    seen = [values(s, "sglang:num_retracted_requests_total") for s in scrapes("l1_bound_sglang")]
    assert seen[0] == []
    assert next(v for v in seen if v) in ([1.0], [2.0])
    gauge = [values(s, "sglang:num_retracted_reqs")[0] for s in scrapes("l1_bound_sglang")]
    assert 0 < sum(gauge) < seen[-1][0]  # it is overwritten: most events fall between two scrapes


def test_a_vllm_preemption_is_counted_when_the_victim_is_back() -> None:
    counted = [values(s, "vllm:num_preemptions_total")[0] for s in scrapes("l1_bound_vllm")]
    assert counted[0] == 0
    assert counted == sorted(counted)


def test_old_versions_export_what_they_had() -> None:
    names = {n for n, _ in scrapes("dp_sglang")[-1]}
    assert "sglang:num_retracted_reqs" in names
    assert not names & {"sglang:max_total_num_tokens", "sglang:kv_used_tokens", "sglang:num_retracted_requests_total"}
    assert any(v % 0.01 > 1e-9 for s in scrapes("dp_sglang") for v in values(s, "sglang:token_usage"))  # not rounded
    oldest = {n for n, _ in scrapes("restart_sglang")[-1]}
    assert not oldest & {"sglang:queue_time_seconds_count", "sglang:num_retracted_reqs"}


def test_ranks_and_priorities_are_labels() -> None:
    labels = [dict(key) for n, key in scrapes("dp_sglang")[0] if n == "sglang:num_running_reqs"]
    assert [(x["dp_rank"], x["tp_rank"]) for x in labels] == [("0", "0"), ("1", "0")]
    for scrape in scrapes("cap_bound_sglang"):
        queues = {dict(key)["priority"]: v for (n, key), v in scrape.items() if n == "sglang:num_queue_reqs"}
        assert queues[""] == queues["0"] + queues["10"]


def test_nobody_answers_between_two_processes() -> None:
    with gzip.open(metrics_file("restart_sglang"), "rt") as file:
        text = file.read()
    assert 15 < text.count("# scrape_failed") < 25
    finished = [sum(values(s, "sglang:num_requests_total")) for s in scrapes("restart_sglang")]
    assert any(b < a for a, b in pairwise(finished))
    errors = [r for r in clients("restart_sglang") if r["error"]]
    assert {r["error"] for r in errors} == {"connection lost", "connection refused"}


def test_a_hung_scheduler_is_still_scraped_and_tells_the_same_again_and_again() -> None:
    seen = scrapes("hang_sglang")
    assert seen[-1] == seen[-60]
    assert sum(values(seen[-1], "sglang:num_queue_reqs")) > 0
    assert {r["error"] for r in clients("hang_sglang") if r["ttft"] is None} == {"connection lost"}


def test_nobody_answers_after_the_crash() -> None:
    with gzip.open(metrics_file("crash_vllm"), "rt") as file:
        tail = file.read().rsplit("vllm:", 1)[1]
    assert tail.count("# scrape_failed") == 8
    assert {r["error"] for r in clients("crash_vllm") if r["error"]} == {"connection lost", "HTTP 500", "connection refused"}


def test_captures_are_small() -> None:
    sizes = {n: sum(f.stat().st_size for f in (SAMPLES / n).glob("*.gz")) for n in CAPTURED}
    assert sizes["l1_bound_sglang"] < 150_000
    assert sum(sizes.values()) < 2_000_000
