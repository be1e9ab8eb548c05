"""The kept table is read back as it was written, and what became worse is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import benchmarks.__main__ as command
from benchmarks.contest import Bar, Results, Row
from benchmarks.guard import unknown, worse
from benchmarks.page import page
from benchmarks.table import bars_table, read_runs, runs_table

OURS = Row("dense, SGLang", "kvpm ingest", 400.0, 2_215_120, 12.345, 13.5, 480.0)
THEIRS = Row("dense, SGLang", "rg -c", 400.0, 2_215_120, 0.9, 0.6, 411.0, 0.25)
HELP = Row("help", "python -c pass", cpu_s=0.015, wall_s=0.016, peak_mb=9.0, ratio=0.183)
GONE = Row("dense, SGLang", "mawk", 400.0)
KEPT = [OURS, THEIRS, HELP, GONE]
RESULTS = Results(KEPT, [Bar("dense, SGLang: rate, in parts of rg -c", "≥ 0.25", "0.25", True)])


def test_a_page_is_read_back_as_it_was_written() -> None:
    assert read_runs(page(RESULTS, "a machine", 3, 1)) == KEPT
    assert read_runs(runs_table([])) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# A page\n\n| bar | wanted |\n|---|---|\n", "no table with the columns input, reader"),
        (runs_table(KEPT) + "\n| one | cell |\n", "2 cells where 9 are wanted"),
        (runs_table(KEPT).replace("0.25", "much"), "could not convert"),
    ],
)
def test_a_page_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_runs(text)


def test_a_missed_bar_stands_out() -> None:
    table = bars_table([Bar("one", "≥ 1", "2", True), Bar("other", "≥ 1", "0.5", False)])
    assert [line.split("|")[-2].strip() for line in table.splitlines()[2:]] == ["yes", "**no**"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (THEIRS, THEIRS, None),
        (THEIRS, replace(THEIRS, ratio=0.17), None),
        (
            THEIRS,
            replace(THEIRS, ratio=0.16),
            "dense, SGLang, rg -c: kvpm has 0.16 of its rate and had 0.25: 1.56 times worse, 1.5 is allowed",
        ),
        (THEIRS, replace(THEIRS, ratio=5.0), None),
        (THEIRS, replace(THEIRS, ratio=None, cpu_s=None), "dense, SGLang, rg -c: the kept ratio is 0.25, and now there is none"),
        (THEIRS, replace(THEIRS, mb=404.0), None),
        (THEIRS, replace(THEIRS, mb=20.0), "dense, SGLang, rg -c: kept with 400 MB and measured with 20 MB, which cannot be compared"),
        (HELP, HELP, None),
        (HELP, replace(HELP, mb=1.0), "help, python -c pass: kept with no size and measured with 1 MB, which cannot be compared"),
        (OURS, replace(OURS, cpu_s=100.0, peak_mb=600.0), None),
        (OURS, replace(OURS, peak_mb=700.0), "dense, SGLang, kvpm ingest: 700 MB at its peak, and had 480: more than 1.3 times as much"),
        (OURS, replace(OURS, cpu_s=None, peak_mb=None), "dense, SGLang, kvpm ingest: failed, and did not when the table was kept"),
        (GONE, replace(GONE, ratio=0.1, cpu_s=2.0), None),
    ],
)
def test_only_what_is_worse_by_more_than_the_factor_is_told(before: Row, after: Row, told: str | None) -> None:
    assert list(worse([before], [after], factor=1.5)) == ([told] if told else [])


def test_the_factor_can_be_given() -> None:
    assert list(worse([THEIRS], [replace(THEIRS, ratio=0.16)], factor=2)) == []
    assert list(worse([THEIRS], [replace(THEIRS, ratio=0.22)], factor=1.1)) != []


def test_rows_that_are_gone_or_new_are_told() -> None:
    new = Row("sparse, SGLang", "rg -c", 10.0, ratio=1.0)
    assert list(worse([THEIRS], [new])) == [
        "dense, SGLang, rg -c: is in the kept table and was not measured; keep a new table if it is meant to be gone"
    ]
    assert unknown([THEIRS], [THEIRS, new]) == ["sparse, SGLang, rg -c"]


# -- the command


def run_with(monkeypatch: pytest.MonkeyPatch, results: Results, *arguments: str) -> int:
    """The command, where the measuring is done already."""
    monkeypatch.setattr(command, "measured", lambda _: results)
    return command.main(arguments)


def test_the_check_fails_with_what_became_worse(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "performance.md"
    assert run_with(monkeypatch, RESULTS, "--keep", str(kept)) == 0
    assert run_with(monkeypatch, RESULTS, "--check", str(kept)) == 0
    assert "Nothing is worse" in capsys.readouterr().out
    slow = Results([OURS, replace(THEIRS, ratio=0.1), HELP, GONE, Row("new", "kvpm")])
    assert run_with(monkeypatch, slow, "--check", str(kept)) == 1
    out = capsys.readouterr().out
    assert "WORSE: dense, SGLang, rg -c: kvpm has 0.1 of its rate" in out
    assert "new: new, kvpm is not in" in out
    assert run_with(monkeypatch, slow, "--check", str(kept), "--factor", "3") == 0


def test_with_only_some_inputs_the_others_are_not_missed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept = tmp_path / "performance.md"
    run_with(monkeypatch, RESULTS, "--keep", str(kept))
    some = Results([HELP])
    assert run_with(monkeypatch, some, "--check", str(kept), "--only", "help") == 0
    assert run_with(monkeypatch, some, "--check", str(kept)) == 1


def test_a_check_without_a_table_says_how_to_make_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"No such file.*`make bench` keeps a table there"):
        run_with(monkeypatch, RESULTS, "--check", str(tmp_path / "performance.md"))


def test_missed_bars_and_failures_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missed = Results(KEPT, [Bar("speed", "≥ 1", "0.5", False)])
    assert run_with(monkeypatch, missed) == 1
    assert "MISSED: speed: 0.5, wanted is ≥ 1" in capsys.readouterr().out
    kept = tmp_path / "performance.md"
    assert run_with(monkeypatch, Results(KEPT, [], ["dense, mawk: exit code 127"]), "--keep", str(kept)) == 1
    assert "FAILED: dense, mawk: exit code 127" in capsys.readouterr().out
    assert not kept.exists(), "a table with holes guards nothing"


def test_wrong_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_with(monkeypatch, Results(), "--only", "nothing") == 2
    for arguments in (("--keep", "f", "--only", "help"), ("--turns", "0"), ("--size", "-1")):
        with pytest.raises(SystemExit):
            command.main(arguments)
