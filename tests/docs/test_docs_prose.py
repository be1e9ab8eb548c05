"""README and docs: the commands in them work, the links lead somewhere, and nothing of a machine shows."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import click
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from warm_kvpm import run_script

from analyzer.cli.group import cli
from analyzer.diagnosis import causes
from analyzer.diagnosis.model import Cause
from analyzer.diagnosis.questions import questions
from analyzer.diagnosis.thresholds import thresholds
from analyzer.trace.reader import sql_files

ROOT = Path(__file__).parents[2]
PROSE = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks/README.md", *sorted((ROOT / "docs").glob("*.md"))]

# A block below the line `<!-- tested -->` is run as it stands, in a folder with the logs it names.
_TESTED = re.compile(r"^<!-- tested -->\n```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(language, text, id=f"{path.name}-{number}")
    for path in PROSE
    for number, (language, text) in enumerate(_TESTED.findall(path.read_text(encoding="utf-8")), 1)
]


@pytest.fixture
def incident(tmp_path: Path) -> Path:
    """A folder as the README's reader has it: logs, one of them packed too, all that is left of incidents, and a kubectl."""
    samples = ROOT / "sample_traces"
    for name, case in (
        ("server.log", "l1_bound_sglang"),
        ("prefill.log", "recorded_l1_bound"),
        ("decode.log", "recorded_cap_bound"),
        ("before.log", "l1_bound_sglang"),
        ("after.log", "healthy_sglang"),
    ):
        shutil.copy(samples / case / "server.log", tmp_path / name)
    shutil.copytree(samples / "recorded_l1_bound", tmp_path / "incident")
    (tmp_path / "incident" / "expected.json").unlink()
    for case in ("cap_bound_vllm", "healthy_vllm"):
        (tmp_path / "incidents" / case).mkdir(parents=True)
        shutil.copy(samples / case / "server.log", tmp_path / "incidents" / case)
    (tmp_path / "server.log.gz").write_bytes(gzip.compress((tmp_path / "server.log").read_bytes()))
    (tmp_path / "bin").mkdir()
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text(f"#!/bin/sh\nexec cat '{tmp_path}/server.log'\n", encoding="utf-8")
    kubectl.chmod(0o755)
    return tmp_path


# The block that the installed program itself is run with.
INSTALLED = "README.md-2"


def test_the_block_for_the_installed_program_is_there() -> None:
    assert INSTALLED in [block.id for block in BLOCKS]


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
@pytest.mark.parametrize(("language", "text"), BLOCKS)
def test_blocks_run(
    incident: Path,
    language: str,
    text: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # the replay that a report adds unasked is tested elsewhere, and is most of its time
    monkeypatch.setenv("KVPM_REPLAY", "0")
    monkeypatch.chdir(incident)
    if language == "python":
        exec(compile(text, request.node.callspec.id, "exec"), {"__name__": "__main__"})
        out, err = capfd.readouterr()
    elif request.node.callspec.id == INSTALLED:
        beside = Path(sys.executable).parent
        if shutil.which("kvpm", path=str(beside)) is None:
            pytest.skip("kvpm is not beside this Python")
        env = os.environ | {"PATH": os.pathsep.join((str(incident / "bin"), str(beside), os.environ["PATH"]))}
        done = subprocess.run(["sh", "-eu", "-c", text], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        out, err = done.stdout, done.stderr
    else:
        done = run_script(text, incident, incident / "bin", dict(os.environ))
        assert done.returncode == 0, done.stderr
        out, err = done.stdout, done.stderr
    assert "kvpm:" not in err
    assert out.strip()


def test_there_are_blocks_to_run() -> None:
    assert len(BLOCKS) >= 4


def test_every_kvpm_block_of_the_readme_is_run() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    untested = _TESTED.sub("", text)
    for block in re.findall(r"^```\w*\n(.*?)^```$", untested, re.MULTILINE | re.DOTALL):
        assert "kvpm " not in block, block


def test_readme_has_every_command_question_and_cause() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in cli.list_commands(click.Context(cli)):
        assert f"kvpm {name}" in text or name in ("demo", "formats"), name
    for q in questions().values():
        assert f"| {q.number} | {q.title.split(':')[0]}" in text, q.title
    positions = [text.index(f"`{cause}`") for cause in get_args(Cause)]
    assert positions == sorted(positions)


def test_readme_says_which_causes_are_never_given() -> None:
    """A cause with a star in the table is one that no cause's code names."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    starred = {c for row in re.findall(r"^\| (`.*?) \* \|", text, re.MULTILINE) for c in re.findall(r"`(\w+)`", row)}
    folder = Path(causes.__file__).parent
    code = "".join(p.read_text(encoding="utf-8") for p in folder.glob("*.py"))
    never = {c for c in get_args(Cause) if f'"{c}"' not in code}
    assert starred == never, "README's table of causes stars those that no cause's code gives"


def test_the_verdict_page_has_the_thresholds_as_they_are() -> None:
    text = (ROOT / "docs/verdict.md").read_text(encoding="utf-8")
    said = re.findall(r"`(\w+)`\s\(([\d.]+)\)", text)
    known = thresholds()
    assert len(said) > 15
    for name, value in said:
        assert float(value) == known[name], name


def test_the_verdict_page_has_every_queue_state() -> None:
    text = (ROOT / "docs/verdict.md").read_text(encoding="utf-8")
    sql = next(f.text for f in sql_files() if f.name == "state")
    case = sql[sql.rindex("CASE") :]
    for state in re.findall(r"(?:THEN|ELSE) '(\w+)'", case):
        assert f"| `{state}` |" in text, state


@pytest.mark.parametrize("path", PROSE, ids=lambda p: p.name)
def test_nothing_of_a_machine_shows(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?:^|[\s\"'`(=])/(?:work|root|home|tmp|Users)\b", text)
    for host in re.findall(r"https?://([\w.:-]+)", text):
        assert host.split(":")[0] in ("localhost", "127.0.0.1"), f"{path.name}: {host}"
    assert not re.search(r"pypi|index-url|trusted-host|artifactory|nexus", text, re.IGNORECASE)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", PROSE, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)):
        name, _, anchor = target.partition("#")
        there = (path.parent / name) if name else path
        assert there.exists(), f"{path.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {_anchor(h) for h in headings}, f"{path.name} links to {target}"


def test_the_picture_is_small() -> None:
    assert (ROOT / "docs/report.png").stat().st_size < 250_000
