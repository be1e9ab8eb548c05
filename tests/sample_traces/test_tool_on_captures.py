"""The tool on the generated captures: metrics alone, clients alone, and all three inputs of a case together."""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from analyzer import diagnose, ingest, open_trace
from analyzer.diagnosis.model import Diagnosis
from analyzer.ingestion import IngestOptions

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NAMES = sorted(p.parent.name for p in SAMPLES.glob("*/client.jsonl.gz") if not p.parent.name.startswith("recorded_"))
LEVELS = ("low", "medium", "high")
QUERIES = {
    "instances": "SELECT count(*) FROM _instance",
    "offsets": "SELECT count(*) FROM sources WHERE offset_s IS NOT NULL",
    "estimates": "SELECT coalesce(max(abs(offset_estimate_s)), 0) FROM sources",
    "runs": "SELECT count(*) FROM run",
    "ttft": "SELECT ttft_p50_finished_s, ttft_p99_finished_s, ttft_n FROM q01_ttft",
    "requests": "SELECT count(*), count(*) FILTER (WHERE status = 'error') FROM request_best",
    "histogram": "SELECT p50.value, p99.value, n FROM _ttft_histogram WHERE span = 'all'",
    "l1": "SELECT used_tokens_max, evictable_at_max_tokens, available_at_max_tokens, capacity_tokens FROM q03_l1_full",
    "l2": "SELECT used_share_max FROM q08_l2",
    "off_capacity": "SELECT max(abs(l1_used_tokens + l1_evictable_tokens + l1_available_tokens - l1_capacity_tokens)) FROM timeline",
    "ranks": "SELECT count(DISTINCT dp) FROM _report",
}


@dataclass(frozen=True)
class Found:
    """What the tool made of some inputs: the diagnosis, and the first row of each query."""

    diagnosis: Diagnosis
    rows: dict[str, tuple[Any, ...]]


Reader = Callable[..., Found]


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Reads each combination of a case's files once."""
    known: dict[tuple[str, ...], Found] = {}

    def found(name: str, *patterns: str) -> Found:
        if (name, *patterns) not in known:
            inputs = [str(p) for pattern in patterns for p in sorted((SAMPLES / name).glob(pattern))]
            assert len(inputs) == len(patterns)
            out = tmp_path_factory.mktemp(name) / "t.kvtrace"
            ingest(inputs, out, IngestOptions(year=2026))
            with open_trace(out) as trace:
                rows = {key: trace.con.execute(sql).fetchone() or () for key, sql in QUERIES.items()}
                known[(name, *patterns)] = Found(diagnose(trace), rows)
        return known[(name, *patterns)]

    return found


EVERY_DAY = ("l1_bound_sglang", "l1_bound_vllm", "cap_bound_sglang", "dp_sglang", "restart_sglang", "prefill_bound_vllm")


def each(names: Iterable[str]) -> list[Any]:
    """The cases as parameters; those beside EVERY_DAY show more of the same."""
    return [pytest.param(name, marks=[] if name in EVERY_DAY else pytest.mark.thorough) for name in names]


ALL = ("server.log", "metrics.*", "client.*")


def expected(name: str) -> dict[str, Any]:
    return json.loads((SAMPLES / name / "expected.json").read_text())  # type: ignore[no-any-return]


def ttft_bounds(name: str) -> list[float]:
    (path,) = (SAMPLES / name).glob("metrics.*")
    with gzip.open(path, "rt") as file:
        text = file.read()
    if path.suffixes[0] == ".csv":
        columns = text.splitlines()[0].split(",")
        le = columns.index("le")
        bounds = {row.split(",")[le] for row in text.splitlines() if "time_to_first_token_seconds_bucket" in row}
    elif path.suffixes[0] == ".json":
        series = [s["metric"] for s in json.loads(text)["data"]["result"]]
        bounds = {m["le"] for m in series if m["__name__"].endswith("time_to_first_token_seconds_bucket")}
    else:
        bounds = set(re.findall(r'time_to_first_token_seconds_bucket\{.*?le="([^"]+)"', text))
    return sorted(float(b) for b in bounds - {"+Inf"})


@pytest.mark.parametrize("name", each(NAMES))
def test_metrics_alone_show_their_peaks_and_counters(read: Reader, name: str) -> None:
    told, found = expected(name)["truth"]["metrics"], read(name, "metrics.*")
    peaks = found.diagnosis.peaks
    assert (peaks.running, peaks.waiting) == (told["peaks"]["running"], told["peaks"]["waiting"])
    assert peaks.kv_usage == pytest.approx(told["peaks"]["kv_usage"], abs=1e-6)
    assert peaks.retracted_requests == told["retracted_requests"]
    assert peaks.preemptions == told["preemptions"]
    assert peaks.retraction_events is None  # no metric tells events
    assert found.rows["instances"] == (1,)


@pytest.mark.parametrize("name", each(NAMES))
def test_metrics_alone_never_give_a_wrong_cause_with_confidence(read: Reader, name: str) -> None:
    label, verdict = expected(name), read(name, "metrics.*").diagnosis.verdict
    assert verdict.cause in (*label["cause"], "insufficient_data") or verdict.confidence == "low", verdict.sentence


# The cap and what clients reserve are not exported, and a crash is a line; a hang is hidden by a gauge that goes on.
NEED_THE_LOG = ("cap_bound_sglang", "cap_bound_vllm", "reservation_bound_sglang", "crash_vllm", "hang_sglang")


@pytest.mark.parametrize("name", each(n for n in NAMES if n not in NEED_THE_LOG))
def test_metrics_alone_are_enough_where_no_argument_is_needed(read: Reader, name: str) -> None:
    assert read(name, "metrics.*").diagnosis.verdict.cause == expected(name)["cause"][0]


