"""From what a worker made to what a batch has: the one place that puts files into the folder of a batch.

A worker writes into a folder of its own, or on a cluster sends what it wrote. Whichever attempt at a capture is the first to
answer is published; nothing of another one ever is.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from analyzer.fleet.dataset import store
from analyzer.fleet.state import DATASET, REPORTS, TRACES


def pack(staging: Path) -> dict[str, bytes]:
    """All files below `staging`, by their path in it."""
    return {p.relative_to(staging).as_posix(): p.read_bytes() for p in sorted(staging.rglob("*")) if p.is_file()}


def unpack(files: Mapping[str, bytes], staging: Path) -> None:
    """Write packed files below `staging`, in place of what is there. Raises ValueError for a path that leads out of it."""
    shutil.rmtree(staging, ignore_errors=True)
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"a worker sent a file for {name!r}")
        target = staging / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def publish(staging: Path, out: Path, part: str, files: Mapping[str, bytes] | None = None) -> None:
    """Move what was made of one capture, in `staging` or sent as `files`, to where the batch has it. Each file appears whole.

    `part` is the stem of its files in the dataset; where none were made, those that it had are gone.
    """
    if files is not None:
        unpack(files, staging)
    for report in (staging / REPORTS).glob("*"):
        report.replace(out / REPORTS / report.name)
    for trace in (staging / TRACES).glob("*"):
        target = out / TRACES / trace.name
        shutil.rmtree(target, ignore_errors=True)
        trace.rename(target)
    if (staging / DATASET).is_dir():
        store.replace(out / DATASET, part, staging / DATASET)
    else:
        store.remove(out / DATASET, part)
    shutil.rmtree(staging, ignore_errors=True)
