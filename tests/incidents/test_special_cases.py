"""The special cases are what their labels say: the lever takes the trouble away, and nothing else does; and all lines are read."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest
from incident import Incident, split_of
from special import incidents, scenes
from special_cases_other import skewed
from special_figures import FIGURES
from special_scene import Scene, relief, trouble, worst_ttft

from analyzer import ingest
from analyzer.diagnosis.model import Cause
from analyzer.ingestion import IngestOptions
from analyzer.trace.manifest import read_manifest

CASES = {case.name: case for case in incidents()}
SCENES = {scene.name: scene for scene in scenes()}
# One of each shape whose figures are quick to measure again.
MEASURED = (
    "title-sglang",
    "swa-full-pool",
    "few-long",
    "load-back",
    "offload-fills-l1",
    "pd-prefill-inflight",
    "one-below-cap",
    "slow-decode-sglang",
)
# One of each way of printing.
READ = (
    "special-mamba-full-s6", "special-thrash-sglang-s8", "special-watermark-v0-s12", "special-lmcache-slow-alone-s27",
    "special-pd-decode-transfer-s31", "special-nixl-transfer-s34", "special-grows-beyond-pool-s44", "special-dp-vllm-s73",
)  # fmt: skip


@cache
def files_of(name: str) -> dict[str, bytes]:
    return CASES[name].files()


def clients_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(files_of(name)["client.jsonl.gz"]).splitlines()]


def test_there_are_cases_of_every_shape_in_both_splits() -> None:
    assert len(CASES) == len(incidents()) >= 30
    assert {c.cause for c in CASES.values()} <= set(get_args(Cause))
    by_cause = Counter((c.cause, c.split) for c in CASES.values())
    for cause in (
        "unschedulable",
        "l2_bound",
        "l1_bound",
        "transfer_bound",
        "skew",
        "cap_bound",
        "decode_bound",
        "insufficient_data",
        "none",
    ):
        assert by_cause[cause, "tune"], cause
        assert by_cause[cause, "score"], cause
    assert all(c.split == split_of(c.seed) for c in CASES.values())


@pytest.mark.parametrize("name", FIGURES)
def test_the_lever_takes_the_trouble_away_and_nothing_else_does(name: str) -> None:
    lever, *idle = FIGURES[name]
    assert lever >= 90
    assert all(part <= 35 for part in idle)
    assert f"{lever} % away" in SCENES[name].incident().because or f"{lever} %, " in SCENES[name].incident().because


def test_every_scene_with_a_lever_has_its_figures() -> None:
    assert {s.name for s in SCENES.values() if s.lever} == set(FIGURES)


@pytest.mark.parametrize("name", MEASURED)
def test_the_figures_are_those_of_the_engine(name: str) -> None:
    scene = SCENES[name]
    measured = [round(max(0.0, relief(scene, **change)) * 100) for change in scene.changes()]
    assert measured == pytest.approx(list(FIGURES[name]), abs=2)


@pytest.mark.parametrize("scene", [s for s in SCENES.values() if s.cause == "none"], ids=lambda s: s.name)
def test_a_healthy_case_has_no_slow_first_token(scene: Scene) -> None:
    assert worst_ttft(scene.play().requests, scene.until) < 1.0


def test_a_token_takes_over_five_times_as_long_where_decode_binds() -> None:
    scene = SCENES["slow-decode-sglang"]
    eased = scene.play(**scene.lever)
    assert trouble(scene, scene.play()) > 5 * (trouble(scene, eased) + 0.02)


@pytest.mark.parametrize("case", skewed(), ids=lambda c: c.name)
def test_uneven_ranks_are_quick_when_requests_are_spread(case: Any) -> None:
    first, *others = (worst_ttft(e.requests, case.until) for e in case.play())
    assert first > 30 > 1 > max(others)
    assert max(worst_ttft(e.requests, case.until) for e in case.play(to_one=0.0)) < 1.0


def test_what_never_fits_is_larger_than_the_pool_and_is_still_pending() -> None:
    waits = [r for r in clients_of("special-never-fits-vllm-s42") if r["pending"]]
    assert max(r["prompt_tokens"] for r in waits) > SCENES["never-fits-vllm"].settings.pool
    assert len(waits) > 50


def test_requests_of_a_livelock_would_fit_many_times() -> None:
    pending = [r for r in clients_of("special-livelock-capacity-s52") if r["pending"]]
    assert len(pending) > 10
    assert max(r["prompt_tokens"] + r["requested_output_tokens"] for r in pending) * 100 < SCENES["livelock-capacity"].settings.pool


def test_a_slow_front_end_shows_with_the_clients_and_not_in_the_queue() -> None:
    scene = SCENES["front-end-sglang"]
    engine = scene.play()
    assert worst_ttft(engine.requests, scene.until) > 50
    assert max(s.state["waiting"] for s in engine.samples) <= 1


def test_loads_become_slow_before_the_pool_fills() -> None:
    scene = SCENES["offload-fills-l1"]
    start = (scene.settings.slow or (0.0,))[0]
    usage = {s.t: s.state["usage"] for s in scene.play().samples}
    assert max(u for t, u in usage.items() if t < start + 30) < 0.7
    assert max(usage.values()) > 0.98


def test_the_same_case_gives_the_same_bytes() -> None:
    again = next(c for c in incidents() if c.name == "special-few-long-s7")
    assert again.files() == files_of("special-few-long-s7")


@pytest.mark.parametrize("case", [CASES[name] for name in READ], ids=lambda c: c.name)
def test_every_line_of_a_case_is_read_as_its_engine_prints_it(case: Incident) -> None:
    files = files_of(case.name)
    assert set(files) == {*case.logs, *case.metrics, *case.clients}
    assert sum(map(len, files.values())) < 1_000_000
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "in"
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        trace = Path(scratch) / "t.kvtrace"
        ingest([str(folder)], trace, IngestOptions(year=2026))
        columns = ["format", "engines", "unmatched_lines", "version_min", "version_max", "matched_lines"]
        rows = [tuple(r.values()) for r in pq.read_table(trace / read_manifest(trace).sources_file, columns=columns).to_pylist()]
    assert {r[0] for r in rows} == {"engine_log", "prometheus_text", "client"}
    log = next(r for r in rows if r[0] == "engine_log")
    assert case.engine in log[1].split(",")
    assert sum(r[2] for r in rows) == 0
    assert log[5] > 20
    assert key(log[3]) <= key(case.version) <= key(log[4] or "99")


def key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
