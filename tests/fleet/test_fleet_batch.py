"""A batch over time: what is made, left, made again and removed. No capture is read here: reading one is played."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet_fakes import summary

from analyzer import language
from analyzer.errors import KvpmError, NothingUsableError
from analyzer.fleet import batch, worker
from analyzer.fleet.batch import BatchResult, Options, run_batch
from analyzer.fleet.model import Reading
from analyzer.fleet.pool import Task


class Stage:
    """Captures in a folder, a batch of them, and which were read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.captures = root / "captures"
        self.out = root / "out"
        self.read: list[str] = []
        self.dies: set[str] = set()
        self.interrupt_after: int | None = None

    def put(self, name: str, text: str = "x", file: str = "server.log") -> Path:
        path = self.captures / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, **options: Any) -> BatchResult:
        self.read.clear()
        return run_batch([str(self.captures)], self.out, Options(**options))

    def play(
        self, tasks: Iterable[tuple[str, Task]], *, jobs: int, timeout: float | None, attempts: int
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for done, (key, task) in enumerate(tasks):
            if self.interrupt_after == done:
                raise KeyboardInterrupt
            yield key, {"died": -9} if key in self.dies else worker.answer(task)

    def made(self, task: worker.Task) -> dict[str, Any]:
        name = task.capture.name
        self.read.append(name)
        here = task.capture.base / task.capture.inputs[0]
        text = "".join(p.read_text() for p in ([here] if here.is_file() else sorted(here.rglob("*.log"))))
        if "unreadable" in text:
            raise NothingUsableError(f"{name}/server.log is binary", hint="give text")
        if "broken" in text:
            raise RuntimeError(f"no luck with {self.root}/scratch/x.parquet")
        (task.out / "reports" / task.report).write_text(f"report of {text}", encoding="utf-8")
        return summary().to_json()

    def state(self) -> dict[str, Any]:
        stored: dict[str, Any] = json.loads((self.out / "batch.json").read_text())
        return stored

    def bytes(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.out)): p.read_bytes() for p in sorted(self.out.rglob("*")) if p.is_file()}

    def reports(self) -> list[str]:
        return sorted(p.name for p in (self.out / "reports").iterdir())


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    # the worker changes the folder it stands in, and here it is this process
    monkeypatch.chdir(tmp_path)
    made = Stage(tmp_path)
    monkeypatch.setattr(batch, "run_all", made.play)
    monkeypatch.setattr(worker, "_made", made.made)
    for name in ("a", "b", "c"):
        made.put(name)
    return made


def test_each_capture_has_a_report_and_the_index_leads_to_it(stage: Stage) -> None:
    result = stage.run()
    assert (result.made, result.kept, result.removed) == (3, 0, 0)
    assert stage.reports() == ["a.html", "b.html", "c.html"]
    index = result.index.read_text(encoding="utf-8")
    assert all(f'href="reports/{name}.html"' in index for name in "abc")
    assert [c["inputs"][0]["path"] for c in stage.state()["captures"]] == ["a/server.log", "b/server.log", "c/server.log"]


def test_what_did_not_change_is_not_read_again(stage: Stage) -> None:
    stage.run()
    before = stage.bytes()
    result = stage.run()
    assert (result.made, result.kept, stage.read) == (0, 3, [])
    assert stage.bytes() == before


def test_what_a_killed_run_left_half_written_is_removed(stage: Stage) -> None:
    stage.run()
    before = stage.bytes()
    for name in (".batch.json.4711.part", ".index.html.4711.part"):
        (stage.out / name).write_text("{")
    other = stage.out / ".batch.json.mine.part"
    other.write_text("")
    stage.run()
    assert stage.bytes() == before | {other.name: b""}


def test_a_time_of_change_alone_changes_nothing(stage: Stage) -> None:
    stage.run()
    os.utime(stage.put("a"), (1, 1))
    assert stage.run().kept == 3
    assert stage.read == []
    assert stage.state()["captures"][0]["inputs"][0]["mtime_ns"] == 10**9


def test_what_changed_is_read_again(stage: Stage) -> None:
    stage.run()
    stage.put("a", "longer")
    stage.put("b", "more", "other.log")
    (stage.out / "reports" / "c.html").unlink()
    stage.run()
    assert stage.read == ["a", "b", "c"]
    assert (stage.out / "reports" / "a.html").read_text() == "report of longer"


