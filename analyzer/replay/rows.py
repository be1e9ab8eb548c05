"""Files of one JSON object a line, packed where their name ends in .gz: whole when they are there, and never over something by accident."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from analyzer.errors import KvpmError

Write = Callable[[dict[str, Any]], None]


@contextmanager
def rows_file(path: Path) -> Iterator[Write]:
    """Takes rows one by one; the file gets its name when the block ends well. Raises KvpmError where it cannot be written."""
    # a link is followed: the file it leads to is what was named
    target = path.resolve()
    if target.is_dir():
        raise KvpmError(f"{path} is a folder", hint=f"name a file in it, such as {path / 'steps.jsonl'}")
    if not target.parent.is_dir():
        raise KvpmError(f"there is no folder {path.parent}", hint=f"mkdir -p {path.parent}")
    aside = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
    try:
        with ExitStack() as stack:
            out = stack.enter_context(aside.open("wb"))
            write: Callable[[bytes], int] = out.write
            if path.name.endswith(".gz"):
                # no time and no name in the header: the same rows give the same file
                write = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0)).write
            yield lambda row: _line(write, row)
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def _line(write: Callable[[bytes], int], row: dict[str, Any]) -> None:
    write(json.dumps(row).encode() + b"\n")
