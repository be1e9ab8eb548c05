"""Inputs in, stored trace out: the whole way from what the user named to Parquet and manifest."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzer.errors import ExitCode, KvpmError, NothingUsableError
from analyzer.sources.discover import Input, find_inputs, is_trace, readable
from analyzer.sources.opening import BinaryInputError, TextInput, TextSource
from analyzer.sources.text import texts
from analyzer.trace.identity import InstanceRule
from analyzer.trace.manifest import Manifest, StoredSource, read_manifest

# The readers and what they work with are loaded when something is read: a stored trace is opened without them.
if TYPE_CHECKING:
    from analyzer.parsers.reader import SourceRead
    from analyzer.trace.offset_rules import OffsetRule
    from analyzer.trace.spool import Spool

Progress = Callable[[str, int, int], None]
"""Called with (input, bytes read, bytes in all; 0 when unknown)."""

_ID_BYTES = 4096
# The first characters of a text, enough to tell what it is.
_HEAD_CHARACTERS = 1 << 16


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the command line can say about reading: zone and year of stamps, the names of servers and the offsets of
    clocks, the time of samples that have none, the columns of a table, and whether texts are kept."""

    zone: tzinfo | None = None
    year: int | None = None
    rules: tuple[InstanceRule, ...] = ()
    offsets: tuple[OffsetRule, ...] = ()
    at: datetime | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    keep_text: bool = False


@dataclass(slots=True)
class Problem:
    """An input that gave nothing, or not everything; `io` when reading itself failed, `unusable` when it was read and
    nothing in it is of a model server."""

    name: str
    message: str
    io: bool = False
    unusable: bool = False


@dataclass(slots=True)
class IngestResult:
    """Where the trace is and how reading went."""

    trace: Path
    manifest: Manifest
    problems: list[Problem] = field(default_factory=list)

    @property
    def exit_code(self) -> ExitCode:
        """0, or 4 when an input could not be read to its end."""
        cut = any(s.row.get("cut") for s in self.manifest.sources) or any(p.io for p in self.problems)
        return ExitCode.INPUT_CUT if cut else ExitCode.OK


def ingest(
    given: Sequence[str],
    trace: Path,
    options: IngestOptions | None = None,
    *,
    live: Sequence[Input] = (),
    progress: Progress | None = None,
) -> IngestResult:
    """Read all inputs behind `given` and the servers in `live` into the stored trace `trace`, made or added to.

    A source that is already in the trace, unchanged, is left alone; one that grew is read again and
    replaced. Raises NothingUsableError when no input holds a line of a known engine.
    """
    from analyzer.trace.assembly import Rules, assemble
    from analyzer.trace.spool import Spool

    options = options or IngestOptions()
    inputs = [*find_inputs(given), *live]
    if not inputs:
        raise NothingUsableError(
            f"no file in {', '.join(given)}",
            hint="give a log file, a folder with logs, or '-' for standard input",
        )
    manifest = _existing(trace)
    result = IngestResult(trace, manifest)
    with tempfile.TemporaryDirectory(prefix="kvpm-") as scratch:
        fresh: dict[str, Spool] = {}
        for number, item in enumerate(inputs):
            spool = Spool(Path(scratch) / str(number))
            stored = _read_one(item, spool, manifest, options, result.problems, progress)
            if stored is not None:
                fresh[stored.source_id] = spool
        _refuse_nothing(inputs, manifest, result.problems)
        assemble(trace, manifest, fresh, Rules(options.rules, options.offsets), Path(scratch))
    return result


def _existing(trace: Path) -> Manifest:
    if is_trace(trace):
        return read_manifest(trace)
    if trace.exists() and (not trace.is_dir() or any(trace.iterdir())):
        raise KvpmError(f"{trace} exists and is no stored trace", hint="choose another name for -o")
    return Manifest()


