"""The report of real traces: the views have what it reads, and what metrics and records tell gets on the page."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analyzer import diagnose, ingest, open_trace
from analyzer.diagnosis.model import Diagnosis
from analyzer.report.charts import Panel
from analyzer.report.data import build_report
from analyzer.report.model import ReportData
from analyzer.report.render import render_html

ROOT = Path(__file__).resolve().parents[2]
NBSP = "\u00a0"
START_MS = 1_796_022_000_000
LABELS = 'model_name="made-up",tp_rank="0",pp_rank="0",dp_rank="0"'
POOL = 200_000
HOST = 400_000


def exposition(scrapes: int = 30) -> str:
    """SGLang 0.5.23, scraped every five seconds: the pool fills up, requests are retracted, L2 loads and has room."""
    out = []
    for i in range(scrapes):
        rush = min(1.0, i / 10)
        used = round(POOL * (0.4 + 0.6 * rush))
        evictable = (POOL - used) // 2
        values = {
            "num_running_reqs": 20,
            "num_queue_reqs": round(40 * rush),
            "token_usage": used / POOL,
            "kv_used_tokens": used,
            "kv_evictable_tokens": evictable,
            "kv_available_tokens": POOL - used - evictable,
            "max_total_num_tokens": POOL,
            "hicache_host_used_tokens": HOST // 4,
            "hicache_host_total_tokens": HOST,
            "num_retracted_requests_total": 2 * max(0, i - 10),
            "load_back_tokens_total": 1000 * i,
        }
        out += [f"sglang:{name}{{{LABELS}}} {value} {START_MS + 5000 * i}" for name, value in values.items()]
        # four first tokens a scrape, the last scrapes' beyond the last bound
        within = min(i, scrapes - 5)
        for le, count in ((0.1, 0), (10.0, within * 4), (400.0, within * 4), (math.inf, i * 4)):
            bound = "+Inf" if math.isinf(le) else str(le)
            out.append(f'sglang:time_to_first_token_seconds_bucket{{{LABELS},le="{bound}"}} {count} {START_MS + 5000 * i}')
        out.append(f"sglang:time_to_first_token_seconds_count{{{LABELS}}} {i * 4} {START_MS + 5000 * i}")
    return "\n".join(out) + "\n"


def read(tmp_path: Path, *given: Path) -> tuple[ReportData, Diagnosis, str]:
    trace = tmp_path / "t.kvtrace"
    ingest([str(g) for g in given], trace)
    with open_trace(trace) as opened:
        found = diagnose(opened)
        report = build_report(opened.con, found)
    return report, found, render_html(report)


@pytest.fixture(scope="module")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReportData, Diagnosis, str]:
    folder = tmp_path_factory.mktemp("sglang")
    (folder / "metrics.prom").write_text(exposition(), encoding="utf-8")
    return read(folder, folder / "metrics.prom")


def panels(report: ReportData) -> dict[str, Panel]:
    timeline = report.instances.rows[0].timeline
    assert timeline is not None
    return {p.key: p for p in timeline.panels}


def test_three_states_add_up_and_l2_has_room(sglang: tuple[ReportData, Diagnosis, str]) -> None:
    kv = panels(sglang[0])["kv"]
    assert [s.style for s in kv.series] == ["used", "evictable", "available", "usage", "l2"]
    assert f"add up to the pool's 200,000{NBSP}tokens" in kv.note
    used, evictable, _, _, l2 = kv.series
    assert used.peak == 1.0
    first = evictable.segments[0].points[0]
    assert (first[1], first[2]) == (pytest.approx(0.4), pytest.approx(0.7))
    assert l2.peak == pytest.approx(0.25)


def test_histograms_are_named_with_their_bounds(sglang: tuple[ReportData, Diagnosis, str]) -> None:
    ttft = panels(sglang[0])["ttft"]
    band = ttft.series[0]
    assert band.band
    assert [len(band.segments), band.segments[0].points[0][1:]] == [1, (0.1, 10.0)]
    assert math.isinf(band.segments[0].points[-1][2])
    for said in ("From histograms of 116 first tokens", "beyond the last bound, 6", "The lowest bound is 100"):
        assert said in ttft.note


def test_counters_are_drawn_and_named(sglang: tuple[ReportData, Diagnosis, str]) -> None:
    timeline = sglang[0].instances.rows[0].timeline
    assert timeline is not None
    lanes = {lane.key: lane for lane in timeline.lanes}
    assert lanes["retracted"].summary.startswith(f"38{NBSP}requests")
    assert lanes["loaded"].summary.startswith(f"29,000{NBSP}tokens")
    assert all("counters in the metrics" in lanes[key].note for key in ("retracted", "loaded"))


def test_facts_and_inputs_name_metrics(sglang: tuple[ReportData, Diagnosis, str]) -> None:
    report, _, html = sglang
    facts = {f.key: f for f in report.facts.rows[0].facts.rows}
    assert facts["kv_capacity_tokens"].metric == "sglang:max_total_num_tokens"
    assert report.sources.rows[0].read_as == "Prometheus text scrapes, sglang"
    assert report.sources.rows[0].gave.endswith(" samples")
    assert "samples in 16 series" in html
    assert "metric <code>sglang:max_total_num_tokens</code>" in html


def test_log_scrapes_and_client_records_together(tmp_path: Path) -> None:
    folder = ROOT / "sample_traces" / "recorded_l1_bound"
    report, _, html = read(tmp_path, folder / "client.jsonl.gz", folder / "metrics.prom.gz", folder / "server.log")
    instance = report.instances.rows[0]
    near = instance.closeup
    assert near is not None
    notes = {p.key: p.note for p in near.panels}
    assert notes["ttft"].startswith("Exact, of 238 requests by the time of their arrival, from client records. 45 requests that arrived")
    assert "Read from the metrics (110 reports). Read from the log (6 reports)" in notes["requests"]
    assert "vLLM tells it nowhere." in notes["kv"]
    lanes = {lane.key: lane for lane in near.lanes}
    assert lanes["preempted"].note.startswith("Counted by counters in the metrics. A counter lags")
    assert lanes["pending"].summary.startswith(f"45{NBSP}requests")
    assert [s.gave.split(" ")[1] for s in report.sources.rows] == ["requests", "samples", "lines"]
    assert "against metrics.prom.gz" in html


def test_label_values_stay_text(tmp_path: Path) -> None:
    bad = "</td><script>alert(1)</script>" + "x" * 400
    (tmp_path / "metrics.prom").write_text(exposition(8).replace("made-up", bad), encoding="utf-8")
    _, _, html = read(tmp_path, tmp_path / "metrics.prom")
    assert "<script>alert" not in html
