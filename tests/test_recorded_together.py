"""The recordings with all that was left of them: log, scrapes, Prometheus exports and client records of the same run."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from analyzer import diagnose, ingest, open_trace
from analyzer.ingestion import IngestOptions
from analyzer.trace.reader import Trace

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_traces"
EXPORTS = ROOT / "tests" / "data" / "recorded_l1_bound" / "prometheus"
BENCH = ROOT / "tests" / "data" / "recorded_bench"
NAMES = sorted(p.name for p in SAMPLES.glob("recorded_*"))
PARTS = {"log": "server.log", "metrics": "metrics.prom.gz", "client": "client.jsonl.gz"}


def label(name: str) -> dict[str, Any]:
    return json.loads((SAMPLES / name / "expected.json").read_text())  # type: ignore[no-any-return]


Opened = Callable[..., Trace]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Opens the trace of some inputs; that of the same inputs is made once for all tests here."""
    known: dict[tuple[Path, ...], Trace] = {}
    with ExitStack() as stack:

        def of(*inputs: Path) -> Trace:
            if inputs not in known:
                known[inputs] = stack.enter_context(traced(tmp_path_factory.mktemp("trace"), *inputs))
            return known[inputs]

        yield of


@contextmanager
def traced(tmp_path: Path, *inputs: Path, options: IngestOptions | None = None) -> Iterator[Trace]:
    out = tmp_path / "t.kvtrace"
    ingest([str(i) for i in inputs], out, options or IngestOptions(year=2026))
    with open_trace(out) as trace:
        yield trace


def one(trace: Trace, sql: str) -> Any:
    found = trace.con.execute(sql).fetchall()
    assert len(found) == 1, found
    return found[0] if len(found[0]) > 1 else found[0][0]


@pytest.mark.parametrize("together", [False, True], ids=["metrics alone", "with log and client"])
@pytest.mark.parametrize("name", NAMES)
def test_peaks_are_those_of_the_metrics(opened: Opened, name: str, together: bool) -> None:
    parts = PARTS.values() if together else ["metrics.prom.gz"]
    truth = label(name)["truth"]
    trace = opened(*(SAMPLES / name / p for p in parts))
    peaks = diagnose(trace).peaks
    assert (peaks.running, peaks.waiting) == (truth["metrics_peaks"]["running"], truth["metrics_peaks"]["waiting"])
    assert peaks.kv_usage == pytest.approx(truth["metrics_peaks"]["kv_usage"], abs=5e-5)
    assert peaks.preemptions == truth.get("preemptions", 0)
    starts = one(trace, "SELECT count(*) FROM event WHERE kind = 'start' AND ts >= (SELECT min(first_ts) FROM series)")
    assert starts == truth["process_starts"] - 1


@pytest.mark.parametrize("name", NAMES)
def test_ttft_is_that_of_the_clients(opened: Opened, name: str) -> None:
    truth = label(name)["truth"]
    trace = opened(SAMPLES / name / "client.jsonl.gz")
    n, errors, pending = one(
        trace,
        "SELECT count(*), count(*) FILTER (WHERE status = 'error'), count(*) FILTER (WHERE status = 'unfinished') FROM request_best",
    )
    assert (n, errors, pending) == (truth["requests"], truth["errors"], truth["pending_at_end"])
    p50, p99, n = one(trace, "SELECT ttft_p50_finished_s, ttft_p99_finished_s, ttft_n FROM q01_ttft")
    assert (p50, p99, n) == pytest.approx((truth["ttft_s"]["p50"], truth["ttft_s"]["p99"], truth["ttft_s"]["n"]))


@pytest.mark.parametrize("name", NAMES)
def test_one_folder_is_one_server_on_one_clock(opened: Opened, name: str) -> None:
    trace = opened(*(SAMPLES / name / p for p in PARTS.values()))
    assert one(trace, "SELECT count(*) FROM _instance") == 1
    assert one(trace, "SELECT count(*) FROM sources WHERE instance IS NOT NULL") == 3
    assert one(trace, "SELECT count(*) FROM sources WHERE offset_s IS NOT NULL") == 0
    assert one(trace, "SELECT count(*) FROM run") == label(name)["truth"]["process_starts"]
    estimates = trace.con.execute("SELECT path, offset_estimate_s FROM sources WHERE offset_estimate_s IS NOT NULL").fetchall()
    assert all(abs(offset) < 5 for _, offset in estimates), estimates


@pytest.mark.parametrize("name", ["recorded_l1_bound", "recorded_cap_bound", "recorded_prefill_bound"])
def test_a_log_of_another_zone_is_lined_up(tmp_path: Path, name: str) -> None:
    """The log is UTC; read as if it were eight hours ahead, its signals tell where it belongs."""
    from zoneinfo import ZoneInfo

    (tmp_path / "a").mkdir()
    for part in PARTS.values():
        shutil.copy(SAMPLES / name / part, tmp_path / "a" / part)
    with traced(tmp_path, tmp_path / "a", options=IngestOptions(zone=ZoneInfo("Asia/Shanghai"), year=2026)) as trace:
        offset, source = one(trace, "SELECT offset_s, offset_from FROM sources WHERE path LIKE '%server.log'")
        assert source == "estimated"
        assert offset == pytest.approx(8 * 3600, abs=5)
        assert one(trace, "SELECT count(*) FROM _instance") == 1


