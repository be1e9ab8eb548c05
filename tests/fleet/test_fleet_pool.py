"""Worker processes: all tasks are answered, whatever becomes of the process that has one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from analyzer.fleet import pool

PROGRAM = """
import json, os, signal, sys, time
for line in sys.stdin:
    task = json.loads(line)
    if task.get("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if task.get("exit"):
        sys.exit(task["exit"])
    if task.get("sleep"):
        open(task["began"], "w").write(str(os.getpid()))
        time.sleep(task["sleep"])
    print(json.dumps({"n": task["n"], "pid": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"], "path": sys.path[0]}), flush=True)
"""


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORKER", PROGRAM)


def run(tasks: list[dict[str, Any]], **given: Any) -> dict[str, dict[str, Any]]:
    return dict(pool.run_all(((str(n), {"n": n, **task}) for n, task in enumerate(tasks)), **given))


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_task_is_answered_once(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers = run([{}] * 7, jobs=jobs)
    assert {key: a["n"] for key, a in answers.items()} == {str(n): n for n in range(7)}
    assert len({a["pid"] for a in answers.values()}) <= jobs
    assert {a["threads"] for a in answers.values()} == {"1"}
    # the folder one stands in is no place to import from
    assert {a["path"] for a in answers.values()}.isdisjoint((str(tmp_path), ""))


def test_a_process_that_dies_costs_its_own_task_only() -> None:
    answers = run([{}, {"kill": True}, {}, {"exit": 3}, {}], jobs=1)
    assert [answers[n].get("n") for n in "024"] == [0, 2, 4]
    assert answers["1"] == {"died": -9}
    assert answers["3"] == {"died": 3}
    assert pool.told_death(-9) == "its process was ended by SIGKILL"
    assert pool.told_death(3) == "its process ended by itself with status 3"


def test_a_task_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    answers = run([{"sleep": 60, "began": str(tmp_path / "b")}, {}], jobs=1, timeout=1.5)
    assert answers["0"] == {"timeout": True}
    assert answers["1"]["n"] == 1


def test_no_process_goes_on_when_the_answers_are_no_longer_wanted(tmp_path: Path) -> None:
    began = tmp_path / "began"
    answers = pool.run_all([("a", {"n": 1}), ("b", {"n": 2, "sleep": 60, "began": str(began)})], jobs=1)
    assert next(answers)[0] == "a"
    while not began.exists() or not began.read_text():
        time.sleep(0.01)
    answers.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(began.read_text()), 0)


def test_no_tasks_need_no_process() -> None:
    assert run([], jobs=4) == {}


def test_a_process_that_cannot_be_started_is_a_failure_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(pool, "_start", refuse)
    assert run([{}], jobs=1)["0"]["failed"][0] == "no process for it: Resource temporarily unavailable"
