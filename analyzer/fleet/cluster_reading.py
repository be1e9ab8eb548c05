"""Reads the inputs of one trace on a Dask cluster: one task for each, whose rows come back to be assembled here."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from analyzer.errors import ExitCode, KvpmError
from analyzer.fleet.cluster import run_all_on
from analyzer.fleet.pool import Answer, told_death
from analyzer.fleet.publish import unpack
from analyzer.input_reading import Got, Problem, Task, read_input
from analyzer.trace.spool import Spool

_ROWS = "rows"


def read_on(address: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Got]]:
    """(task, what reading its input gave) as they come; the rows lie in the task's own folder. No input is standard input.

    An input that no worker could read is a problem of that input. Raises KvpmError as `read_input` does, and for a
    cluster that is not there.
    """
    by_key = {task.source_id: task for task in tasks}
    if not by_key:
        return
    for key, answer in run_all_on(address, ((key, _told(task)) for key, task in by_key.items())):
        yield by_key[key], _got(by_key[key], answer)


def read_here(told: str, out: str) -> dict[str, Any]:
    """What a worker does with the task that `_told` packed: reads the input, with its rows in the folder `out`."""
    task: Task = pickle.loads(base64.b64decode(told))
    folder = Path(out) / _ROWS
    got = read_input(replace(task, folder=folder))
    # of a table in a store there is a copy beside its rows, which nobody needs any more
    for copy in Path(out).glob(f"{_ROWS}.*"):
        copy.unlink()
    return {"got": base64.b64encode(pickle.dumps(got)).decode()}


def _told(task: Task) -> dict[str, Any]:
    # a path is of the folder that this process stands in
    item = task.item if task.item.path is None else replace(task.item, path=task.item.path.resolve())
    return {"read": base64.b64encode(pickle.dumps(replace(task, item=item))).decode(), "lang": "en"}


def _got(task: Task, answer: Answer) -> Got:
    if "failed" in answer:
        message, hint, code = answer["failed"]
        raise KvpmError(message, hint=hint, exit_code=ExitCode(code))
    if "got" not in answer:
        problem = Problem(task.item.name, f"cannot be read: {told_death(answer['died'])}", io=True)
        return Got(Spool(task.folder), problem=problem)
    unpack(answer["files"], task.folder)
    got: Got = pickle.loads(base64.b64decode(answer["got"]))
    got.spool.move(task.folder / _ROWS)
    return got