@pytest.mark.parametrize("name", each(NAMES))
def test_ttft_of_the_histogram_is_within_a_bucket_of_the_clients(read: Reader, name: str) -> None:
    told, bounds = expected(name)["truth"]["clients"], ttft_bounds(name)
    p50, p99, n = read(name, "metrics.*").rows["histogram"]
    for scraped, client in ((p50, told["ttft_s"]["p50"]), (p99, told["ttft_s"]["p99"])):
        assert abs(bisect_left(bounds, scraped) - bisect_left(bounds, client)) <= 1, (scraped, client)
    # what was there at the first look may be from before the capture
    assert told["ttft_s"]["n"] - 4 <= n <= told["ttft_s"]["n"]


@pytest.mark.parametrize("name", each(n for n in NAMES if expected(n)["truth"]["metrics"]["l1_at_peak"]))
def test_the_three_states_of_l1_add_up(read: Reader, name: str) -> None:
    told, rows = expected(name)["truth"]["metrics"]["l1_at_peak"], read(name, "metrics.*").rows
    used, evictable, available, capacity = rows["l1"]
    assert (used, evictable, available) == (told["used"], told["evictable"], told["available"])
    assert used + evictable + available == capacity
    assert rows["off_capacity"] == (0,)


def test_l2_has_room_while_l1_is_full(read: Reader) -> None:
    told = expected("l1_bound_sglang")["truth"]["metrics"]["l2_used_share_max"]
    for patterns in (("metrics.*",), ALL):
        assert read("l1_bound_sglang", *patterns).rows["l2"] == pytest.approx((told,), abs=1e-4)
    assert told < 0.25


def test_ranks_are_told_apart_and_priorities_are_not_added(read: Reader) -> None:
    assert read("dp_sglang", "metrics.*").rows["ranks"] == (2,)
    assert read("cap_bound_sglang", "metrics.*").rows["ranks"] == (1,)


def test_counters_that_stand_still_with_work_in_hand_are_a_hang(tmp_path: Path) -> None:
    with gzip.open(SAMPLES / "hang_sglang" / "metrics.prom.gz", "rt") as file:
        counters = [line for line in file if "gen_throughput" not in line]  # a gauge that shows its last value for ever
    (tmp_path / "metrics.prom").write_text("".join(counters))
    ingest([str(tmp_path / "metrics.prom")], tmp_path / "t.kvtrace")
    with open_trace(tmp_path / "t.kvtrace") as trace:
        verdict = diagnose(trace).verdict
    # low: a request that can never fit at the head of the queue would look the same
    assert (verdict.cause, verdict.confidence) == ("hang", "low")
    assert "24 running and up to 26 waiting" in verdict.sentence


def test_metrics_that_end_with_work_in_hand_are_no_all_clear(read: Reader) -> None:
    verdict = read("crash_vllm", "metrics.*").diagnosis.verdict
    assert (verdict.cause, verdict.confidence) == ("none", "low")
    assert "only a log would show a crash" in verdict.sentence


def test_a_counter_that_falls_is_a_new_process(read: Reader) -> None:
    assert read("restart_sglang", "metrics.*").rows["runs"] == (2,)
    assert read("healthy_sglang", "metrics.*").rows["runs"] == (1,)


@pytest.mark.parametrize("name", each(NAMES))
def test_clients_alone_give_ttft_and_no_cause(read: Reader, name: str) -> None:
    told, found = expected(name)["truth"]["clients"], read(name, "client.*")
    p50, p99, n = found.rows["ttft"]
    assert (p50, p99) == pytest.approx((told["ttft_s"]["p50"], told["ttft_s"]["p99"]))
    assert n == told["ttft_s"]["n"]
    assert found.rows["requests"] == (told["finished"] + told["errors"], told["errors"])
    assert (found.diagnosis.verdict.cause, found.diagnosis.verdict.confidence) == ("insufficient_data", "low")


@pytest.mark.parametrize("name", each(NAMES))
def test_together_they_are_one_server_on_one_clock(read: Reader, name: str) -> None:
    rows = read(name, *ALL).rows
    assert rows["instances"] == (1,)
    assert rows["offsets"] == (0,)
    assert rows["estimates"][0] < 5
    assert rows["runs"] == (2 if name == "restart_sglang" else 1,)


@pytest.mark.parametrize("name", each(NAMES))
def test_together_they_say_what_the_log_says_and_are_no_less_sure(read: Reader, name: str) -> None:
    label, alone, together = expected(name), read(name, "server.log").diagnosis, read(name, *ALL).diagnosis
    assert alone.verdict.cause == together.verdict.cause == label["cause"][0]
    assert LEVELS.index(together.verdict.confidence) >= LEVELS.index(alone.verdict.confidence)
    assert not {f.cause for f in together.findings} & set(label["not_expected"])


@pytest.mark.parametrize("name", each(NAMES))
def test_together_their_peaks_are_between_those_of_scrapes_and_lines(read: Reader, name: str) -> None:
    label, peaks = expected(name), read(name, *ALL).diagnosis.peaks
    for key in ("running", "waiting", "kv_usage"):
        lines, scraped = label["peaks"][key], label["truth"]["metrics"]["peaks"][key]
        assert min(lines, scraped) - 0.005 <= getattr(peaks, key) <= max(lines, scraped) + 0.005, key
    assert peaks.retracted_requests == label["peaks"]["retracted_requests"]
    assert peaks.preemptions == label["truth"]["metrics"]["preemptions"]
