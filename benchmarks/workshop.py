"""What a suite is given: where it may write, how large its inputs are to be, and which of them are wanted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.inputs.writing import MB


@dataclass(frozen=True)
class Workshop:
    """`size` is bytes, or None for each input's own; `only` is a part of an input's name, or a pattern."""

    folder: Path
    say: Callable[[str], None]
    size: int | None = None
    only: str = "*"
    seed: int = 1

    def wants(self, name: str) -> bool:
        """Whether this input is to be measured; a suite asks before it makes one."""
        if not (self.only in name or fnmatch(name, self.only)):
            return False
        self.say(name)
        return True

    def bytes_of(self, mb: int) -> int:
        """The size of an input that has `mb` MB by itself."""
        return self.size or mb * MB

    def part_of(self, size: int, mb: int) -> int:
        """The size of the part that a slow or greedy peer gets: `mb` MB at most."""
        return min(size, mb * MB)

    def made(self, name: str) -> Path:
        """A new empty folder."""
        folder = self.folder / name
        folder.mkdir()
        return folder


def kvpm(*arguments: str | Path) -> list[str | Path]:
    """The tool's command."""
    return [sys.executable, "-m", "analyzer", *arguments]


def peer(name: str, *arguments: str | Path) -> list[str | Path]:
    """The command of a peer that is in Python."""
    return [sys.executable, "-m", f"benchmarks.peers.{name}", *arguments]


def rows_in(trace: Path, tables: Sequence[str]) -> Callable[[str], int]:
    """Counts the rows of these tables in a stored trace, as its manifest has them."""

    def count(_: str) -> int:
        totals = json.loads((trace / "manifest.json").read_text(encoding="utf-8"))["totals"]
        return sum(totals.get(table, 0) for table in tables)

    return count


def sum_of_lines(out: str) -> int:
    """The sum of the numbers that a command printed, one a line; grep prints one for each file."""
    return sum(int(line) for line in out.split())
