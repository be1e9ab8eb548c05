"""Inputs in, stored trace out: the whole way from what the user named to Parquet and manifest."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import pyarrow as pa

from analyzer.errors import ExitCode, KvpmError, NothingUsableError
from analyzer.parsers.engine_log import ClockOptions, SourceLog, read_engine_log
from analyzer.sources.discover import Input, find_inputs, is_trace
from analyzer.sources.opening import BinaryInputError, TextInput
from analyzer.trace.identity import Identity, InstanceRule, SourceStream, identify
from analyzer.trace.manifest import Manifest, StoredSource, read_manifest
from analyzer.trace.schema import TABLES
from analyzer.trace.spool import Spool
from analyzer.trace.store import (
    ROW_TABLES,
    assign,
    read_rows,
    remove_unnamed,
    write_sources_table,
    write_table,
)
from analyzer.trace.streams import Stream

Progress = Callable[[str, int, int], None]
"""Called with (input, bytes read, bytes in all; 0 when unknown)."""

_ID_BYTES = 4096


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the command line can say about reading: zone and year of stamps, instance names."""

    zone: tzinfo | None = None
    year: int | None = None
    rules: tuple[InstanceRule, ...] = ()


@dataclass(slots=True)
class Problem:
    """An input that gave nothing, or not everything; `io` when reading itself failed."""

    name: str
    message: str
    io: bool = False


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
    progress: Progress | None = None,
) -> IngestResult:
    """Read all inputs behind `given` into the stored trace `trace`, made or added to.

    A source that is already in the trace, unchanged, is left alone; one that grew is read again and
    replaced. Raises NothingUsableError when no input holds a line of a known engine.
    """
    options = options or IngestOptions()
    inputs = find_inputs(given)
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
        _store(trace, manifest, fresh, options)
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
    source_id, known = _recognise(item, manifest)
    if known is not None and _read_the_same(known, options):
        if known.path != item.name:
            problems.append(Problem(item.name, f"holds the same bytes as {known.path}: counted once"))
        return None
    text = TextInput(item.path)
    total = item.path.stat().st_size if item.path else 0
    clock = ClockOptions(options.zone, options.year, _newest(item))
    try:
        log = read_engine_log(_reported(text, item.name, total, progress), source_id, spool, clock)
    except BinaryInputError as error:
        problems.append(Problem(item.name, str(error)))
        return None
    except OSError as error:
        problems.append(Problem(item.name, f"cannot be read: {error.strerror or error}", io=True))
        return None
    spool.close()
    if text.size == 0:
        problems.append(Problem(item.name, "is empty"))
        return None
    stored = _stored_source(item, source_id, text, log)
    stored.read_with = _asked(options)
    manifest.sources = [s for s in manifest.sources if s.source_id != source_id] + [stored]
    return stored


def _read_the_same(known: StoredSource, options: IngestOptions) -> bool:
    """True unless --tz or --year now says something else than when the source was read."""
    asked = _asked(options)
    return all(value is None or value == known.read_with.get(name) for name, value in asked.items())


def _asked(options: IngestOptions) -> dict[str, str | int | None]:
    return {"tz": None if options.zone is None else str(options.zone), "year": options.year}


def _reported(text: TextInput, name: str, total: int, progress: Progress | None) -> Iterator[str]:
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


def _stored_source(item: Input, source_id: str, text: TextInput, log: SourceLog) -> StoredSource:
    counts = log.counts
    # a model server's access lines alone prove nothing, but they are no foreign log either
    is_log = bool(log.engines) or counts.unmatched > 0 or (log.serves and counts.ignored > counts.other)
    since, until, known = log.versions.bounds()
    notes = list(log.notes) + text.notes
    if counts.unmatched_files:
        most = sorted(counts.unmatched_files.items(), key=lambda kv: (-kv[1], kv[0]))[:8]
        notes.append("unmatched lines come from " + ", ".join(f"{n} ({c})" for n, c in most))
    row: dict[str, Any] = {
        "source_id": source_id,
        "path": item.name,
        "instance": None,
        "format": "engine_log" if is_log else "none",
        "engines": ",".join(sorted(log.engines)) or None,
        "wrapper": ",".join(sorted(counts.wrappers, key=lambda w: -counts.wrappers[w])) or None,
        "version_min": since,
        "version_max": until,
        "version_from": known,
        "bytes": text.size,
        "sha256": text.sha256,
        "lines": counts.lines,
        "matched_lines": counts.matched,
        "ignored_lines": counts.ignored,
        "unmatched_lines": counts.unmatched,
        "other_lines": counts.other,
        "records": counts.records,
        "first_ts": log.first_ts,
        "last_ts": log.last_ts,
        "clock": log.clock,
        "utc_offset_s": log.utc_offset_s,
        "cut": text.cut,
        "notes": "\n".join(notes) or None,
    }
    return StoredSource(
        source_id=source_id,
        path=item.name,
        folder=item.folder,
        size=text.size,
        sha256=text.sha256,
        row=row,
        streams=[s.to_json() for s in log.streams.values()],
        descending=_descending(log),
    )


