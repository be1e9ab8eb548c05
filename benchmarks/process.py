"""One command run to its end: CPU seconds, wall seconds, peak memory, and what it said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
LAUNCHER = Path(__file__).with_name("launch.py")


@dataclass(frozen=True)
class Run:
    """What one run took. Seconds; `cpu_s` is user and system time, its children's too; `peak` is bytes of all its processes together."""

    cpu_s: float
    wall_s: float
    peak: int
    out: str


class Failed(Exception):
    """The command ended with another code than 0; its last words are the message."""


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> Run:
    """Run `command` in `folder`, with this project on the path of Python. Raises `Failed`."""
    given = os.environ | {"PYTHONPATH": str(ROOT)} | dict(environment or {})
    with TemporaryDirectory(prefix="said-", dir=folder) as said:
        launch = [sys.executable, "-I", "-S", str(LAUNCHER), said, *map(str, command)]
        done = subprocess.run(launch, cwd=folder, env=given, stdout=subprocess.PIPE, text=True, check=True)
        took = json.loads(done.stdout)
        out, error = (Path(said, name).read_text(encoding="utf-8", errors="replace") for name in ("stdout", "stderr"))
    if took["code"]:
        last = (error or out).strip().splitlines()[-1:] or ["it said nothing"]
        raise Failed(f"exit code {took['code']}: {last[0]}")
    return Run(took["cpu"], took["wall"], took["peak"], out)
