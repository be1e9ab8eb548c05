"""Work on many things over several processes; the results come in the order of the things.

A process is a Python of its own that is told what to do with each thing, then one thing after the other, and answers each. It is
not forked and runs nothing of the program that called: that one may have threads, and no main guard.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import analyzer
from analyzer.errors import ExitCode, KvpmError
from analyzer.fleet.pool import told_death
from analyzer.memory import keep_heap

Thing = TypeVar("Thing")
Result = TypeVar("Result")

_WORKER = "from analyzer.processes import work; work()"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
# Things may be large: of each process one is in work and one waits.
_HELD = 2
_ENDING_S = 2.0
# What a pipe takes before its reader is woken up, in bytes.
_PIPE = 1 << 20


def cores() -> int:
    """How many processes are to run at a time: one a core, or KVPM_JOBS."""
    told = os.environ.get("KVPM_JOBS", "")
    if told.isascii() and told.isdigit() and int(told) > 0:
        return int(told)
    # what the process may use is less than what the machine has, in a container or under taskset
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work_on: Callable[[Thing], Result], things: Iterable[Thing], *, jobs: int) -> Iterator[tuple[Thing, Result]]:
    """(thing, `work_on(thing)`) of each, in their order, from `jobs` processes; few things are taken ahead.

    `work_on`, things and results are pickled. Raises the KvpmError that `work_on` raised, and one where it failed
    otherwise or a process died. When the iterator is left early, the processes are ended.
    """
    processes = [_start() for _ in range(jobs)]
    free: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
    out: deque[tuple[Thing, Future[Result]]] = deque()
    pool = ThreadPoolExecutor(jobs)

    def ask(thing: Thing) -> Result:
        process = free.get()
        try:
            return cast(Result, _ask(process, thing))
        finally:
            free.put(process)

    try:
        for process in processes:
            _tell(process, work_on)
            free.put(process)
        for thing in things:
            out.append((thing, pool.submit(ask, thing)))
            if len(out) >= jobs * _HELD:
                first, answer = out.popleft()
                yield first, answer.result()
        while out:
            first, answer = out.popleft()
            yield first, answer.result()
    finally:
        for process in processes:
            process.kill()
        pool.shutdown(cancel_futures=True)
        for process in processes:
            _close(process)


def _tell(process: subprocess.Popen[bytes], thing: Any) -> None:
    assert process.stdin is not None
    try:
        pickle.dump(thing, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
    except OSError as error:
        raise _lost(process) from error


def _ask(process: subprocess.Popen[bytes], thing: Any) -> Any:
    _tell(process, thing)
    assert process.stdout is not None
    try:
        done, value = pickle.load(process.stdout)
    except (EOFError, OSError, pickle.UnpicklingError) as error:
        raise _lost(process) from error
    if not done:
        message, hint, code = value
        raise KvpmError(message, hint=hint, exit_code=ExitCode(code))
    return value


def _lost(process: subprocess.Popen[bytes]) -> KvpmError:
    # one that ends by itself is given the time to say how
    try:
        status = process.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    told = f"a part of the work was lost: {told_death(status)}"
    return KvpmError(told, hint="perhaps memory ran out: try --jobs 1", exit_code=ExitCode.INTERNAL)


def _close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    # what it had not read is thrown away
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.stdout.close()
    process.wait()


def work() -> None:
    """What a process does: it is told what to do, and does it with each thing until there are no more."""
    source, out = sys.stdin.buffer, sys.stdout.buffer
    # nothing that is printed by the way may come between answers
    sys.stdout = sys.stderr
    work_on: Callable[[Any], Any] = pickle.load(source)
    keep_heap()
    while True:
        try:
            thing = pickle.load(source)
        except EOFError:
            return
        pickle.dump(_tried(work_on, thing), out, protocol=pickle.HIGHEST_PROTOCOL)
        out.flush()


def _tried(work_on: Callable[[Any], Any], thing: Any) -> tuple[bool, Any]:
    try:
        return True, work_on(thing)
    except KvpmError as error:
        return False, (error.message, error.hint, int(error.exit_code))
    except Exception as error:
        if os.environ.get("KVPM_DEBUG"):
            raise
        told = (str(error).splitlines() or [""])[0][:200]
        return False, (f"internal error: {type(error).__name__}: {told}", "try --jobs 1", int(ExitCode.INTERNAL))


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(analyzer.__file__).resolve().parents[1])
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        # -P: nothing that lies in the folder of a capture is imported
        [sys.executable, "-P", "-c", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("KVPM_DEBUG") else subprocess.DEVNULL,
        env={**os.environ, **dict.fromkeys((*_ONE_THREAD, "KVPM_JOBS"), "1"), "PYTHONPATH": os.pathsep.join(path)},
        # an interrupt of the terminal is for the command, which then ends them
        start_new_session=True,
        pipesize=_PIPE,
    )
