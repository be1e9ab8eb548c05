"""Tasks on a real cluster of processes: each answered once, whatever becomes of the worker that has it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from dask_cluster import Cluster, dask_cluster, wait_until

from analyzer.errors import KvpmError
from analyzer.fleet import cluster, cluster_worker
from analyzer.fleet.cluster import Patience, run_all_on

# A worker process that answers with who it is, and lets itself be killed, held up, or make something.
PROGRAM = """
import json, os, pathlib, signal, sys, time
for line in sys.stdin:
    task = json.loads(line)
    began = pathlib.Path(task["began"])
    first = not began.exists()
    with began.open("a") as file:
        file.write(f"{os.getppid()} {os.getpid()}\\n")
    if task.get("kill") == "always" or (task.get("kill") == "once" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    if task.get("hold") and first:
        time.sleep(600)
    made = pathlib.Path(task["out"], "reports", f"{task['n']}.html")
    made.parent.mkdir()
    made.write_text(str(task["n"]))
    print(json.dumps({"n": task["n"], "pid": os.getpid(), "summary": {}}), flush=True)
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as environment:
        # the program that workers start in place of the real one
        site = tmp_path_factory.mktemp("site")
        (site / "sitecustomize.py").write_text(f"import analyzer.fleet.pool as pool\npool.WORKER = {PROGRAM!r}\n", encoding="utf-8")
        environment.setattr("dask_cluster.ROOT", f"{site}{os.pathsep}{Path(__file__).resolve().parents[2]}")
        with dask_cluster(tmp_path_factory.mktemp("cluster"), 2) as made:
            yield made


def tasks(folder: Path, *given: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(str(n), {"n": n, "began": str(folder / f"began-{n}"), **task}) for n, task in enumerate(given)]


def starts(folder: Path, n: int) -> list[tuple[int, int]]:
    """(worker, process) of each start of a task."""
    lines = (folder / f"began-{n}").read_text().splitlines()
    return [(int(a), int(b)) for a, b in (line.split() for line in lines)]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_each_task_is_answered_once_with_what_it_made(two: Cluster, tmp_path: Path) -> None:
    found = list(run_all_on(two.address, tasks(tmp_path, *[{}] * 9)))
    assert sorted(key for key, _ in found) == [str(n) for n in range(9)]
    assert all(a["files"] == {f"reports/{key}.html": key.encode()} for key, a in found)
    assert all(len(starts(tmp_path, n)) == 1 for n in range(9))
    # the processes of the workers ended with the batch
    wait_until(lambda: not any(alive(a["pid"]) for _, a in found))


def test_a_process_that_dies_is_followed_by_another_until_that_is_hopeless(two: Cluster, tmp_path: Path) -> None:
    found = dict(run_all_on(two.address, tasks(tmp_path, {"kill": "once"}, {"kill": "always"}, {})))
    assert (found["0"]["n"], found["2"]["n"]) == (0, 2)
    assert found["1"] == {"died": -9}
    assert [len(starts(tmp_path, n)) for n in range(3)] == [2, 3, 1]


def test_a_task_that_takes_too_long_is_given_up(two: Cluster, tmp_path: Path) -> None:
    found = dict(run_all_on(two.address, tasks(tmp_path, {"hold": True}, {}), timeout=5))
    assert (found["0"], found["1"]["n"]) == ({"timeout": True}, 1)


def test_a_task_that_is_late_is_started_a_second_time_elsewhere_and_counts_once(two: Cluster, tmp_path: Path) -> None:
    patience = Patience(factor=2.0, least_s=0.1, finished=3)
    found = list(run_all_on(two.address, tasks(tmp_path, {"hold": True}, *[{}] * 5), patience=patience))
    assert sorted(key for key, _ in found) == [str(n) for n in range(6)]
    (first_worker, held), (second_worker, _) = starts(tmp_path, 0)
    assert first_worker != second_worker
    # the first attempt does not go on for nobody
    wait_until(lambda: not alive(held))


def test_nothing_goes_on_when_the_answers_are_no_longer_wanted(two: Cluster, tmp_path: Path) -> None:
    answers = run_all_on(two.address, tasks(tmp_path, {}, {"hold": True}, {}))
    next(answers)
    wait_until(lambda: (tmp_path / "began-1").exists() and (tmp_path / "began-1").read_text().endswith("\n"))
    answers.close()
    ((_, held),) = starts(tmp_path, 1)
    wait_until(lambda: not alive(held))


def test_a_worker_that_is_killed_costs_no_answer(two: Cluster, tmp_path: Path) -> None:
    two.add()
    answers = run_all_on(two.address, tasks(tmp_path, {"hold": True}, *[{}] * 5))
    found = dict([next(answers)])
    wait_until(lambda: (tmp_path / "began-0").exists() and (tmp_path / "began-0").read_text().endswith("\n"))
    ((worker, held),) = starts(tmp_path, 0)
    os.kill(worker, signal.SIGKILL)
    found |= dict(answers)
    assert sorted(found) == [str(n) for n in range(6)]
    assert len({worker for worker, _ in starts(tmp_path, 0)}) == 2
    os.kill(held, signal.SIGKILL)


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.thorough)])
def test_of_many_tasks_each_is_answered_once_although_a_worker_dies(two: Cluster, tmp_path: Path, count: int) -> None:
    spare = two.add()
    two.ready()
    found = []
    for answer in run_all_on(two.address, tasks(tmp_path, *[{}] * count)):
        found.append(answer)
        if len(found) == count // 3:
            spare.kill()
    assert sorted(int(key) for key, _ in found) == list(range(count))
    assert all(answer["files"] == {f"reports/{key}.html": key.encode()} for key, answer in found)


def test_another_version_a_wrong_address_and_an_empty_cluster_are_told(
    two: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 1)
    for address in ("tcp://127.0.0.1:9", "nonsense://x", "127.0.0.1"):
        with pytest.raises(KvpmError, match="no Dask scheduler answers at"):
            list(run_all_on(address, []))
    with dask_cluster(tmp_path, 0) as empty, pytest.raises(KvpmError, match="has no worker"):
        list(run_all_on(empty.address, []))
    monkeypatch.setattr(cluster, "_CONNECT_S", 20)
    monkeypatch.setattr(cluster, "__version__", "0.0.0")
    with pytest.raises(KvpmError, match=r"has kvpm .*, and this is 0\.0\.0"):
        list(run_all_on(two.address, []))
    assert cluster_worker.answered("k", {}, "0.0.0", None)["failed"][1] == "install the same on all"
