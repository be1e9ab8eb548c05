"""`kvpm replay`"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyzer import ingest, open_trace
from analyzer.errors import KvpmError
from analyzer.replay.knobs import KNOBS
from analyzer.replay.model import Study
from analyzer.replay.settings import Vllm
from analyzer.replay.step_time import StepTime
from analyzer.replay.study import Asked, Given, study

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
RECORDED = SAMPLES / "recorded_cap_bound"
CONFIG = {"max_total_num_tokens": 1024, "page_size": 16, "max_prefill_tokens": 4096, "max_running_requests": 8, "chunked_prefill_size": 256}
COST = {"a": 0.007, "b": 0.00002, "c": 0.0002}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def workload(tmp_path: Path) -> str:
    rows = [{"id": i, "arrival": i / 10, "prompt_len": 90 + i, "output_len": 20 + i % 5, "max_new_tokens": 100} for i in range(20)]
    path = tmp_path / "w.json"
    path.write_text(json.dumps({"config": CONFIG, "cost": COST, "requests": rows}), encoding="utf-8")
    return str(path)


@pytest.fixture
def mooncake(tmp_path: Path) -> str:
    rows = [{"timestamp": 500 * i, "input_length": 700 + i, "output_length": 30 + i % 5, "hash_ids": [0, i + 1]} for i in range(20)]
    path = tmp_path / "mooncake.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return str(path)


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """Settings and a step time, for requests without a server."""
    (tmp_path / "settings.json").write_text(json.dumps({"num_blocks": 257, "max_running": 8, "step_tokens": 512}), encoding="utf-8")
    (tmp_path / "step.json").write_text(json.dumps({"base_s": 0.01, "token_s": 0.00002}), encoding="utf-8")
    return ["--settings", "settings.json", "--step-time", "step.json"]


def _rows(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]


def test_a_workload_file_with_its_steps_and_requests(kvpm: Run, workload: str, tmp_path: Path) -> None:
    code, out, err = kvpm(
        "replay", "--engine", "sglang", "--workload", workload, "--steps", "steps.jsonl.gz", "--requests", "requests.jsonl"
    )
    assert (code, err) == (0, "")
    assert "20, 20 finished" in out
    steps, requests = _rows(tmp_path / "steps.jsonl.gz"), _rows(tmp_path / "requests.jsonl")
    assert f"{len(steps):,} in" in out
    assert [r["id"] for r in requests] == [str(i) for i in range(20)]
    assert all(r["out_tokens"] == r["output_len"] for r in requests)


def test_a_workload_file_as_json_with_what_ifs(kvpm: Run, workload: str) -> None:
    code, out, _err = kvpm(
        "replay", "--workload", workload, "--json", "--set", "l1_tokens=x2", "--goal", "ttft_p99<1s", "--by", "l1_tokens"
    )
    told = json.loads(out)
    assert (code, told["requests"], told["outcome"]["finished"]) == (0, 20, 20)
    (server,) = told["servers"]
    assert [w["set"] for w in server["what_ifs"]] == ["l1_tokens=x2"]
    assert server["unchanged"]["ttft_p99_s"] == pytest.approx(told["outcome"]["ttft_p99_s"])
    assert server["trust"] == "none"
    assert server["goals"][0]["goal"] == "ttft_p99<1s"
    plain = json.loads(kvpm("replay", "--workload", workload, "--json")[1])
    assert "servers" not in plain


def test_files_that_exist_stay(kvpm: Run, workload: str, tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").write_text("mine", encoding="utf-8")
    code, _out, err = kvpm("replay", "--workload", workload, "--steps", "steps.jsonl")
    assert (code, "exists already" in err) == (2, True)
    assert (tmp_path / "steps.jsonl").read_text(encoding="utf-8") == "mine"
    assert kvpm("replay", "--workload", workload, "--steps", "steps.jsonl", "--force")[0] == 0
    assert len(_rows(tmp_path / "steps.jsonl")) > 20
    # the input is never written over
    code, _out, err = kvpm("replay", "--workload", workload, "--steps", workload, "--force")
    assert (code, "is an input" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), "no INPUT"),
        (("a.log", "--workload", "w.json"), "in place of INPUT"),
        (("a.log", "--steps", "s.jsonl"), "--workload"),
        (("a.log", "--goal", "ttft_p99<2s"), "belong together"),
        (("a.log", "--by", "l1_tokens"), "belong together"),
        (("a.log", "--set", "l1=x2"), "no knob 'l1'"),
        (("a.log", "--goal", "ttft<2s", "--by", "l1_tokens"), "no goal"),
        (("a.log", "--goal", "ttft_p99<2s", "--by", "l1"), "no knob 'l1'"),
        (("a.log", "--step-time", "none.json"), "none.json cannot be read"),
        (("a.log", "--settings", "none.json"), "cannot read none.json"),
        (("--workload", "none.json"), "cannot read none.json"),
        (("--workload", "w.json", "--engine", "vllm"), "--engine sglang"),
        (("--workload", "w.json", "--steps", "-"), "written to files"),
        (("--workload", "w.json", "--steps", "a.jsonl", "--requests", "./a.jsonl"), "one file"),
        (("--workload", "w.json", "--steps", "no/a.jsonl"), "no folder no"),
        (("a.log", "--jobs", "0"), "--jobs"),
    ],
)
def test_half_of_it_is_refused_before_anything_is_read(kvpm: Run, workload: str, arguments: tuple[str, ...], found: str) -> None:
    code, out, err = kvpm("replay", *arguments)
    assert (code, out) == (2, "")
    assert found in err


def test_requests_without_a_server_need_a_server(kvpm: Run, mooncake: str, given: list[str]) -> None:
    code, out, _err = kvpm("replay", mooncake)
    assert code == 3
    assert "What it takes: add --settings FILE, --step-time FILE" in out
    code, out, _err = kvpm("replay", mooncake, *given, "--json", "--set", "prefix_sharing=off", "--no-grid")
    (server,) = json.loads(out)["servers"]
    assert (code, server["engine"], server["workload"]["requests"]) == (0, "vllm", 20)
    assert {s["name"]: s["origin"] for s in server["settings"]}["num_blocks"] == "read"
    assert {s["name"]: s["origin"] for s in server["settings"]}["block_tokens"] == "assumed"
    # all share their first 512 tokens, which is computed once unless sharing is off
    assert server["what_ifs"][0]["ttft_p99_s"] > server["unchanged"]["ttft_p99_s"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recorded incident, ingested."""
    path = tmp_path_factory.mktemp("traces") / "cap.kvtrace"
    ingest([str(RECORDED)], path)
    return str(path)


