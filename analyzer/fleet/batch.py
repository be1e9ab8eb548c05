"""The whole batch: find the captures, make what is not made yet, and write the index.

from analyzer.fleet.batch import run_batch

result = run_batch(["captures/"], Path("reports"))
for record in result.fleet.captures:
    print(record.name, record.summary.cause)
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from analyzer import __version__, language
from analyzer.errors import ExitCode
from analyzer.fleet.captures import find_captures
from analyzer.fleet.dataset import store
from analyzer.fleet.model import Capture, Failure, Fleet, Reading, Record, Skipped, Stamp, Summary
from analyzer.fleet.names import file_stems
from analyzer.fleet.pool import Answer, run_all, told_death
from analyzer.fleet.publish import publish
from analyzer.fleet.render import render_index
from analyzer.fleet.stamps import untouched
from analyzer.fleet.state import ASSETS, DATASET, FILE, INDEX, REPORTS, STAGING, TRACES, is_plain, load, save
from analyzer.fleet.worker import Task
from analyzer.report.assets import report_assets, write_shared
from analyzer.report.write import remove_unfinished, write_report
from analyzer.sources.discover import is_trace
from analyzer.sources.urls import shown

# Of the time that a batch takes, about this share at most goes into saying how far it is.
_SAVING_SHARE = 0.1
# A capture whose process died is tried once more: another process may have taken the memory.
_ATTEMPTS = 2
_LONGEST_PART = 200


@dataclass(frozen=True, slots=True)
class Options:
    """What is the same for all captures. `timeout` is in seconds a capture; `jobs` None is one a core.

    With `dataset` what was read of all of them is kept as one set of tables (`analyzer.fleet.dataset`). `cluster` is the
    address of a Dask scheduler whose workers read the captures, in place of processes on this machine. With `replay` the
    worst instance of each is replayed where that takes seconds.
    """

    reading: Reading = field(default_factory=Reading)
    thresholds: Path | None = None
    jobs: int | None = None
    timeout: float | None = None
    keep_traces: bool = False
    dataset: bool = False
    replay: bool = False
    force: bool = False
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """How far a batch is: `done` of `total` captures, the last of them with what came of it."""

    done: int
    total: int
    last: Record | Failure | Skipped | None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch has in its folder, and how many reports this run made, left as they were, and removed.

    `of_files` are folders of which each file was taken for a capture of its own.
    """

    fleet: Fleet
    index: Path
    made: int
    kept: int
    removed: int
    of_files: tuple[str, ...] = ()


def run_batch(
    given: Sequence[str], out: Path, options: Options | None = None, *, told: Callable[[Step], None] | None = None
) -> BatchResult:
    """Make a report of every capture behind `given` in `out`/reports, and `out`/index.html, in the language of the moment.

    A capture whose inputs are those of its last report is left as it is. One that fails is in the result's `failures` and
    stops nothing. Raises KvpmError for inputs and options that cannot be, and for a folder that is not a batch's.
    """
    options = options or Options()
    found = find_captures(given, options.reading)
    before = load(out)
    run = _Run(out, options, before or Fleet(language.current()))
    run.begin(found.captures)
    step = Step(0, len(found.captures), None)
    if told:
        told(step)
    # closed at once when something ends the loop early: no process goes on for nobody
    with closing(run.results(found.captures)) as results:
        try:
            for last in results:
                step = Step(step.done + 1, step.total, last)
                if told:
                    told(step)
                run.save_now_and_then()
        finally:
            run.save()
    fleet = run.finish(found.skipped)
    return BatchResult(fleet, out / INDEX, run.made, run.kept, run.removed, tuple(found.of_files))


