"""Work spread over processes: order, errors, death, and what is taken ahead."""

from __future__ import annotations

import operator
import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from analyzer import processes
from analyzer.errors import ExitCode, KvpmError
from analyzer.processes import cores, spread
from analyzer.sources.discover import find_inputs


def test_results_come_in_the_order_of_the_things() -> None:
    # the first takes longest
    waits = [0.4, 0.0, 0.1, 0.0, 0.0]
    assert list(spread(time.sleep, waits, jobs=2)) == [(w, None) for w in waits]


def test_things_and_results_may_be_large() -> None:
    things = [bytes([n]) * (3 << 20) for n in range(5)]
    assert [r == b"!" + t for t, r in spread(partial(operator.concat, b"!"), things, jobs=2)] == [True] * 5


def test_few_things_are_taken_ahead() -> None:
    taken: list[int] = []

    def things() -> Iterator[int]:
        for n in range(100):
            taken.append(n)
            yield n

    for done, (thing, result) in enumerate(spread(operator.neg, things(), jobs=2)):
        assert (thing, result) == (done, -done)
        assert len(taken) <= done + 5
    assert len(taken) == 100


def test_each_thing_goes_to_another_process_than_this() -> None:
    found = {pid for _, pid in spread(partial(eval, "__import__('os').getpid()"), [{}, {}, {}, {}], jobs=2)}
    assert 1 <= len(found) <= 2
    assert os.getpid() not in found


def test_what_the_work_refuses_is_told_as_it_is() -> None:
    with pytest.raises(KvpmError, match="no such file") as caught:
        list(spread(find_inputs, [["/no/such/file"]], jobs=1))
    assert caught.value.exit_code == ExitCode.USAGE


def test_what_goes_wrong_in_the_work_is_an_internal_error() -> None:
    with pytest.raises(KvpmError, match="TypeError") as caught:
        list(spread(operator.neg, ["text"], jobs=1))
    assert caught.value.exit_code == ExitCode.INTERNAL


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("raise SystemExit(3)", "status 3"),
        ("print('no answer')", "lost"),
        ("import sys; sys.stdin.buffer.read(10); raise SystemExit(3)", "status 3"),
    ],
)
def test_a_process_that_dies_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch, program: str, found: str) -> None:
    monkeypatch.setattr(processes, "_WORKER", program)
    with pytest.raises(KvpmError, match=found) as caught:
        list(spread(operator.neg, [b"x" * (4 << 20)] * 4, jobs=2))
    assert caught.value.exit_code == ExitCode.INTERNAL


def test_processes_end_when_nobody_waits_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = processes._start

    def watched() -> Any:
        started.append(start())
        return started[-1]

    monkeypatch.setattr(processes, "_start", watched)
    found = spread(time.sleep, [0.0, 60.0, 60.0], jobs=2)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert [p.returncode is not None for p in started] == [True, True]


def test_cores_are_those_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 8}, raising=False)
    assert cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert cores() == 7
