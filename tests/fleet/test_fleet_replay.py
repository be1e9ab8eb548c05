"""`kvpm batch --replay`: the section in a capture's report, made within the worker's own process, and only when asked."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

from analyzer import processes
from analyzer.cli.batch import batch
from analyzer.errors import KvpmError
from analyzer.fleet.batch import Options
from analyzer.fleet.model import Capture, Reading
from analyzer.fleet.worker import Task, answer
from analyzer.replay import parallel
from analyzer.replay.model import Change
from analyzer.report.replay import make

RECORDED = Path(__file__).resolve().parents[2] / "sample_traces" / "recorded_cap_bound"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A capture, and where its report goes. No replay may start a process, and two are made, which elsewhere would be worth one."""

    def refuse() -> NoReturn:
        raise AssertionError("a worker started a process of its own")

    shutil.copytree(RECORDED, tmp_path / "outage", ignore=shutil.ignore_patterns("expected.json"))
    (tmp_path / "out" / "reports").mkdir(parents=True)
    # the worker changes the folder it stands in, and here it is this process
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVPM_DEBUG", "1")
    monkeypatch.setattr("analyzer.report.data.build_explore", lambda *_given: None)
    monkeypatch.setattr(parallel, "_FEW", 0)
    monkeypatch.setattr(processes, "_start", refuse)
    monkeypatch.setattr(make, "_few", lambda *_given: (((Change("max_running", 2.0, times=True),),), ()))
    return tmp_path


@pytest.mark.parametrize("replay", [True, False])
def test_a_capture_is_replayed_when_asked_and_by_the_same_process(folder: Path, replay: bool) -> None:
    capture = Capture("outage", folder, ("outage",), Reading())
    told = answer(Task(capture, folder / "out", "outage.html", "", "en", "", None, replay).to_json())
    assert "failed" not in told, told
    html = (folder / "out" / "reports" / "outage.html").read_text(encoding="utf-8")
    assert ('<section id="replay"' in html) == replay
    assert ("max_running=x2" in html) == replay
    # the input as the command takes it, and not where it lies on this machine
    assert ("kvpm replay outage</code>" in html) == replay
    assert str(folder) not in html


@pytest.mark.parametrize(("options", "replay"), [((), False), (("--replay",), True), (("--no-replay",), False)])
def test_the_option_is_what_is_asked(monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], replay: bool) -> None:
    told: list[bool] = []

    def run_batch(_inputs: object, _out: object, asked: Options, **_more: Any) -> NoReturn:
        told.append(asked.replay)
        raise KvpmError("asked")

    # the package may give the command the name of its module
    monkeypatch.setattr(importlib.import_module("analyzer.cli.batch"), "run_batch", run_batch)
    with pytest.raises(KvpmError, match="asked"):
        batch.main(["captures", "-o", "out", *options], standalone_mode=False)
    assert told == [replay]