def test_other_options_another_language_and_force_make_all_anew(stage: Stage, tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("full_usage = 0.85\n")
    stage.run()
    for options in ({"reading": Reading(year=2026)}, {"thresholds": limits}, {"force": True}):
        assert stage.run(**options).made == 3
    limits.write_text("full_usage = 0.8\n")
    assert stage.run(thresholds=limits).made == 3
    assert "full_usage" in (stage.out / "index.html").read_text()
    with language.use("zh"):
        assert stage.run(thresholds=limits).made == 3
    assert '<html lang="zh">' in (stage.out / "index.html").read_text(encoding="utf-8")


def test_a_capture_that_is_gone_leaves_the_index_and_its_report_goes(stage: Stage) -> None:
    stage.run()
    (stage.captures / "b" / "server.log").unlink()
    mine = stage.out / "reports" / "notes.html"
    mine.write_text("mine")
    result = stage.run()
    assert result.removed == 1
    assert stage.reports() == ["a.html", "c.html", "notes.html"]
    assert "reports/b.html" not in result.index.read_text()


def test_failures_stop_nothing_and_are_told(stage: Stage) -> None:
    stage.put("a", "unreadable")
    stage.put("b", "broken")
    stage.put("d", "fine")
    stage.dies = {"c"}
    result = stage.run()
    assert [r.name for r in result.fleet.captures] == ["d"]
    assert [(f.name, f.reason, f.exit_code) for f in result.fleet.failures] == [
        ("a", "a/server.log is binary", 3),
        ("b", "internal error: RuntimeError: no luck with …/x.parquet", 5),
        ("c", "its process was ended by SIGKILL", 5),
    ]
    index = result.index.read_text(encoding="utf-8")
    assert all(f.reason in index for f in result.fleet.failures)
    assert str(stage.root) not in index + json.dumps(stage.state())


def test_a_capture_that_fails_now_loses_its_old_report_and_is_tried_again(stage: Stage) -> None:
    stage.run()
    stage.put("a", "unreadable")
    stage.run()
    assert stage.reports() == ["b.html", "c.html"]
    stage.run()
    assert stage.read == ["a"]
    stage.put("a", "well again")
    assert not stage.run().fleet.failures


def test_an_interrupted_batch_goes_on_where_it_was(stage: Stage) -> None:
    stage.interrupt_after = 2
    with pytest.raises(KeyboardInterrupt):
        stage.run()
    assert [c["name"] for c in stage.state()["captures"]] == ["a", "b"]
    stage.interrupt_after = None
    result = stage.run()
    assert (result.made, result.kept, stage.read) == (1, 2, ["c"])


def test_an_interrupted_run_over_an_older_one_loses_nothing(stage: Stage) -> None:
    stage.run()
    for name in ("a", "b", "c"):
        stage.put(name, "newer")
    stage.interrupt_after = 1
    with pytest.raises(KeyboardInterrupt):
        stage.run()
    stage.interrupt_after = None
    stage.run()
    assert stage.read == ["b", "c"]


def test_a_file_that_a_folder_happens_to_hold_is_no_failure(stage: Stage) -> None:
    loose = stage.captures / "a"
    (loose / "README.md").write_text("unreadable", encoding="utf-8")
    result = run_batch([str(loose)], stage.out)
    assert result.of_files == (str(loose),)
    assert [r.name for r in result.fleet.captures] == ["server.log"]
    assert [(s.what, s.why) for s in result.fleet.skipped] == [("README.md", "README.md/server.log is binary")]
    assert not result.fleet.failures


def test_a_folder_of_somebody_else_is_left_alone(stage: Stage) -> None:
    stage.out.mkdir()
    (stage.out / "thesis.txt").write_text("mine")
    with pytest.raises(KvpmError, match="not those of a batch"):
        stage.run()
    (stage.out / "batch.json").write_text("{}")
    with pytest.raises(KvpmError, match="cannot be understood"):
        stage.run()
    (stage.out / "batch.json").write_text('{"kind": "kvpm batch", "format_version": 99}')
    with pytest.raises(KvpmError, match="format 99"):
        stage.run()
    assert sorted(p.name for p in stage.out.iterdir()) == ["batch.json", "thesis.txt"]


@pytest.mark.parametrize("path", ["reports/../../thesis.html", "/thesis.html", "thesis.html", "reports/.x", "reports/a/b", 3])
def test_a_record_that_names_a_file_elsewhere_is_not_believed(stage: Stage, path: object) -> None:
    stage.run()
    thesis = stage.root / "thesis.html"
    thesis.write_text("mine")
    state = stage.state()
    state["captures"][1]["report"] = path
    (stage.out / "batch.json").write_text(json.dumps(state))
    (stage.captures / "b" / "server.log").unlink()
    stage.run()
    assert thesis.read_text() == "mine"
    assert [c["name"] for c in stage.state()["captures"]] == ["a", "c"]


def test_names_that_clash_or_attack_have_files_of_their_own(stage: Stage) -> None:
    for name in ("A", "a b", "a_b", "<img src=x onerror=1>", "x'\"; rm -rf ~", "周二"):
        stage.put(name)
    result = stage.run()
    assert not result.fleet.failures
    names = stage.reports()
    assert len(names) == len({n.casefold() for n in names}) == 9
    assert "<img" not in result.index.read_text(encoding="utf-8")


def test_steps_are_told_up_to_the_last(stage: Stage) -> None:
    steps: list[tuple[int, int, str]] = []
    run_batch([str(stage.captures)], stage.out, told=lambda s: steps.append((s.done, s.total, getattr(s.last, "name", ""))))
    assert steps == [(0, 3, ""), (1, 3, "a"), (2, 3, "b"), (3, 3, "c")]


def test_reports_are_made_again_when_a_replay_is_asked_for_and_kept_after_that(stage: Stage) -> None:
    stage.run()
    assert stage.run(replay=True).made == 3
    assert stage.run(replay=True).kept == 3
    assert stage.run().made == 3