def _read_one(
    item: Input,
    spool: Spool,
    manifest: Manifest,
    options: IngestOptions,
    problems: list[Problem],
    progress: Progress | None,
) -> StoredSource | None:
    """Read one input; None when it is known already or gave nothing to store."""
    from analyzer.parsers.kinds import PARQUET, is_parquet, read_source
    from analyzer.parsers.reader import Given, ReadOptions

    source_id, known = _recognise(item, manifest)
    if known is not None and _read_the_same(known, options):
        if known.path != item.name:
            problems.append(Problem(item.name, f"holds the same bytes as {known.path}: counted once"))
        return None
    text = item.live or TextInput(item.path)
    total = item.path.stat().st_size if item.path else 0
    reading = ReadOptions(options.zone, options.year, _newest(item), options.at, options.columns, options.keep_text)
    try:
        if is_parquet(item.path):
            assert item.path is not None
            given = Given(source_id, item.name, item.path, PARQUET, iter(()), spool, reading)
        else:
            head, chunks = _beginning(_reported(text, item.name, total, progress))
            given = Given(source_id, item.name, item.path, head, chunks, spool, reading)
        read = read_source(given)
    except BinaryInputError as error:
        problems.append(Problem(item.name, str(error)))
        return None
    except OSError as error:
        problems.append(Problem(item.name, f"cannot be read: {error.strerror or error}", io=True))
        return None
    spool.close()
    if given.head == PARQUET and item.path is not None:
        size = total
        sha256: str | None = _hash_of(item.path, total)
    else:
        size, sha256 = text.size, text.sha256
    if size == 0:
        problems.append(Problem(item.name, "is empty"))
        return None
    content = text.content_sha256 if isinstance(text, TextInput) and given.head != PARQUET else sha256
    twin = next((s for s in manifest.sources if content and s.content_sha256 == content and s.source_id != source_id), None)
    if twin is not None:
        problems.append(Problem(item.name, f"holds the same as {twin.path}, packed otherwise: counted once"))
        return None
    if not read.usable:
        problems.append(Problem(item.name, read.nothing, unusable=True))
        spool.drop()
    stored = StoredSource(
        source_id=source_id,
        path=item.name,
        folder=item.folder,
        size=size,
        sha256=sha256,
        content_sha256=content,
        row=_row(source_id, item.name, size, sha256, text.cut, text.notes, read),
        streams=[s.to_json() for s in read.streams.values()],
        descending=_descending(read),
        read_with=_asked(options),
        clock_assumed=read.clock_assumed,
        year_assumed=read.year_assumed,
        number=_number_of(source_id, manifest),
    )
    manifest.sources = [s for s in manifest.sources if s.source_id != source_id] + [stored]
    return stored


