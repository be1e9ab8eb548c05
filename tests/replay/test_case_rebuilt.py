"""Workloads without request records, rebuilt from logs and metrics of runs whose requests are known."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest
from case_traces import LOG, METRICS, instance_of, kept, opened, set_as_run, truth

from analyzer.replay.case.configured import Configured, configured
from analyzer.replay.case.facts import run_to_replay
from analyzer.replay.case.rebuilt import from_sglangs_benchmark, rebuilt
from analyzer.replay.workload import Workload

_more = pytest.mark.thorough
# Case, files, and by how much may be off: requests, prompt tokens, output tokens, and the curve of arrivals (mean, share of all requests).
_BOUNDS = [
    ("sglang_l1-short_s1", (LOG,), 0.01, 0.01, 0.03, 0.005),
    pytest.param("sglang_l1-prefix_s2", (LOG,), 0.01, 0.01, 0.03, 0.005, marks=_more),
    pytest.param("sglang_prefill-chunk_s1", (LOG,), 0.01, 0.01, 0.08, 0.005, marks=_more),
    pytest.param("sglang_l1-long_s1", (LOG,), 0.01, 0.10, 0.03, 0.005, marks=_more),
    pytest.param("sglang_prefill-long_s2", (METRICS,), 0.02, 0.02, 0.02, 0.02, marks=_more),
    pytest.param("sglang_l1-prompts_s1", (METRICS,), 0.02, 0.02, 0.02, 0.02, marks=_more),
    ("vllm_l1-short_s1", (LOG, METRICS), 0.01, 0.01, 0.01, 0.01),
    pytest.param("vllm_prefill-long_s1", (LOG, METRICS), 0.01, 0.01, 0.03, 0.02, marks=_more),
    pytest.param("vllm_l1-prefix_s1", (LOG, METRICS), 0.01, 0.01, 0.01, 0.01, marks=_more),
    pytest.param("vllm_cap-half_s1", (LOG,), 0.05, 0.05, 0.05, 0.03, marks=_more),
    pytest.param("vllm_watermark_s1", (LOG,), 0.05, 0.05, 0.05, 0.03, marks=_more),
]


def _rebuilt(folder: Path, key: str, names: tuple[str, ...]) -> Workload:
    with opened(folder, dict(kept(key, *names))) as trace:
        name = instance_of(trace)
        run = run_to_replay(trace.con, name)
        assert run is not None
        known = configured(trace.con, name, run)
        assert isinstance(known, Configured)
        assert LOG not in names or set_as_run(key, known.settings)
        found = rebuilt(trace.con, name, run, known.settings)
    assert found is not None
    return found


@pytest.mark.parametrize(("key", "names", "n", "prompts", "outputs", "curve"), _BOUNDS)
def test_the_load_is_rebuilt(
    key: str, names: tuple[str, ...], n: float, prompts: float, outputs: float, curve: float, tmp_path: Path
) -> None:
    true = truth(key)
    found = _rebuilt(tmp_path, key, names)
    assert found.approximate
    assert "no records of requests" in found.notes[0]
    assert len(found.requests) == pytest.approx(len(true.requests), rel=n)
    assert sum(r.prompt_tokens for r in found.requests) == pytest.approx(sum(r["prompt"] for r in true.requests), rel=prompts)
    assert sum(r.output_tokens for r in found.requests) == pytest.approx(sum(r["output"] for r in true.requests), rel=outputs)
    assert found.start is not None
    late = found.start.timestamp() - true.start_s
    ours = np.array([r.arrival_s + late for r in found.requests])
    assert (np.diff(ours) >= 0).all()
    theirs = np.array([r["arrival"] for r in true.requests])
    times = np.arange(0.0, theirs[-1] + 10, 0.5)
    apart = np.abs(np.searchsorted(theirs, times) - np.searchsorted(ours, times))
    assert apart.mean() <= curve * len(theirs)


@_more
def test_lines_tell_how_long_prompts_were_one_by_one(tmp_path: Path) -> None:
    true = truth("sglang_healthy_s1").requests
    found = _rebuilt(tmp_path, "sglang_healthy_s1", (LOG,)).requests
    assert len(found) == len(true)
    same = sum(a.prompt_tokens == b["prompt"] for a, b in zip(found, true, strict=True))
    assert same > 0.8 * len(true)
    assert np.std([r.output_tokens for r in found]) > 0.5 * np.std([r["output"] for r in true])


@pytest.mark.thorough
def test_answers_to_sglangs_benchmark_go_on_to_their_limit(tmp_path: Path) -> None:
    run = {
        "backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "input_lens": [100, 200], "output_lens": [10, 10],
        "ttfts": [0.1, 0.2], "itls": [[0.1] * 9] * 2, "generated_texts": ["", ""], "errors": ["", ""],
    }  # fmt: skip
    bench = {"bench.jsonl": json.dumps(run) + "\n"}
    with opened(tmp_path, {**kept("sglang_chunked_s1", LOG), **bench}) as trace:
        name = instance_of(trace)
        run_id = run_to_replay(trace.con, name)
        assert run_id is not None
        known = configured(trace.con, name, run_id)
        assert isinstance(known, Configured)
        found = rebuilt(trace.con, name, run_id, known.settings)
    assert found is not None
    assert all(r.ignore_eos for r in found.requests)
    assert any("ignore_eos" in n for n in found.notes)


@pytest.mark.parametrize(
    ("formats", "expected"), [(["sglang_bench"], True), (["sglang_bench", "client"], False), (["client"], False), ([], False)]
)
def test_only_requests_that_all_are_the_benchmarks_count(formats: list[str], expected: bool) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE sources (source_id VARCHAR, format VARCHAR); CREATE TABLE requests (source_id VARCHAR, instance VARCHAR)")
    for n, name in enumerate(formats):
        con.execute("INSERT INTO sources VALUES (?, ?)", [str(n), name])
        con.execute("INSERT INTO requests VALUES (?, 'one')", [str(n)])
    con.execute("INSERT INTO sources VALUES ('other', 'client'); INSERT INTO requests VALUES ('other', 'two')")
    assert from_sglangs_benchmark(con, "one") is expected
