"""`kvpm report --replay`: what is asked of the replay, and that a report does without one."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from analyzer.cli.group import cli
from analyzer.errors import ExitCode, KvpmError
from analyzer.replay.case import build
from analyzer.replay.model import Change
from analyzer.report.replay import make

TRACE = Path(__file__).resolve().parents[3] / "sample_traces" / "recorded_cap_bound"


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recording as a stored trace, in the folder that is worked in; nothing is drawn to be explored, which takes its time."""
    from analyzer import ingest

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KVPM_DEBUG", raising=False)
    monkeypatch.setattr("analyzer.report.data.build_explore", lambda *_given: None)
    ingest([str(p) for p in sorted(TRACE.iterdir()) if p.name != "expected.json"], tmp_path / "incident.kvtrace")
    return tmp_path / "incident.kvtrace"


def report(*options: str) -> tuple[int, str]:
    """Exit code and page of `kvpm report`."""
    done = CliRunner().invoke(cli, ["report", "incident.kvtrace", "-o", "-", *options], standalone_mode=False)
    assert done.exception is None, done.exception
    return done.return_value, done.stdout


@pytest.mark.usefixtures("trace")
def test_a_recorded_incident_is_replayed_and_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "_few", lambda *_given: (((Change("max_running", 2.0, times=True),),), ()))
    code, html = report()
    assert code == ExitCode.OK
    assert re.search(r'<section id="replay".*kvpm replay incident\.kvtrace', html, re.DOTALL)
    assert "max_running=x2" in html
    assert "Trust: " in html
    # the same report, whatever becomes of its replay
    monkeypatch.setattr(build, "case_of", lambda *_given: 1 / 0)
    code, without = report()
    assert code == ExitCode.OK
    assert "The replay failed: ZeroDivisionError: division by zero" in without
    rest = re.compile(r'<section id="replay".*?(?=<section id="i1-timeline")| *<p class="replayed">.*?</p>\n', re.DOTALL)
    assert rest.sub("", html) == rest.sub("", without)


def test_the_option_is_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool | None] = []

    def report_data(_inputs: object, _options: object, *, replay: bool | None) -> None:
        told.append(replay)
        raise KvpmError("asked")

    # The package gives the command the name of its module.
    monkeypatch.setattr(importlib.import_module("analyzer.cli.report"), "report_data", report_data)
    for options, usual in (((), ""), (("--replay",), ""), (("--no-replay",), ""), ((), "0"), ((), "1"), (("--replay",), "0")):
        with pytest.raises(KvpmError, match="asked"):
            CliRunner().invoke(
                cli, ["report", "x.log", "-o", "-", *options], standalone_mode=False, catch_exceptions=False, env={"KVPM_REPLAY": usual}
            )
    assert told == [None, True, False, False, True, True]
