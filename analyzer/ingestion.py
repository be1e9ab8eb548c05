"""Inputs in, stored trace out: the whole way from what the user named to Parquet and manifest."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzer import __version__
from analyzer.errors import ExitCode, KvpmError, NothingUsableError
from analyzer.input_reading import Got, Problem, Progress, Task, read_input
from analyzer.processes import cores, spread
from analyzer.recognition import Recognised, recognise
from analyzer.sources.discover import Input, find_inputs, is_trace, readable
from analyzer.sources.timestamps import zone_from_option
from analyzer.sources.urls import is_url, own_name, shown
from analyzer.trace.identity import InstanceRule
from analyzer.trace.manifest import Manifest, ResumePoint, StoredSource, read_manifest

# The readers and what they work with are loaded when something is read: a stored trace is opened without them.
if TYPE_CHECKING:
    from analyzer.parsers.reader import SourceRead
    from analyzer.parsers.resume import Resume
    from analyzer.trace.assembly import Fresh
    from analyzer.trace.offset_rules import OffsetRule

# A larger input is read block by block by all processes.
_LARGE = 64 << 20
# Below so many bytes in all, processes would take longer to start than to read.
_WORTH_PROCESSES = 16 << 20
_SAME_BYTES = "holds the same bytes as {}: counted once"


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the command line can say about reading: zone and year of stamps, the names of servers and the offsets of
    clocks, the time of samples that have none, the columns of a table, whether texts are kept, and how many processes
    read at most (None: one a core), or the address of a Dask scheduler whose workers read. What is read does not depend
    on either. `resumable`: the trace may be added to once the sources have grown, so where reading stopped is kept."""

    zone: tzinfo | None = None
    year: int | None = None
    rules: tuple[InstanceRule, ...] = ()
    offsets: tuple[OffsetRule, ...] = ()
    at: datetime | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    keep_text: bool = False
    jobs: int | None = None
    cluster: str | None = None
    resumable: bool = True


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

    A source that is already in the trace, unchanged, is left alone. Of one that grew the new bytes are read; where that
    cannot be, it is read again and replaced. Raises NothingUsableError when no input holds a line of a known engine.
    """
    from analyzer.trace.assembly import Fresh, Rules, assemble

    options = options or IngestOptions()
    inputs = [*find_inputs(given), *live]
    if not inputs:
        raise NothingUsableError(
            f"no file in {', '.join(map(shown, given))}",
            hint="give a log file, a folder with logs, or '-' for standard input",
        )
    manifest = _existing(trace)
    result = IngestResult(trace, manifest)
    with tempfile.TemporaryDirectory(prefix="kvpm-") as scratch:
        fresh: dict[str, Fresh] = {}
        tasks = {t.source_id: (r, t) for r, t in _tasks(recognise(inputs, manifest), trace, options, Path(scratch), result.problems)}
        contents = _Contents(manifest.sources)
        for task, got in _read_all([t for _, t in tasks.values()], options, progress):
            if _accept(task, tasks[task.source_id][0], got, manifest, contents, result.problems):
                resume = got.read.resume if got.read is not None else None
                fresh[task.source_id] = Fresh(got.spool, None if resume is None else resume.pack())
        _refuse_nothing(inputs, manifest, result.problems)
        assemble(trace, manifest, fresh, Rules(options.rules, options.offsets), Path(scratch))
    return result


def _existing(trace: Path) -> Manifest:
    if is_trace(trace):
        return read_manifest(trace)
    if trace.exists() and (not trace.is_dir() or any(trace.iterdir())):
        raise KvpmError(f"{trace} exists and is no stored trace", hint="choose another name for -o")
    return Manifest()


def _tasks(
    found: Sequence[Recognised], trace: Path, options: IngestOptions, scratch: Path, problems: list[Problem]
) -> Iterator[tuple[Recognised, Task]]:
    """What is to be read: all inputs but those that the trace has already, unchanged."""
    for number, r in enumerate(found):
        known = r.same or r.grown
        if r.same is not None and _read_the_same(r.same, options):
            if r.renamed:
                r.same.path, r.same.row["path"] = r.item.name, r.item.name
            elif r.same.path != r.item.name:
                problems.append(Problem(r.item.name, _SAME_BYTES.format(r.same.path)))
            continue
        resume = None
        if r.grown is not None and _read_the_same(r.grown, options):
            resume = _resume_of(r.grown, trace)
        yield r, Task(r.item, r.source_id, scratch / str(number), _as_before(known, options), resume)


def _resume_of(known: StoredSource, trace: Path) -> Resume | None:
    """Where reading the source goes on; None when that was not kept, or by another release, which may have read lines otherwise."""
    from analyzer.parsers.resume import Resume

    point = known.resume
    if point is None or point.tool_version != __version__:
        return None
    # without it the source is read again whole
    with contextlib.suppress(OSError, ValueError):
        return Resume(point.reader, point.offset, point.lines, Resume.unpack((trace / point.state).read_bytes()))
    return None


def _as_before(known: StoredSource | None, options: IngestOptions) -> IngestOptions:
    """The options, and where they say nothing, what they said when the source was read before."""
    said: Mapping[str, Any] = {} if known is None else known.read_with
    zone, at = said.get("tz"), said.get("at")
    return replace(
        options,
        zone=options.zone or (zone_from_option(zone.removeprefix("UTC") or "UTC") if zone else None),
        year=options.year or said.get("year"),
        at=options.at or (datetime.fromisoformat(at) if at else None),
        columns=options.columns or said.get("columns") or {},
        keep_text=options.keep_text or bool(said.get("keep_text")),
    )


def _read_all(tasks: Sequence[Task], options: IngestOptions, progress: Progress | None) -> Iterator[tuple[Task, Got]]:
    """Each task with what reading it gave, in order. Inputs of moderate size are read side by side, large ones by many processes each.

    On a cluster all are read side by side, but standard input and what a server is asked.
    """
    jobs = options.jobs or cores()
    # what comes over a network is waited for most of the time, however large it is
    apart = [t for t in tasks if t.item.remote is not None or (t.item.path is not None and t.size < _LARGE)]
    side_by_side: Iterable[tuple[Task, Got]] = ()
    if options.cluster is not None:
        from analyzer.fleet.cluster_reading import read_on

        side_by_side = read_on(options.cluster, [t for t in tasks if t.item.remote is not None or t.item.path is not None])
    elif jobs > 1 and len(apart) > 1 and sum(task.size for task in apart) >= _WORTH_PROCESSES:
        side_by_side = spread(read_input, apart, jobs=min(jobs, len(apart)))
    done: dict[str, Got] = {}
    for task, got in side_by_side:
        done[task.source_id] = got
        if progress is not None:
            progress(task.item.name, task.item.size, task.item.size)
    for task in tasks:
        yield task, done.get(task.source_id) or read_input(task, jobs=jobs, progress=progress)


def _accept(task: Task, recognised: Recognised, got: Got, manifest: Manifest, contents: _Contents, problems: list[Problem]) -> bool:
    """Take what was read into the manifest; False for what gave nothing to store, or is there already."""
    name, source_id = task.item.name, task.source_id
    if got.problem is not None:
        problems.append(got.problem)
    read = got.read
    if read is None:
        return False
    others = [s for s in manifest.sources if s.source_id != source_id]
    twin = contents.twin_of(source_id, got) if task.resume is None else None
    if twin is not None:
        same = got.sample == twin.sample if got.sha256 is None or twin.sha256 is None else got.sha256 == twin.sha256
        problems.append(Problem(name, (_SAME_BYTES if same else "holds the same as {}, packed otherwise: counted once").format(twin.path)))
        return False
    before = recognised.grown if task.resume is not None else None
    stored = StoredSource(
        source_id=source_id,
        path=name,
        folder=task.item.folder,
        size=got.size,
        sha256=got.sha256,
        content_sha256=got.content_sha256,
        row=_row(source_id, name, got, read),
        streams=[s.to_json() for s in read.streams.values()],
        descending=_descending(read),
        read_with=_asked(task.options),
        clock_assumed=read.clock_assumed,
        year_assumed=read.year_assumed,
        number=_number_of(source_id, manifest),
        version=task.item.remote.version if task.item.remote else "",
        sample=got.sample,
        content_size=None if got.content is None else got.content[0],
        content_sample=None if got.content is None else got.content[1],
        head=recognised.head,
        resume=_point(read.resume, got),
    )
    if before is not None:
        # the rows of its tail have been read again
        whole = {table: [f for f in files if not f.tail] for table, files in before.files.items()}
        stored.files = {table: files for table, files in whole.items() if files}
        stored.offset_s, stored.placed = before.offset_s, before.placed
    manifest.sources = [*others, stored]
    contents.add(stored)
    return True


class _Contents:
    """The sources of a trace by what they hold, as it is unpacked."""

    def __init__(self, sources: Sequence[StoredSource]) -> None:
        self._by_hash: dict[str, StoredSource] = {}
        self._by_sample: dict[tuple[int | None, str], StoredSource] = {}
        for source in sources:
            self.add(source)

    def add(self, source: StoredSource) -> None:
        """Take a source that is stored, or is to be."""
        if source.content_sha256:
            self._by_hash.setdefault(source.content_sha256, source)
        if source.content_sample:
            self._by_sample.setdefault((source.content_size, source.content_sample), source)

    def twin_of(self, source_id: str, got: Got) -> StoredSource | None:
        """Another source that holds the same: by the hash, or the sample where one of the two was read in several goes."""
        twin = self._by_hash.get(got.content_sha256 or "")
        if twin is None and got.content is not None:
            twin = self._by_sample.get(got.content)
            if twin is not None and got.content_sha256 and twin.content_sha256:
                twin = None
        return None if twin is None or twin.source_id == source_id else twin


def _point(resume: Resume | None, got: Got) -> ResumePoint | None:
    if resume is None or got.resume_sample is None:
        return None
    return ResumePoint(resume.reader, resume.offset, resume.lines, got.resume_sample)


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


def _row(source_id: str, name: str, got: Got, read: SourceRead) -> dict[str, Any]:
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
        "bytes": got.size,
        "sha256": got.sha256,
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
        "cut": got.cut,
        "notes": "\n".join(read.notes + got.notes) or None,
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
    name = readable(own_name(given[0]) if is_url(given[0]) else Path(os.path.abspath(given[0])).name)
    for ending in (".gz", ".zst", ".log", ".txt"):
        name = name.removesuffix(ending)
    # a file name may be as long as a name can be, and would have no room for the ending
    return Path(f"{name.replace('*', '_').replace('?', '_')[:100]}.kvtrace")
