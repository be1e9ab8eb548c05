"""What is waited for before anything is read: the help, and the verdict on a small log."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator

from benchmarks.contest import Contest, Reader
from benchmarks.inputs import logs
from benchmarks.inputs.writing import MB, write
from benchmarks.workshop import Workshop, kvpm

TURNS = 5
PYTHON = Reader("python -c pass", [sys.executable, "-c", "pass"])


def contests(work: Workshop) -> Iterator[Contest]:
    """CPU seconds, which are what is waited for where nothing else runs: hardly any of it is done by two threads."""
    if work.wants("help"):
        yield Contest("help", Reader("kvpm --help", kvpm("--help")), [PYTHON], cpu_below=0.2, turns_at_least=TURNS)
    if work.wants("verdict on 1 MB"):
        folder = work.made("small")
        log = folder / "server.log"
        write(log, logs.incident(MB), MB)
        ours = Reader("kvpm diagnose", kvpm("diagnose", log))
        yield Contest("verdict on 1 MB", ours, [PYTHON], cpu_below=1.5, turns_at_least=TURNS)
        shutil.rmtree(folder)
