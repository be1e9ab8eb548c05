"""Every suite makes its inputs, names who reads them, and leaves nothing behind."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

import benchmarks.__main__ as command
from benchmarks.contest import Contest
from benchmarks.machine import described
from benchmarks.suites import SUITES
from benchmarks.table import read_runs
from benchmarks.workshop import Workshop


def contests(folder: Path, only: str = "*") -> list[Contest]:
    """All contests at a tenth of a megabyte, each looked at while its input is there."""
    found = []
    work = Workshop(folder, lambda _: None, size=100_000, only=only)
    for suite in SUITES:
        for contest in suite(work):
            for reader in (contest.ours, *contest.peers):
                given = [part for part in map(Path, reader.command) if part.is_absolute() and folder in part.parents]
                assert all(part.exists() for part in given if part.suffix != ".kvtrace"), reader
            found.append(contest)
    return found


def test_each_input_has_a_name_and_peers_of_its_own_and_is_removed(tmp_path: Path) -> None:
    found = contests(tmp_path)
    assert len({contest.input for contest in found}) == len(found) >= 10
    for contest in found:
        names = [reader.name for reader in (contest.ours, *contest.peers)]
        assert len(set(names)) == len(names) > 1
        assert contest.cpu_below or contest.peak_below
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_wanted_is_made(tmp_path: Path) -> None:
    assert [contest.input for contest in contests(tmp_path, "dense, S*")] == ["dense, SGLang"]
    assert {contest.input for contest in contests(tmp_path, "vLLM")} == {"dense, vLLM"}


def test_the_command_measures_and_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command.main(["--size", "0.1", "--turns", "1", "--only", "requests", "--folder", str(tmp_path)])
    out = capsys.readouterr().out
    ours, theirs = read_runs(out)
    assert (ours.reader, theirs.reader) == ("kvpm ingest", "orjson, merely parsing")
    assert ours.found == theirs.found
    assert ours.found
    assert "requests with prompts: rate, in parts of orjson, merely parsing" in out
    assert "FAILED" not in out
    assert list(tmp_path.iterdir()) == []


def test_the_machine_is_described_without_its_name_or_paths() -> None:
    said = described()
    assert f"Python {platform.python_version()}" in said
    assert "cores" in said
    assert "/" not in said
    assert platform.node() not in said
