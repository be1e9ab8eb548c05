"""Many replays of one case, over several processes; the results come in the order of the questions.

A process is a Python of its own that is told the case and then one what-if after the other, and answers each. It is not forked and runs
nothing of the program that called: that one may have threads, and no main guard.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import analyzer
from analyzer.errors import ExitCode, KvpmError
from analyzer.fleet.pool import told_death
from analyzer.replay.model import Case, Change
from analyzer.replay.what_if import Measured, measure

# How many are done, of how many.
Told = Callable[[int, int], None]
Changes = tuple[Change, ...]

_WORKER = "from analyzer.replay.parallel import work; work()"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Requests to serve in all replays together, below which a process is not worth its start.
_FEW = 2_000


def measure_all(case: Case, what_ifs: Sequence[Changes], *, jobs: int, told: Told | None = None) -> list[Measured]:
    """`what_if.measure` of each, at most `jobs` at a time. Raises KvpmError where one cannot be made, or a process dies."""
    show = told or (lambda done, of: None)
    jobs = min(jobs, len(what_ifs))
    if jobs > 1 and len(what_ifs) * len(case.workload.requests) > _FEW:
        return _spread(case, what_ifs, jobs, show)
    measured: list[Measured] = []
    for changes in what_ifs:
        show(len(measured), len(what_ifs))
        measured.append(measure(case, changes))
    show(len(measured), len(what_ifs))
    return measured


def _spread(case: Case, what_ifs: Sequence[Changes], jobs: int, show: Told) -> list[Measured]:
    waiting: queue.SimpleQueue[tuple[int, Changes]] = queue.SimpleQueue()
    answers: queue.SimpleQueue[tuple[int, Measured] | BaseException] = queue.SimpleQueue()
    for task in enumerate(what_ifs):
        waiting.put(task)
    told_case = pickle.dumps(case)
    processes = [_start() for _ in range(jobs)]
    threads = [threading.Thread(target=_serve, args=(p, told_case, waiting, answers), daemon=True) for p in processes]
    for thread in threads:
        thread.start()
    done: dict[int, Measured] = {}
    try:
        while len(done) < len(what_ifs):
            show(len(done), len(what_ifs))
            answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            done[answer[0]] = answer[1]
        show(len(done), len(what_ifs))
    finally:
        for process in processes:
            process.kill()
        for thread in threads:
            thread.join()
    return [done[at] for at in range(len(what_ifs))]


def _serve(
    process: subprocess.Popen[bytes],
    case: bytes,
    waiting: queue.SimpleQueue[tuple[int, Changes]],
    answers: queue.SimpleQueue[tuple[int, Measured] | BaseException],
) -> None:
    """Ask one process until nothing waits; what goes wrong is told to who waits for answers."""
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(case)
            while True:
                at, changes = waiting.get_nowait()
                pickle.dump(changes, process.stdin)
                process.stdin.flush()
                answers.put((at, _answer(cast(BinaryIO, process.stdout))))
        except queue.Empty:
            pass
        except KvpmError as error:
            answers.put(error)
        except (EOFError, OSError, pickle.UnpicklingError):
            # closing would try to write what the process never read
            process.kill()
            answers.put(KvpmError(f"a replay was lost: {told_death(process.wait())}", hint="try --jobs 1", exit_code=ExitCode.INTERNAL))
        finally:
            _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    """The end of its input is the end of a process."""
    assert process.stdin is not None
    try:
        process.stdin.close()
    except OSError:
        # it is gone already, with a part of a question unread
        process.kill()


def _answer(out: BinaryIO) -> Measured:
    kind, value = pickle.load(out)
    if kind == "measured":
        return cast(Measured, value)
    message, hint, code = value
    raise KvpmError(message, hint=hint, exit_code=ExitCode(code))


def work() -> None:
    """What a process does: the case, then what-ifs until there are no more."""
    source, out = sys.stdin.buffer, sys.stdout.buffer
    # nothing that is printed by the way may come between answers
    sys.stdout = sys.stderr
    case: Case = pickle.load(source)
    while True:
        try:
            changes: Changes = pickle.load(source)
        except EOFError:
            return
        pickle.dump(_tried(case, changes), out)
        out.flush()


def _tried(case: Case, changes: Changes) -> tuple[str, Any]:
    try:
        return "measured", measure(case, changes)
    except KvpmError as error:
        return "refused", (error.message, error.hint, int(error.exit_code))
    except Exception as error:
        told = (str(error).splitlines() or [""])[0][:200]
        return "refused", (f"internal error in a replay: {type(error).__name__}: {told}", "try --jobs 1", int(ExitCode.INTERNAL))


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(analyzer.__file__).resolve().parents[1])
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        # -P: nothing that lies in the folder of a capture is imported
        [sys.executable, "-P", "-c", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("KVPM_DEBUG") else subprocess.DEVNULL,
        env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": os.pathsep.join(path)},
        # an interrupt of the terminal is for the command, which then ends them
        start_new_session=True,
    )