def test_a_recorded_incident(kvpm: Run, trace: str, tmp_path: Path) -> None:
    """The cap was two requests: twice that helps, and the pool is of no use."""
    code, out, _err = kvpm("replay", trace, "--no-grid", "--set", "max_running=x2", "--set", "l1_tokens=x2", "--json", "-o", "replay.json")
    assert (code, out) == (0, "")
    (server,) = json.loads((tmp_path / "replay.json").read_text(encoding="utf-8"))["servers"]
    assert server["engine"] == "vllm"
    assert server["trust"] in ("good", "fair")
    cap, pool = (w["ttft_p99_s"] for w in server["what_ifs"])
    assert cap < 0.7 * server["unchanged"]["ttft_p99_s"]
    assert pool == pytest.approx(server["unchanged"]["ttft_p99_s"])
    code, _out, err = kvpm("replay", trace, "--json", "-o", "replay.json")
    assert (code, "exists already" in err) == (2, True)


def test_what_does_not_fit_the_trace(trace: str) -> None:
    """Opened once: the command only hands on."""
    settings = Given(Vllm(num_blocks=257, max_running=8))
    with open_trace(trace) as opened:
        with pytest.raises(KvpmError, match="no server 'other'"):
            study(opened, instance="other")
        with pytest.raises(KvpmError, match="without a server"):
            study(opened, given=settings)
        asked, given = Asked(grid=False), Given(step_time=StepTime(0.01, 0.00002, 0.0))
        (told,) = study(opened, asked, given=given, jobs=1)
    assert isinstance(told, Study)
    assert told.case.fitted.step_time == StepTime(0.01, 0.00002, 0.0)


def test_help_names_every_knob(kvpm: Run) -> None:
    out = kvpm("replay", "--help")[1]
    assert all(name in out.replace("\n", " ").replace("  ", "") for name in KNOBS)


def test_a_request_that_never_fits_is_no_infinity_in_json(kvpm: Run, tmp_path: Path) -> None:
    rows = [{"id": 0, "arrival": 0, "prompt_len": 3000, "output_len": 5}]
    (tmp_path / "never.json").write_text(json.dumps({"config": CONFIG, "cost": COST, "requests": rows}), encoding="utf-8")
    code, out, _err = kvpm("replay", "--workload", "never.json", "--json")
    told = json.loads(out)["outcome"]
    assert (code, told["never"], told["ttft_p99_s"], told["ttft_p99_s_unbounded"]) == (0, 1, None, True)
