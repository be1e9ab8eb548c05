"""Recordings of a running server: the verdict, the peaks, and what is left without stats lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from diagnosing import Servers, causes, diagnosis_of

from analyzer.cli.group import cli

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NAMES = sorted(p.parent.name for p in SAMPLES.glob("*/expected.json"))
RECORDED = [n for n in NAMES if n.startswith("recorded_")]


def log(name: str) -> str:
    return (SAMPLES / name / "server.log").read_text(encoding="utf-8")


def without_stats(name: str) -> str:
    return "".join(s for s in log(name).splitlines(keepends=True) if "Avg prompt throughput" not in s)


# A recording says its own address, and is asked alone.
SERVERS = Servers()
GENERATED = {name: SERVERS.add(log(name)) for name in NAMES if name not in RECORDED}


@pytest.mark.parametrize("name", NAMES)
def test_sample_traces(name: str) -> None:
    label = json.loads((SAMPLES / name / "expected.json").read_text())
    found = GENERATED[name]() if name in GENERATED else diagnosis_of(log(name))
    assert found.verdict.cause == label["cause"][0], found.verdict.sentence
    assert set(label["cause"]) <= set(causes(found))
    assert not set(label["not_expected"]) & set(causes(found))
    assert {k: getattr(found.peaks, k) for k in label["peaks"]} == pytest.approx(label["peaks"])


@pytest.mark.parametrize("name", RECORDED)
def test_v1_says_why_preemptions_are_unknown(name: str) -> None:
    peaks = diagnosis_of(log(name)).peaks
    assert peaks.preemptions is None
    assert "num_preemptions_total" in peaks.notes["preemptions"]


@pytest.mark.parametrize("name", [n for n in RECORDED if n != "recorded_healthy"])
def test_without_stats_lines_nothing_can_be_told(name: str) -> None:
    found = diagnosis_of(without_stats(name))
    assert causes(found)[0] == "insufficient_data"
    assert set(causes(found)) <= {"insufficient_data", "restart"}
    assert ("restart" in causes(found)) == ("restart" in name)
    assert (found.peaks.running, found.peaks.waiting, found.peaks.kv_usage) == (None, None, None)
    assert found.peaks.notes["running"]
    assert all(a.answer != "no" for a in found.checklist if a.id in ("ttft_broke", "l1_full", "queue_on_l1", "queue_on_cap"))


def test_not_to_know_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(without_stats("recorded_l1_bound"))
    result = CliRunner().invoke(cli, ["diagnose", str(tmp_path / "server.log"), "--json"], standalone_mode=False)
    assert result.exception is None
    assert result.return_value == 0
    assert json.loads(result.stdout)["verdict"]["cause"] == "insufficient_data"


def test_access_lines_of_a_model_server_alone() -> None:
    """The recording of a healthy server has nothing else beside its stats lines."""
    found = diagnosis_of(without_stats("recorded_healthy"))
    assert causes(found) == ["insufficient_data"]