def _descending(log: SourceLog) -> bool:
    """True when the collector gave the newest line first."""
    marks = [m for s in log.streams.values() for m in s.marks]
    return len(marks) > 1 and marks[0].ts > marks[-1].ts


def _refuse_nothing(inputs: list[Input], manifest: Manifest, problems: list[Problem]) -> None:
    if any(s.row["format"] != "none" for s in manifest.sources):
        return
    first = problems[0] if problems else None
    io = any(p.io for p in problems)
    if len(inputs) == 1:
        name = inputs[0].name
        what = f"{name} {first.message}" if first else f"{name} holds no line of a known engine"
    else:
        what = f"none of {len(inputs)} files holds a line of a known engine"
        if first:
            what += f" ({first.name} {first.message})"
    hint = "expected a log of SGLang, vLLM or LMCache"
    if first is None:
        hint += "; `kvpm formats explain LINE` shows how a line is read"
    if io:
        raise KvpmError(what, hint="check the permissions and the disk", exit_code=ExitCode.INPUT_CUT)
    raise NothingUsableError(what, hint=hint)


def _store(trace: Path, manifest: Manifest, fresh: dict[str, Spool], options: IngestOptions) -> None:
    trace.mkdir(parents=True, exist_ok=True)
    streams = [SourceStream(s.source_id, s.path, s.folder, Stream.from_json(d), s.descending) for s in manifest.sources for d in s.streams]
    rules = list(options.rules) or [InstanceRule(r["pattern"], r["name"]) for r in manifest.options.get("instance", [])]
    identity = identify(streams, rules)
    before = (manifest.aliases, manifest.runs)
    manifest.aliases = identity.aliases
    manifest.runs = {
        name: [{"run_id": r.run_id, "start": r.start.isoformat() if r.start else None} for r in runs]
        for name, runs in identity.runs.items()
    }
    manifest.options = {"instance": [{"pattern": r.pattern, "name": r.name} for r in rules]}
    changed = before != (manifest.aliases, manifest.runs)
    for source in manifest.sources:
        if source.source_id in fresh:
            _write_source(trace, source, fresh[source.source_id], identity)
        elif changed:
            for name, stored in source.files.items():
                rows = assign(read_rows(trace, stored), source.source_id, identity)
                source.files[name] = write_table(trace, name, source.source_id, rows)
        names = sorted({identity.instance[source.source_id, d["origin"]] for d in source.streams if d["engines"]})
        source.row["instance"] = ",".join(names) or None
    manifest.totals = {name: sum(s.files[name].rows for s in manifest.sources if name in s.files) for name in ROW_TABLES}
    write_sources_table(trace, manifest.sources)
    manifest.write(trace)
    remove_unnamed(trace, manifest)


def _write_source(trace: Path, source: StoredSource, spool: Spool, identity: Identity) -> None:
    source.files = {}
    for name in ROW_TABLES:
        batches = list(spool.batches(name))
        if name == "events":
            batches += _start_events(source, identity)
        if batches:
            table = pa.Table.from_batches(batches, schema=TABLES[name].arrow)
            source.files[name] = write_table(trace, name, source.source_id, assign(table, source.source_id, identity))


def _start_events(source: StoredSource, identity: Identity) -> list[pa.RecordBatch]:
    """One `start` event for each process lifetime whose beginning this source shows."""
    rows = []
    for name, runs in identity.runs.items():
        for run in runs:
            if run.source_id == source.source_id and run.start is not None:
                stream = next(
                    (d["origin"] for d in source.streams if identity.instance[source.source_id, d["origin"]] == name),
                    "",
                )
                rows.append(
                    {
                        "source_id": source.source_id, "record": run.record, "engine": run.engine,
                        "stream": stream, "ts": run.start, "kind": "start", "text": "a process started",
                    }
                )  # fmt: skip
    return [pa.RecordBatch.from_pylist(rows, schema=TABLES["events"].arrow)] if rows else []


def default_trace_name(given: Sequence[str]) -> Path:
    """`NAME.kvtrace` in the working folder, after the first input."""
    if given[0] == "-":
        return Path("stdin.kvtrace")
    name = Path(os.path.abspath(given[0])).name
    for ending in (".gz", ".zst", ".log", ".txt"):
        name = name.removesuffix(ending)
    # a file name may be as long as a name can be, and would have no room for the ending
    return Path(f"{name.replace('*', '_').replace('?', '_')[:100]}.kvtrace")
