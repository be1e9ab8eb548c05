"""Reads one input into its spool: all that can be done without knowing the others, by any process."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.sources.discover import Input
from analyzer.sources.opening import BinaryInputError, GrownInput, TextInput, TextSource
from analyzer.sources.sampling import sample_of
from analyzer.sources.text import texts

# The readers and what they work with are loaded when something is read: a stored trace is opened without them.
if TYPE_CHECKING:
    from analyzer.ingestion import IngestOptions
    from analyzer.parsers.reader import SourceRead
    from analyzer.parsers.resume import Resume
    from analyzer.trace.spool import Spool

Progress = Callable[[str, int, int], None]
"""Called with (input, bytes read, bytes in all; 0 when unknown)."""


@dataclass(slots=True)
class Problem:
    """An input that gave nothing, or not everything; `io` when reading itself failed, `unusable` when it was read and
    nothing in it is of a model server."""

    name: str
    message: str
    io: bool = False
    unusable: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """An input to be read: the id to store it under, the folder for its rows, what the options say, and where an earlier
    reading stopped that this one goes on from."""

    item: Input
    source_id: str
    folder: Path
    options: IngestOptions
    resume: Resume | None = None

    @property
    def size(self) -> int:
        """Bytes to be read; 0 where that is not known."""
        return self.item.size - (0 if self.resume is None else self.resume.offset)


@dataclass(slots=True)
class Got:
    """What reading an input gave: its rows, what was learned of it, and its bytes as stored and as unpacked.

    `read` is None when there is nothing to store; `problem` then says why. `sample` is of the stored bytes, `content` the length and the
    sample of the unpacked ones, `resume_sample` that of the bytes before the place where reading may go on.
    """

    spool: Spool
    read: SourceRead | None = None
    problem: Problem | None = None
    size: int = 0
    sha256: str | None = None
    content_sha256: str | None = None
    sample: str | None = None
    content: tuple[int, str] | None = None
    resume_sample: str | None = None
    cut: bool = False
    notes: list[str] = field(default_factory=list)


def read_input(task: Task, *, jobs: int = 1, progress: Progress | None = None) -> Got:
    """Read one input, with at most `jobs` processes for a large one. Raises KvpmError for what only the user can mend."""
    from analyzer.parsers.kinds import PARQUET, is_parquet, read_source
    from analyzer.parsers.reader import Given, ReadOptions
    from analyzer.trace.spool import Spool

    item, options = _with_parquet_here(task.item, task.folder), task.options
    got = Got(Spool(task.folder))
    text: TextSource
    if task.resume is not None and item.path is not None:
        text = GrownInput(item.path, task.resume.offset)
    else:
        text = item.live or TextInput(item.path or item.remote)
    reading = ReadOptions(options.zone, options.year, _newest(item), options.at, options.columns, options.keep_text, jobs)
    try:
        head, chunks = (PARQUET, iter(())) if is_parquet(item.path) else _beginning(_reported(text, item, progress))
        given = Given(task.source_id, item.name, item.path, head, chunks, got.spool, reading, resume=task.resume)
        given.resumable = options.resumable and head != PARQUET and _is_plain(item, text)
        read = read_source(given)
    except BinaryInputError as error:
        got.problem = Problem(item.name, str(error))
        return got
    except OSError as error:
        got.problem = Problem(item.name, f"cannot be read: {error.strerror or error}", io=True)
        return got
    got.spool.close()
    if head == PARQUET and item.path is not None:
        got.size = item.size
        got.sha256 = got.content_sha256 = hash_of(item.path, got.size)
        got.sample = sample_of(item.path, got.size)
        got.content = (got.size, got.sample) if got.sample else None
    else:
        got.size, got.sha256 = text.size, text.sha256
        _tell_apart(got, item, text, read)
    if got.size == 0:
        got.problem = Problem(item.name, "is empty")
        return got
    got.read, got.cut, got.notes = read, text.cut, text.notes
    if not read.usable:
        got.problem = Problem(item.name, read.nothing, unusable=True)
        got.spool.drop()
    return got


def _is_plain(item: Input, text: TextSource) -> bool:
    """True for a file that can be read again from any of its bytes on."""
    if item.path is None or not item.path.is_file():
        return False
    return isinstance(text, GrownInput) or (isinstance(text, TextInput) and text.is_as_stored)


def _tell_apart(got: Got, item: Input, text: TextSource, read: SourceRead) -> None:
    """What the input is recognised by another time."""
    if isinstance(text, TextInput):
        got.content_sha256, got.sample, got.content = text.content_sha256, text.sample, text.content
    else:
        got.content_sha256 = text.sha256
    if item.path is None or not _is_plain(item, text):
        return
    # a file that is shorter by now was replaced while it was read
    if got.sample is None:
        got.sample = sample_of(item.path, got.size)
        got.content = (got.size, got.sample) if got.sample else None
    if read.resume is not None:
        got.resume_sample = sample_of(item.path, read.resume.offset)


def _with_parquet_here(item: Input, folder: Path) -> Input:
    """A remote Parquet file, which is not read from its beginning to its end, as a copy on this machine."""
    if item.remote is None or not item.name.partition("?")[0].endswith((".parquet", ".pq")):
        return item
    copy = folder.with_name(f"{folder.name}.parquet")
    with contextlib.suppress(OSError), item.remote.open() as remote, copy.open("wb") as here:
        shutil.copyfileobj(remote, here, 1 << 20)
        return replace(item, path=copy)
    # reading what cannot be opened will say what is wrong with it
    return item


def _beginning(chunks: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """The first characters, enough to tell what it is, and all chunks with those first."""
    from analyzer.parsers.reader import HEAD_CHARACTERS

    held: list[bytes] = []
    length = 0
    for chunk in chunks:
        held.append(chunk)
        length += len(chunk)
        if length >= HEAD_CHARACTERS:
            break
    return "".join(texts(held))[:HEAD_CHARACTERS], chain(held, chunks)


def _reported(text: TextSource, item: Input, progress: Progress | None) -> Iterator[bytes]:
    for block in text:
        if progress is not None:
            progress(item.name, text.size, item.size)
        yield block


def _newest(item: Input) -> datetime:
    if item.remote is not None and item.remote.changed is not None:
        return item.remote.changed
    if item.path is None:
        return datetime.now(UTC)
    return datetime.fromtimestamp(item.path.stat().st_mtime, UTC)


def hash_of(path: Path, size: int) -> str:
    """SHA-256 of the first `size` bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while size > 0 and (block := handle.read(min(size, 1 << 20))):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()