def _beginning(chunks: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """The first characters, enough to tell what it is, and all chunks with those first."""
    held: list[bytes] = []
    length = 0
    for chunk in chunks:
        held.append(chunk)
        length += len(chunk)
        if length >= _HEAD_CHARACTERS:
            break
    return "".join(texts(held))[:_HEAD_CHARACTERS], chain(held, chunks)


def _number_of(source_id: str, manifest: Manifest) -> int:
    """The number of a source that is in the trace already, else the next one."""
    numbers = {s.source_id: s.number for s in manifest.sources}
    return numbers.get(source_id) or 1 + max(numbers.values(), default=0)


def _read_the_same(known: StoredSource, options: IngestOptions) -> bool:
    """True unless an option of reading now says something else than when the source was read."""
    asked = _asked(options)
    return all(value is None or value == known.read_with.get(name) for name, value in asked.items())


def _asked(options: IngestOptions) -> dict[str, Any]:
    return {
        "tz": None if options.zone is None else str(options.zone),
        "year": options.year,
        "at": None if options.at is None else options.at.isoformat(),
        "columns": dict(options.columns) or None,
        "keep_text": options.keep_text or None,
    }


def _reported(text: TextSource, name: str, total: int, progress: Progress | None) -> Iterator[bytes]:
    for block in text:
        if progress is not None:
            progress(name, text.size, total)
        yield block


def _newest(item: Input) -> datetime:
    if item.path is None:
        return datetime.now(UTC)
    return datetime.fromtimestamp(item.path.stat().st_mtime, UTC)


def _recognise(item: Input, manifest: Manifest) -> tuple[str, StoredSource | None]:
    """The id to store the input under, and the stored source that it is, unchanged.

    A source that grew keeps its id and is to be read again. Bytes are compared by hash only where the
    sizes allow it; a pipe is not looked into, since what is read of it is gone.
    """
    if item.live is not None:
        # the same question again replaces its answer
        return hashlib.sha256(item.key.encode("utf-8", "surrogateescape")).hexdigest()[:12], None
    if item.path is None:
        return _free_id("stdin", manifest), None
    head = b""
    # reading an input that cannot be opened will say what is wrong with it
    with contextlib.suppress(OSError):
        if item.path.is_file():
            size = item.path.stat().st_size
            for stored in manifest.sources:
                if stored.size == size and stored.sha256 == _hash_of(item.path, size):
                    return stored.source_id, stored
            for stored in manifest.sources:
                if stored.path == item.name and stored.size < size and stored.sha256 == _hash_of(item.path, stored.size):
                    return stored.source_id, None
            with item.path.open("rb") as handle:
                head = handle.read(_ID_BYTES)
    digest = hashlib.sha256(head + Path(item.name).name.encode("utf-8", "surrogateescape")).hexdigest()
    return _free_id(digest[:12], manifest), None


def _free_id(wanted: str, manifest: Manifest) -> str:
    taken = {s.source_id for s in manifest.sources}
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _hash_of(path: Path, size: int) -> str:
    """SHA-256 of the first `size` bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while size > 0 and (block := handle.read(min(size, 1 << 20))):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()


def _row(source_id: str, name: str, size: int, sha256: str | None, cut: bool, notes: list[str], read: SourceRead) -> dict[str, Any]:
    """The source's row in the table `sources`; instance and offset are filled in when all sources are known."""
    counts = read.counts
    since, until, known = read.versions.bounds()
    return {
        "source_id": source_id,
        "path": name,
        "instance": None,
        # a dump that is known for one and holds nothing of a model server is evidence of that
        "format": read.format if read.usable or read.format != "engine_log" else "none",
        "nothing": None if read.usable else read.nothing,
        "engines": ",".join(sorted(read.engines)) or None,
        "wrapper": ",".join(sorted(counts.wrappers, key=lambda w: -counts.wrappers[w])) or None,
        "version_min": since,
        "version_max": until,
        "version_from": known,
        "bytes": size,
        "sha256": sha256,
        "lines": counts.lines,
        "matched_lines": counts.matched,
        "ignored_lines": counts.ignored,
        "unmatched_lines": counts.unmatched,
        "other_lines": counts.other,
        "records": counts.records,
        "first_ts": read.first_ts,
        "last_ts": read.last_ts,
        "clock": read.clock,
        "utc_offset_s": read.utc_offset_s,
        "cut": cut,
        "notes": "\n".join(read.notes + notes) or None,
    }


def _descending(read: SourceRead) -> bool:
    """True when the collector gave the newest line first."""
    marks = [m for s in read.streams.values() if s.kind == "log" for m in s.marks]
    return len(marks) > 1 and marks[0].ts > marks[-1].ts


def _refuse_nothing(inputs: list[Input], manifest: Manifest, problems: list[Problem]) -> None:
    if any(s.row["format"] != "none" for s in manifest.sources):
        return
    first = problems[0] if problems else None
    what = (
        f"{inputs[0].name} {first.message}"
        if len(inputs) == 1 and first
        else f"none of {len(inputs)} files holds anything of a model server"
    )
    if first and len(inputs) > 1:
        what += f" ({first.name} {first.message})"
    if any(p.io for p in problems):
        raise KvpmError(what, hint="check the permissions and the disk", exit_code=ExitCode.INPUT_CUT)
    hint = "expected logs, metric dumps or request records of SGLang, vLLM or LMCache"
    if any(p.unusable for p in problems):
        hint += "; `kvpm formats explain LINE` shows how a line is read, `kvpm metrics` which names are known"
    raise NothingUsableError(what, hint=hint)


def default_trace_name(given: Sequence[str]) -> Path:
    """`NAME.kvtrace` in the working folder, after the first input."""
    if given[0] == "-":
        return Path("stdin.kvtrace")
    name = readable(Path(os.path.abspath(given[0])).name)
    for ending in (".gz", ".zst", ".log", ".txt"):
        name = name.removesuffix(ending)
    # a file name may be as long as a name can be, and would have no room for the ending
    return Path(f"{name.replace('*', '_').replace('?', '_')[:100]}.kvtrace")
