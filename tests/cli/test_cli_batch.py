"""`kvpm batch` as a whole: real captures in real processes, the exit code, and what is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzer.fleet import pool

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

Run = Callable[..., tuple[int, str, str]]

# Plays reading, and kills itself over the capture of this name, as the system kills a process that took all the memory.
MORTAL = """
import os, signal
from analyzer.diagnosis.model import Window
from analyzer.fleet import worker
from analyzer.fleet.model import Summary
from analyzer.report.severity import Severity
def made(task):
    if task.capture.name == "mortal":
        os.kill(os.getpid(), signal.SIGKILL)
    (task.out / "reports" / task.report).write_text("x")
    return Summary("none", "high", "Fine.", "", 1, "", Window(None, None), Window(None, None), Severity()).to_json()
worker._made = made
worker.main()
"""


def head(sample: str, target: Path, lines: int) -> None:
    """The first lines of a sample's log, for a capture that is read in no time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (SAMPLES / sample / "server.log").open("rb") as log:
        target.write_bytes(b"".join(next(log) for _ in range(lines)))


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An incident, a quiet start, and a folder with nothing of a model server."""
    root = tmp_path_factory.mktemp("fleet") / "captures"
    shutil.copytree(SAMPLES / "crash_vllm", root / "crashed")
    head("l1_bound_sglang", root / "start" / "server.log", 60)
    (root / "letters").mkdir()
    (root / "letters" / "a.txt").write_text("Dear reader,\n" * 20)
    return root


@pytest.fixture(scope="module")
def made(captures: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A batch of them with its traces, by two processes."""
    out = captures.parent / "out"
    done = subprocess.run(
        [sys.executable, "-m", "analyzer", "batch", "captures", "-o", "out", "--jobs", "2", "--traces", "--year", "2026"],
        cwd=captures.parent, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(SAMPLES.parent)}, check=False,
    )  # fmt: skip
    return out, done


def files(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file() and "traces" not in p.parts}


def test_a_batch_tells_what_it_made_and_what_failed(made: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    out, done = made
    assert done.returncode == 4
    assert "2 reports: 2 made, 0 as before" in done.stdout
    assert "crash 1" in done.stdout
    assert "index: out/index.html" in done.stdout
    assert "letters/a.txt holds no line of a known engine" in done.stderr
    assert "[3/3]" in done.stderr
    assert sorted(p.name for p in (out / "reports").iterdir()) == ["crashed.html", "start.html"]
    assert sorted(p.name for p in (out / "traces").iterdir()) == ["crashed.kvtrace", "start.kvtrace"]


def test_no_file_of_a_batch_tells_where_it_was_made(made: tuple[Path, subprocess.CompletedProcess[str]], captures: Path) -> None:
    out, _done = made
    text = [p for p in out.rglob("*") if p.suffix in (".html", ".json")]
    assert len(text) >= 6
    assert not [p for p in text if str(captures.parent) in p.read_text(encoding="utf-8")]


def test_a_kept_trace_can_be_asked(made: tuple[Path, subprocess.CompletedProcess[str]], kvpm: Run) -> None:
    code, out, _ = kvpm("sql", str(made[0] / "traces" / "crashed.kvtrace"), "SELECT count(*) AS n FROM event WHERE kind = 'crash'", "--csv")
    assert code == 0
    assert int(out.split()[1]) >= 1


def test_the_number_of_processes_changes_no_byte_and_nothing_is_read_twice(
    made: tuple[Path, subprocess.CompletedProcess[str]], captures: Path, kvpm: Run, tmp_path: Path
) -> None:
    out, _done = made
    code, _, _ = kvpm("batch", str(captures), "-o", "again", "--jobs", "1", "--traces", "--year", "2026")
    assert code == 4
    again = files(tmp_path / "again")
    assert list(again) == list(files(out))
    assert [name for name, content in files(out).items() if again[name] != content] == []
    code, told, _ = kvpm("batch", str(captures), "-o", "again", "--traces", "--year", "2026")
    assert "0 made, 2 as before" in told
    assert files(tmp_path / "again") == again


def test_a_process_that_is_killed_costs_one_capture(kvpm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORKER", MORTAL)
    for name in ("before", "mortal", "then"):
        (tmp_path / "caps" / name).mkdir(parents=True)
        (tmp_path / "caps" / name / "server.log").write_text("x")
    code, out, err = kvpm("batch", "caps", "-o", "out", "--jobs", "1")
    assert code == 4
    assert "2 reports" in out
    assert "mortal: its process was ended by SIGKILL" in err
    stored = json.loads((tmp_path / "out" / "batch.json").read_text())
    assert [f["name"] for f in stored["failures"]] == ["mortal"]


def test_exit_codes_follow_the_verdicts(
    made: tuple[Path, subprocess.CompletedProcess[str]], captures: Path, kvpm: Run, tmp_path: Path
) -> None:
    # nothing is read again: the inputs are those of the module's batch
    shutil.copytree(made[0].parent, tmp_path / "copy", copy_function=shutil.copy2)
    shutil.rmtree(tmp_path / "copy" / "captures" / "letters")
    batch = ("batch", "copy/captures", "-o", "copy/out", "--traces", "--year", "2026")
    assert kvpm(*batch)[0] == 0
    code, out, _ = kvpm(*batch, "--fail-on", "crash")
    assert (code, "0 made, 2 as before" in out) == (1, True)
    assert kvpm(*batch, "--fail-on", "l1_bound")[0] == 0


def test_a_batch_of_nothing_usable_says_so(kvpm: Run, tmp_path: Path) -> None:
    (tmp_path / "caps" / "a").mkdir(parents=True)
    (tmp_path / "caps" / "a" / "x.txt").write_text("nothing\n")
    assert kvpm("batch", "caps", "-o", "out")[0] == 3
    assert "holds no line" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("gone", "-o", "out"), 2, "no such file or folder"),
        ((".", "-o", "out"), 3, "no capture"),
        (("gone",), 2, "--output"),
        (("-", "-o", "out"), 2, "standard input"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_made(
    kvpm: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    got, _, err = kvpm("batch", *arguments)
    assert got == code
    assert said in err
    assert not (tmp_path / "out").exists()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None and os.environ.get("CI") != "true", reason="needs chromium; with CI=true that is a failure")
def test_a_report_of_a_batch_finds_its_scripts(made: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI has no browser: see tools/ensure_browser.sh"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        tab = browser.new_page()
        said: list[str] = []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto((made[0] / "index.html").as_uri())
        tab.get_by_role("link", name="crashed").first.click()
        tab.locator("button.theme").wait_for()
        assert tab.url.endswith("/reports/crashed.html")
        assert said == []
        browser.close()