class _Run:
    """One run over a folder: what is there, what is being made, and what is left to remove."""

    def __init__(self, out: Path, options: Options, before: Fleet) -> None:
        self._out, self._options = out, options
        self._old = {r.name: r for r in before.captures}
        self._old_assets = before.assets
        self._records: dict[str, Record] = {}
        self._failures: dict[str, Failure] = {}
        self._skipped: list[Skipped] = []
        scripts = report_assets(explore=True, beside=f"../{ASSETS}").scripts
        self._shared = [s for s in scripts if not s.early]
        self._assets = tuple(sorted(s.file_name for s in self._shared))
        self._loads = [s.digest for s in scripts]
        self._thresholds = _thresholds(options.thresholds)
        self._stems: dict[str, str] = {}
        # a run that was killed may have left a process that still works at something
        self._run = uuid.uuid4().hex[:8]
        self._cost = 0.0
        self._saved = 0.0
        self.made = self.kept = self.removed = 0

    def begin(self, captures: Sequence[Capture]) -> None:
        """Make the folder, so that an interrupted run is known for one."""
        self._stems = file_stems(c.name for c in captures)
        for folder in (self._out, self._out / REPORTS, self._out / ASSETS, *([self._out / TRACES] if self._options.keep_traces else [])):
            folder.mkdir(parents=True, exist_ok=True)
        # what is there counts until this run knows better
        self._records = dict(self._old)
        self.save()
        shutil.rmtree(self._out / STAGING, ignore_errors=True)
        for name in (FILE, INDEX):
            remove_unfinished(self._out / name)
        if self._options.dataset:
            store.begin(self._out / DATASET)
        write_shared(self._shared, self._out / ASSETS)

    def results(self, captures: Sequence[Capture]) -> Generator[Record | Failure | Skipped, None, None]:
        """What came of each capture, as it comes: first those with nothing to do."""
        tasks: dict[str, Task] = {}
        for capture in captures:
            old = self._reusable(capture)
            if old is not None and untouched(capture, old.inputs):
                self.kept += 1
                yield old
            else:
                tasks[capture.name] = self._task(capture, old)
        # the generator is closed with this one: no process goes on for nobody
        with closing(self._answers([(name, task.to_json()) for name, task in tasks.items()])) as answers:
            for name, answer in answers:
                yield self._take(tasks[name], answer)

    def _answers(self, tasks: list[tuple[str, dict[str, Any]]]) -> Generator[tuple[str, Answer], None, None]:
        options = self._options
        if options.cluster is None:
            yield from run_all(tasks, jobs=options.jobs or _cores(), timeout=options.timeout, attempts=_ATTEMPTS)
        elif tasks:
            from analyzer.fleet.cluster import run_all_on

            yield from run_all_on(options.cluster, tasks, timeout=options.timeout)

    def _reusable(self, capture: Capture) -> Record | None:
        """The record of the last run, if its report is there and would be made in the same way."""
        old = self._old.get(capture.name)
        if old is None or self._options.force or old.made_with != self._made_with(capture):
            return None
        if old.report != self._report(capture) or not (self._out / REPORTS / old.report).is_file():
            return None
        wanted = self._trace(capture)
        if wanted and (old.trace != wanted or not is_trace(self._out / TRACES / wanted)):
            return None
        if self._options.dataset and not store.holds(self._out / DATASET, self._part(capture.name)):
            return None
        return old

    def _made_with(self, capture: Capture) -> str:
        """Stands for all that a report depends on beside the bytes of its inputs."""
        told = [
            __version__,
            language.current(),
            self._thresholds,
            asdict(capture.reading),
            [shown(i) for i in capture.inputs],
            self._loads,
            self._options.replay,
        ]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    def _task(self, capture: Capture, old: Record | None) -> Task:
        limits = self._options.thresholds
        return Task(
            capture=capture,
            out=self._staging(capture.name).resolve(),
            report=self._report(capture),
            trace=self._trace(capture),
            lang=language.current(),
            thresholds="" if limits is None else limits.read_text(encoding="utf-8"),
            known=None if old is None else old.inputs,
            replay=self._options.replay,
            part=self._part(capture.name) if self._options.dataset else "",
        )

    def _staging(self, name: str) -> Path:
        """Where a worker puts what it makes of a capture, until it is published."""
        return self._out / STAGING / self._run / self._stems[name]

    def _part(self, name: str) -> str:
        """The stem of a capture's files in the dataset, with room for an ending."""
        stem = self._stems[name]
        return stem if len(stem.encode()) <= _LONGEST_PART else hashlib.sha256(stem.encode()).hexdigest()[:32]

    def _report(self, capture: Capture) -> str:
        return f"{self._stems[capture.name]}.html"

    def _trace(self, capture: Capture) -> str:
        """The name of the trace to keep; a capture that is a stored trace has one already."""
        stored = any(is_trace(capture.base / i) for i in capture.inputs)
        return f"{self._stems[capture.name]}.kvtrace" if self._options.keep_traces and not stored else ""

    def _take(self, task: Task, answer: dict[str, Any]) -> Record | Failure | Skipped:
        """Store what a worker answered."""
        name = task.capture.name
        self._records.pop(name, None)
        if "stamps" in answer:
            found = tuple(Stamp(**s) for s in answer["stamps"])
            if answer["summary"] is None:
                self.kept += 1
                record = replace(self._old[name], inputs=found)
            else:
                self.made += 1
                publish(self._staging(name), self._out, self._part(name), answer.get("files"))
                summary = Summary.from_json(answer["summary"])
                record = Record(name, task.report, task.trace, self._made_with(task.capture), found, summary)
            self._records[name] = record
            return record
        shutil.rmtree(self._staging(name), ignore_errors=True)
        store.remove(self._out / DATASET, self._part(name))
        (self._out / REPORTS / task.report).unlink(missing_ok=True)
        failure = _failure(name, answer, self._options.timeout)
        if task.capture.loose and failure.exit_code == ExitCode.NOTHING_USABLE:
            skipped = Skipped(name, failure.reason)
            self._skipped.append(skipped)
            return skipped
        self._failures[name] = failure
        return failure

    def save_now_and_then(self) -> None:
        """`save`, unless that would take a large part of the time: of thousands of captures it is a large file."""
        if time.monotonic() - self._saved >= self._cost / _SAVING_SHARE:
            self.save()

    def save(self) -> None:
        """Write batch.json as things are."""
        began = time.monotonic()
        save(self._out, self._fleet())
        self._saved = time.monotonic()
        self._cost = self._saved - began

    def finish(self, skipped: Sequence[Skipped]) -> Fleet:
        """Remove what is no longer wanted, and write batch.json and the index."""
        self._records = {name: r for name, r in self._records.items() if name in self._stems}
        self._skipped += skipped
        self._remove_old()
        shutil.rmtree(self._out / STAGING, ignore_errors=True)
        if store.is_dataset(self._out / DATASET):
            store.finish(self._out / DATASET, map(self._part, self._records))
        fleet = self._fleet()
        save(self._out, fleet)
        write_report(self._out / INDEX, render_index(fleet), force=True)
        return fleet

    def _fleet(self) -> Fleet:
        return Fleet(
            lang=language.current(),
            captures=tuple(sorted(self._records.values(), key=lambda r: r.name)),
            failures=tuple(sorted(self._failures.values(), key=lambda f: f.name)),
            skipped=tuple(sorted(self._skipped, key=lambda s: (s.what, s.why))),
            assets=tuple(sorted({*self._assets, *self._old_assets})),
            thresholds=self._thresholds,
        )

    def _remove_old(self) -> None:
        """Reports and traces of captures that are gone or have none any more, and shared scripts that no report loads.

        Only what batch.json says to be ours.
        """
        reports = {r.report for r in self._records.values()}
        traces = {r.trace for r in self._records.values()}
        for old in self._old.values():
            if old.report not in reports and is_plain(old.report):
                (self._out / REPORTS / old.report).unlink(missing_ok=True)
            self.removed += old.name not in self._stems
            if old.trace and old.trace not in traces and is_trace(self._out / TRACES / old.trace):
                shutil.rmtree(self._out / TRACES / old.trace)
        for asset in set(self._old_assets) - set(self._assets):
            (self._out / ASSETS / asset).unlink(missing_ok=True)
        self._old_assets = ()


def _failure(name: str, answer: dict[str, Any], timeout: float | None) -> Failure:
    if "failed" in answer:
        reason, hint, code = answer["failed"]
        return Failure(name, reason, hint, code)
    if "timeout" in answer:
        return Failure(name, f"not done after {timeout:g} s", "a longer --timeout, or since and until", ExitCode.INTERNAL)
    hint = "perhaps memory ran out: fewer --jobs, or since and until"
    return Failure(name, told_death(answer["died"]), hint, ExitCode.INTERNAL)


def _thresholds(path: Path | None) -> dict[str, float]:
    """The user's own thresholds; a bad file is told before any capture is read."""
    if path is None:
        return {}
    from analyzer.diagnosis.thresholds import load_thresholds

    return load_thresholds(path)


def _cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
