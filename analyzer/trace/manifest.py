"""The manifest of a stored trace: what is in it, where from, and what was decided while reading."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from analyzer import __version__
from analyzer.errors import ExitCode, KvpmError, NothingUsableError

# 2: a table of a source may have several files, and a source a place from which reading goes on
FORMAT_VERSION = 2
MANIFEST = "manifest.json"


@dataclass(slots=True)
class StoredFile:
    """One Parquet file: its path below the trace, and its rows. `tail`: they are read again, and replaced, once the source has grown."""

    path: str
    rows: int
    tail: bool = False


@dataclass(slots=True)
class ResumePoint:
    """Where reading a source goes on once it has grown: behind `offset` bytes and `lines` lines, with what the reader named
    `reader` knew there (the file `state` below the trace). `sample` tells those bytes again; `tool_version` read them."""

    reader: str
    offset: int
    lines: int
    sample: str
    state: str = ""
    tool_version: str = __version__


@dataclass(slots=True)
class StoredSource:
    """One input: its account (`row`, the `sources` table's columns), what identifies its server (`streams`, on the source's
    own clock), what the options of reading said (`read_with`), and the seconds that were added to its times (`offset_s`).
    `content_sha256` is of the unpacked bytes. `clock_assumed` and `year_assumed`: nothing told the zone or the year of
    its stamps. `number` is its own within the trace: the numbers of its metric series begin with it. `version` is a
    store's mark of the content of a remote object, empty for anything else. `sample` is of the stored bytes, `content_size` and
    `content_sample` of the unpacked ones; `sha256` and `content_sha256` are known for what was read in one go. `head` is of their
    beginning. `placed` says of which servers and process lifetimes its rows are, as they are stored."""

    source_id: str
    path: str
    folder: str
    size: int
    sha256: str | None
    row: dict[str, Any]
    streams: list[dict[str, Any]]
    descending: bool
    read_with: dict[str, Any] = field(default_factory=dict)
    clock_assumed: bool = False
    year_assumed: bool = False
    content_sha256: str | None = None
    number: int = 0
    offset_s: float = 0.0
    version: str = ""
    sample: str | None = None
    content_size: int | None = None
    content_sample: str | None = None
    head: str = ""
    resume: ResumePoint | None = None
    placed: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[StoredFile]] = field(default_factory=dict)

    def rows_of(self, table: str) -> int:
        """How many rows are stored of one table."""
        return sum(f.rows for f in self.files.get(table, ()))


@dataclass(slots=True)
class Manifest:
    """The whole of `manifest.json`."""

    format_version: int = FORMAT_VERSION
    tool_version: str = __version__
    sources: list[StoredSource] = field(default_factory=list)
    aliases: list[dict[str, str]] = field(default_factory=list)
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    sources_file: str = "sources/sources.parquet"

    def files_of(self, table: str) -> list[StoredFile]:
        """All files of one table."""
        return [f for s in self.sources for f in s.files.get(table, ())]

    def write(self, folder: Path) -> None:
        """Replace the manifest of `folder` in one step; what it names must be on disk by then."""
        self.format_version = FORMAT_VERSION
        self.sources_file = sources_file(self.sources)
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False, default=str)
        replace_file(folder / MANIFEST, text.encode("utf-8", "backslashreplace"))


def sources_file(sources: list[StoredSource]) -> str:
    """Where the `sources` table of these sources lies: told by its content, so that an older manifest keeps its own."""
    rows = json.dumps([s.row for s in sources], sort_keys=True, default=str)
    return f"sources/sources-{hashlib.sha256(rows.encode()).hexdigest()[:12]}.parquet"


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` aside, sync it and rename it to `path`."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with aside.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    aside.replace(path)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a stored trace; raises KvpmError when it is no trace or from a newer release."""
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        version = document["format_version"]
    except FileNotFoundError:
        raise NothingUsableError(f"{folder} is no stored trace: it has no {MANIFEST}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise NothingUsableError(
            f"{folder} has trace format {version}; this release reads up to {FORMAT_VERSION}",
            hint="update kvpm, or ingest the logs again with this release",
        )
    try:
        return Manifest(**{**document, "sources": [_source(s) for s in document["sources"]]})
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, f"{type(error).__name__}: {error}") from error


def _source(document: dict[str, Any]) -> StoredSource:
    for column in ("first_ts", "last_ts"):
        if document["row"].get(column):
            document["row"][column] = datetime.fromisoformat(document["row"][column])
    # format 1 had one file a table
    lists = {table: stored if isinstance(stored, list) else [stored] for table, stored in document["files"].items()}
    files = {table: [StoredFile(**f) for f in stored] for table, stored in lists.items()}
    resume = ResumePoint(**document["resume"]) if document.get("resume") else None
    return StoredSource(**{**document, "files": files, "resume": resume})


def _unreadable(path: Path, why: str) -> KvpmError:
    return KvpmError(f"{path} cannot be read: {why}", hint="ingest the logs again", exit_code=ExitCode.INPUT_CUT)
