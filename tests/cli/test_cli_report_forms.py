"""`kvpm report` in its forms: which one is written, where, and what is refused."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzer.cli.report import report_data
from analyzer.diagnosis.model import Diagnosis
from analyzer.errors import ExitCode
from analyzer.reading import InputOptions
from analyzer.report.forms import browser
from analyzer.report.model import ReportData

LOG = Path(__file__).resolve().parents[2] / "sample_traces" / "recorded_l1_bound" / "server.log"
Run = Callable[..., tuple[int, str, str]]


Read = tuple[ReportData, Diagnosis, ExitCode]


@pytest.fixture(scope="module")
def read() -> Read:
    """The log read and diagnosed, once for all forms."""
    return report_data([str(LOG)], InputOptions("UTC", 2026, ()), replay=False)


@pytest.fixture(autouse=True)
def _read_once(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    def given(inputs: tuple[str, ...], _options: InputOptions, *, replay: bool | None) -> Read:
        assert inputs == (str(LOG),), "read before it was refused"
        found: Read = request.getfixturevalue("read")
        return found

    # The package gives the command the name of its module.
    monkeypatch.setattr(importlib.import_module("analyzer.cli.report"), "report_data", given)


def test_the_suffix_of_the_file_decides(kvpm: Run) -> None:
    for name, begins in (
        ("a.html", "<!doctype html>"),
        ("a.md", "# L1-bound"),
        ("a.json", '{\n"schema_version": 1,'),
        ("a.txt", "<!doctype"),
    ):
        code, out, _ = kvpm("report", str(LOG), "-o", name)
        assert code == 0
        assert out.endswith(f"report: {name}\n")
        assert Path(name).read_text(encoding="utf-8").lstrip().startswith(begins)


def test_the_format_decides_the_default_name(kvpm: Run) -> None:
    kvpm("report", str(LOG), "--format", "md", "--charts", "none")
    text = Path("server.md").read_text(encoding="utf-8")
    assert text.startswith("# L1-bound")
    assert "![" not in text


def test_a_suffix_that_contradicts_the_format_is_an_error(kvpm: Run) -> None:
    code, _, err = kvpm("report", str(LOG), "--format", "json", "-o", "a.md")
    assert code == 2
    assert "a.md is named as md, and --format asks for json" in err
    assert "name it a.json" in err
    assert not Path("a.md").exists()


def test_standard_output_takes_any_form(kvpm: Run) -> None:
    code, out, err = kvpm("report", str(LOG), "--format", "json", "-o", "-")
    assert (code, err) == (0, "")
    assert json.loads(out)["verdict"]["finding"]["cause"] == "l1_bound"
    assert kvpm("report", str(LOG), "--format", "md", "-o", "-")[1].startswith("# L1-bound")


def test_a_pdf_on_standard_output_is_nothing_but_the_pdf(kvpm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyzer.report.forms.render.render_pdf", lambda _html: b"%PDF-1.4\n")
    monkeypatch.setattr(browser.shutil, "which", lambda name: name)
    assert kvpm("report", str(LOG), "--format", "pdf", "-o", "-") == (0, "%PDF-1.4\n", "")


def test_an_existing_file_is_left_alone_without_force(kvpm: Run) -> None:
    Path("a.md").write_text("mine")
    code, _, err = kvpm("report", str(LOG), "-o", "a.md")
    assert (code, Path("a.md").read_text()) == (2, "mine")
    assert "--force" in err
    Path("a.svg").write_text("mine")
    code, _, err = kvpm("report", str(LOG), "-o", "a.md", "--force", "--picture", "a.svg")
    assert code == 0
    assert Path("a.svg").read_text().startswith("<svg")


def test_the_evidence_is_never_written_over_by_the_picture(kvpm: Run) -> None:
    Path("a.svg").write_bytes(LOG.read_bytes())
    code, _, err = kvpm("report", "a.svg", "--year", "2026", "--picture", "a.svg", "--force")
    assert code == 2
    assert "a.svg is an input" in err


def test_markdown_refers_to_its_picture_as_seen_from_its_own_folder(kvpm: Run) -> None:
    Path("out").mkdir()
    Path("pictures").mkdir()
    code, out, _ = kvpm("report", str(LOG), "-o", "out/a.md", "--picture", "pictures/a b.svg")
    assert code == 0
    assert out.endswith("picture: pictures/a b.svg\n")
    assert re.findall(r"\]\(<(.*)>\)", Path("out/a.md").read_text(encoding="utf-8")) == ["../pictures/a%20b.svg"]
    assert Path("pictures/a b.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-o", "a.html", "--charts", "svg"), "--charts is about Markdown"),
        (("-o", "a.md", "--charts", "svg", "--picture", "b.svg"), "not both"),
        (("--picture", "b.gif"), "a picture is .svg or .png"),
        (("-o", "a.svg", "--picture", "a.svg"), "cannot be the report and its picture"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(kvpm: Run, options: tuple[str, ...], said: str) -> None:
    code, _, err = kvpm("report", "no-such-file.log", *options)
    assert code == 2
    assert said in err


@pytest.mark.parametrize("options", [("-o", "a.pdf"), ("-o", "a.md", "--charts", "png"), ("--picture", "a.png")])
def test_without_a_browser_it_says_so_before_anything_is_read(kvpm: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    monkeypatch.setattr(browser.shutil, "which", lambda _name: None)
    code, _, err = kvpm("report", "no-such-file.log", *options)
    assert code == 2
    assert "needs Chromium or Chrome" in err
    assert "install chromium" in err


def test_the_exit_code_is_that_of_the_page(kvpm: Run) -> None:
    codes = [kvpm("report", str(LOG), "-o", name, "--fail-on", "l1_bound")[0] for name in ("a.html", "a.json", "a.md")]
    assert codes == [1, 1, 1]
