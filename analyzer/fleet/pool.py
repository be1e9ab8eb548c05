"""Worker processes that do one capture after another, and whose death costs one capture only: another process tries it again.

A worker is a Python of its own that reads a task a line from its standard input and answers with a line. It is started
with the environment that keeps numeric libraries to one thread, which has to be there before they are loaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import analyzer
from analyzer.errors import ExitCode

Task = dict[str, Any]
Answer = dict[str, Any]

WORKER = "from analyzer.fleet.worker import main; main()"
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "ARROW_NUM_THREADS",
    "ARROW_IO_THREADS",
    "KVPM_JOBS",
)


def run_all(
    tasks: Iterable[tuple[str, Task]], *, jobs: int, timeout: float | None = None, attempts: int = 1
) -> Iterator[tuple[str, Answer]]:
    """Answers of all (key, task) as they come, from at most `jobs` processes at a time; `timeout` is in seconds a task.

    A task whose process died is given to a new one, until `attempts` have been made.
    An answer is what `analyzer.fleet.worker` says, or {"died": exit status, negative for a signal}, or {"timeout": True}.
    When the iterator is left early, the processes are ended.
    """
    waiting: queue.SimpleQueue[tuple[str, Task]] = queue.SimpleQueue()
    total = 0
    for task in tasks:
        waiting.put(task)
        total += 1
    answers: queue.SimpleQueue[tuple[str, Answer] | BaseException] = queue.SimpleQueue()
    hands = [_Hand(waiting, answers, timeout, attempts) for _ in range(min(jobs, total))]
    for hand in hands:
        hand.start()
    try:
        for _ in range(total):
            answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            yield answer
    finally:
        for hand in hands:
            hand.stop()
        for hand in hands:
            hand.join()


class Process:
    """One worker process, started with its first task, and anew with the next one after it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        # a process must not be started after `stop` has looked for one
        self._starting = threading.Lock()

    def ask(self, task: Task, timeout: float | None = None) -> Answer:
        """The answer to `task`, or how the process ended, as `run_all` has it; `timeout` is in seconds."""
        try:
            process = self._running()
        except OSError as error:
            return {"failed": [f"no process for it: {error.strerror or error}", "fewer --jobs", int(ExitCode.INTERNAL)]}
        if process is None:
            return {"died": 0}
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = None if timeout is None else threading.Timer(timeout, give_up)
        if timer is not None:
            timer.start()
        try:
            line = _exchange(process, json.dumps(task).encode() + b"\n")
        finally:
            if timer is not None:
                timer.cancel()
        if line.endswith(b"\n"):
            answer: Answer = json.loads(line)
            return answer
        status = self.end()
        return {"timeout": True} if late.is_set() else {"died": status}

    @property
    def stopped(self) -> bool:
        """True after `stop`."""
        return self._stopped

    def stop(self) -> None:
        """End the process at once, whatever it is doing, and start no other."""
        with self._starting:
            self._stopped = True
            process = self._process
            if process is not None:
                process.kill()

    def end(self) -> int:
        """Wait until the process is gone, for which the end of its input is a reason; returns its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        status = process.wait()
        process.stdout.close()
        return status

    def _running(self) -> subprocess.Popen[bytes] | None:
        """The process, a new one if there is none; None after `stop`."""
        with self._starting:
            if self._stopped:
                return None
            if self._process is None:
                self._process = _start()
            return self._process


class _Hand(threading.Thread):
    """Serves one worker process: a task out, an answer in."""

    def __init__(
        self,
        waiting: queue.SimpleQueue[tuple[str, Task]],
        answers: queue.SimpleQueue[tuple[str, Answer] | BaseException],
        timeout: float | None,
        attempts: int,
    ) -> None:
        super().__init__(daemon=True)
        self._waiting, self._answers, self._timeout, self._attempts = waiting, answers, timeout, attempts
        self._process = Process()

    def run(self) -> None:
        try:
            while not self._process.stopped:
                try:
                    key, task = self._waiting.get_nowait()
                except queue.Empty:
                    break
                self._answers.put((key, self._answer(task)))
        except BaseException as error:
            # a thread has nobody to tell but the one who waits for its answers
            self._answers.put(error)
        finally:
            self._process.end()

    def stop(self) -> None:
        """End the process at once, whatever it is doing."""
        self._process.stop()

    def _answer(self, task: Task) -> Answer:
        for _ in range(self._attempts):
            answer = self._process.ask(task, self._timeout)
            if "died" not in answer:
                break
        return answer


def _exchange(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """The line that answers `line`; empty, or without an end, when the process is gone."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        return process.stdout.readline()
    except BrokenPipeError:
        return b""


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(analyzer.__file__).resolve().parents[1])
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        # -P: nothing that lies in the folder of a capture is imported
        [sys.executable, "-P", "-c", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("KVPM_DEBUG") else subprocess.DEVNULL,
        env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": os.pathsep.join(path)},
        # an interrupt of the terminal is for the batch, which then ends its workers
        start_new_session=True,
    )


def told_death(status: int) -> str:
    """Why a process is gone, from its exit status."""
    if status >= 0:
        return f"its process ended by itself with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"its process was ended by {name}"