def buckets_of(name: str) -> list[float]:
    """Finite bounds of the recorded TTFT histogram."""
    found = set()
    with gzip.open(SAMPLES / name / "metrics.prom.gz", "rt") as lines:
        for line in lines:
            if line.startswith("vllm:time_to_first_token_seconds_bucket"):
                found.add(float(line.split('le="')[1].split('"')[0]))
    return sorted(b for b in found if math.isfinite(b))


def test_client_scrapes_and_prometheus_agree_on_ttft_within_a_bucket(opened: Opened) -> None:
    bounds = buckets_of("recorded_l1_bound")

    def bucket(value: float) -> int:
        return sum(b < value for b in bounds)

    recorded = SAMPLES / "recorded_l1_bound"
    client = one(opened(recorded / "client.jsonl.gz"), "SELECT ttft_p50_finished_s, ttft_p99_finished_s FROM q01_ttft")
    scraped = one(opened(recorded / "metrics.prom.gz"), "SELECT p50.value, p99.value FROM _ttft_histogram WHERE span = 'all'")
    assert abs(bucket(client[0]) - bucket(scraped[0])) <= 1
    assert abs(bucket(client[1]) - bucket(scraped[1])) <= 1


def test_histogram_quantile_of_prometheus_is_ours(opened: Opened) -> None:
    """The recorded answer of a real server to histogram_quantile(0.99, rate([30s])), against ours over the same window."""
    answer = json.loads((EXPORTS / "query_range" / "expr_ttft_p99_rate30.json").read_text())
    told = {float(t): float(v) for t, v in answer["data"]["result"][0]["values"] if v != "NaN"}
    bounds = buckets_of("recorded_l1_bound")
    compared = 0
    trace = opened(EXPORTS / "tsdb_dump.txt.gz")
    for moment, value in told.items():
        sql = f"""
            WITH rise AS (
                SELECT le, sum(n) AS n FROM _latency_rise
                WHERE what = 'ttft' AND epoch(prev_ts) >= {moment - 30} AND epoch(ts) <= {moment} GROUP BY le
            ), lists AS (SELECT list(le ORDER BY le) AS le, list(n ORDER BY le) AS n FROM rise)
            SELECT _quantile(le, n, 0.99).value, n[-1] FROM lists
        """
        ours, n = one(trace, sql)
        if ours is None or n < 5:
            continue
        compared += 1
        assert abs(sum(b < ours for b in bounds) - sum(b < value for b in bounds)) <= 1, (moment, ours, value)
    assert compared >= 50


EXPORT_FORMS = {
    "scrapes": (SAMPLES / "recorded_l1_bound" / "metrics.prom.gz",),
    "query_range": (EXPORTS / "query_range",),
    "tsdb dump": (EXPORTS / "tsdb_dump.txt.gz",),
}


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_the_same_preemptions_come_out_of_each_dump(opened: Opened, form: str) -> None:
    assert diagnose(opened(*EXPORT_FORMS[form])).peaks.preemptions == 378


def test_federate_holds_only_the_last_level(tmp_path: Path) -> None:
    with traced(tmp_path, EXPORTS / "federate.prom.gz") as trace:
        found = diagnose(trace)
        assert found.peaks.preemptions is None
        assert found.verdict.cause == "insufficient_data"
        assert one(trace, "SELECT value FROM metrics WHERE name = 'preemptions_total'") == 378


def test_each_dump_gives_the_same_values(opened: Opened) -> None:
    """What the TSDB holds of a series is what query_range says at each step: the last sample at or before it."""
    key_of = "concat_ws('/', raw_name, le, labels['reason'], labels['finished_reason'])"
    values: dict[str, dict[float, float]] = {}
    for form in ("tsdb dump", "query_range"):
        con = opened(*EXPORT_FORMS[form]).con
        found = con.execute(f"SELECT {key_of}, epoch(ts), value FROM metrics WHERE value IS NOT NULL ORDER BY 2").fetchall()
        for key, ts, value in found:
            values.setdefault(f"{form}/{key}", {})[ts] = value
    compared = 0
    for key, steps in values.items():
        if key.startswith("query_range/") and f"tsdb dump/{key.partition('/')[2]}" in values:
            raw = sorted(values[f"tsdb dump/{key.partition('/')[2]}"].items())
            for step, value in steps.items():
                before = [v for t, v in raw if t <= step + 1e-6]
                if before:
                    compared += 1
                    assert before[-1] == value, (key, step)
    assert compared > 5000


def test_all_dumps_of_one_run_are_counted_once(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "recorded_l1_bound", tmp_path / "server")
    shutil.copytree(EXPORTS, tmp_path / "server" / "prometheus")
    with traced(tmp_path, tmp_path / "server") as trace:
        assert one(trace, "SELECT count(*) FROM _instance") == 1
        found = diagnose(trace)
        assert found.verdict.cause == "l1_bound"
        assert found.peaks.preemptions == 378
        assert (found.peaks.running, found.peaks.waiting) == (12, 132)


def test_a_benchmark_beside_the_scrape_after_it(tmp_path: Path) -> None:
    with traced(tmp_path, BENCH) as trace:
        assert one(trace, "SELECT count(*) FROM _instance") == 1
        n, placed = one(trace, "SELECT count(ttft_s), count(arrival_ts) FROM request_best")
        assert (n, placed) == (60, 0)
        assert diagnose(trace).verdict.cause == "insufficient_data"
