"""What the figures were measured on: of the machine what a reader can compare with, and nothing that names it."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("duckdb", "orjson", "polars", "prometheus-client", "pyarrow", "zstandard")
PROGRAMS = (("ripgrep", ("rg", "--version")), ("grep", ("grep", "--version")), ("mawk", ("mawk", "-W", "version")))


def described() -> str:
    """One sentence about the machine, and one about what the peers are."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    packages = [f"{name} {version(name)}" for name in PACKAGES]
    programs = [f"{name} {_version(command)}" for name, command in PROGRAMS]
    return (
        f"{_processor()}, {cores} cores, {memory:.0f} GiB, {system}, Python {platform.python_version()}. "
        f"Peers: {', '.join(programs + packages)}."
    )


def _processor() -> str:
    """The model's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(command: tuple[str, ...]) -> str:
    """The first word of what the program says of itself that begins with a digit."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return "(not here)"
    return next((word.rstrip(",") for word in (said.stdout + said.stderr).split() if word[0].isdigit()), "(unknown)")
