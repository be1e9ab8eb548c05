"""What a worker of a Dask cluster does with a task: gives it to a process of its own and sends back what that made.

A process of its own, because a task changes the folder it stands in and may need more memory than there is: its death then
is the failure of a task and not of the worker. Imported on workers and by `analyzer.fleet.cluster`; needs no Dask itself.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from analyzer import __version__
from analyzer.errors import ExitCode
from analyzer.fleet.pool import Answer, Process, Task
from analyzer.fleet.publish import pack

_lock = threading.Lock()
_busy: dict[str, Process] = {}
_idle: list[Process] = []


def version() -> str:
    """The version of kvpm on this worker."""
    return __version__


def answered(key: str, task: Task, version: str, timeout: float | None) -> Answer:
    """The answer to `task`, as `analyzer.fleet.pool` has it, with the `files` that were made, by their path below `out`.

    `key` is this attempt's own, `version` the driver's, `timeout` in seconds.
    """
    if version != __version__:
        return {"failed": [f"a worker has kvpm {__version__}, and this is {version}", "install the same on all", int(ExitCode.USAGE)]}
    process = _taken(key)
    try:
        with tempfile.TemporaryDirectory(prefix="kvpm-", dir=_scratch(), ignore_cleanup_errors=True) as made:
            answer = process.ask({**task, "out": made}, timeout)
            if not answer.keys() & {"failed", "died", "timeout"}:
                answer["files"] = pack(Path(made))
            return answer
    finally:
        _given_back(key, process)


def stop(keys: Iterable[str]) -> None:
    """End the processes of these attempts at once, whatever they are doing."""
    with _lock:
        found = [_busy[key] for key in keys if key in _busy]
    for process in found:
        process.stop()


def end_idle() -> None:
    """End the processes that have no task."""
    with _lock:
        idle, _idle[:] = list(_idle), []
    for process in idle:
        process.end()


def _scratch() -> str | None:
    """The folder that Dask clears after a worker that died; None for the system's own."""
    try:
        from distributed import get_worker

        return str(get_worker().local_directory)
    except (ImportError, ValueError):
        return None


def _taken(key: str) -> Process:
    with _lock:
        process = _idle.pop() if _idle else Process()
        _busy[key] = process
        return process


def _given_back(key: str, process: Process) -> None:
    with _lock:
        _busy.pop(key, None)
        if not process.stopped:
            _idle.append(process)
