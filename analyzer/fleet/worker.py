"""What a worker process does: one capture after another, from the files to its report.

Started by `analyzer.fleet.pool`. What reads and draws is imported by the first task that has something to do.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from analyzer import language
from analyzer.errors import ExitCode, KvpmError
from analyzer.fleet.model import Capture, Reading, Stamp
from analyzer.fleet.stamps import same_content, stamps
from analyzer.fleet.state import ASSETS, DATASET, REPORTS, TRACES
from analyzer.report import fmt
from analyzer.sources.urls import is_url, shown

_STEPS_IN = re.compile(r"(?<![\w.])/(?:[^\s/'\"]+/)+")


_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """A capture to make a report of; `known` are the stamps of its last report, None where that must be made anew.

    `report` and `trace` are names of files to make in the folders of those in `out`, which is this task's own; `trace` is
    empty where none is wanted. `thresholds` is the text of a file of them, empty without one. With `replay` the worst instance is
    replayed where `kvpm report` would do so unasked. `part` is the stem of its files in a dataset, empty where none is wanted.
    """

    capture: Capture
    out: Path
    report: str
    trace: str
    lang: str
    thresholds: str
    known: tuple[Stamp, ...] | None
    replay: bool = False
    part: str = ""

    def to_json(self) -> dict[str, Any]:
        """One line for a worker."""
        c = self.capture
        return {
            "name": c.name, "base": str(c.base), "inputs": c.inputs, "reading": asdict(c.reading),
            "out": str(self.out), "report": self.report, "trace": self.trace, "lang": self.lang,
            "thresholds": self.thresholds,
            "known": None if self.known is None else [asdict(s) for s in self.known],
            "replay": self.replay, "part": self.part,
        }  # fmt: skip

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Task:
        """The same, read by the worker."""
        reading: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told["reading"].items()}
        return cls(
            capture=Capture(told["name"], Path(told["base"]), tuple(told["inputs"]), Reading(**reading)),
            out=Path(told["out"]), report=told["report"], trace=told["trace"], lang=told["lang"],
            thresholds=told["thresholds"],
            known=None if told["known"] is None else tuple(Stamp(**s) for s in told["known"]),
            replay=told["replay"], part=told["part"],
        )  # fmt: skip


def main() -> None:
    """Answer tasks until there are no more, or whoever asks is gone."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # what a library prints must not be taken for an answer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        answers.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
        answers.flush()


def _end_with(parent: int) -> None:
    """End this process when that one has ended: of one that was killed nobody else would end what it began."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


def answer(task: dict[str, Any]) -> dict[str, Any]:
    """`work`, or of `kvpm ingest` one input read, with whatever goes wrong as {"failed": [reason, hint, exit code]}."""
    try:
        with language.use(task["lang"]):
            if "read" in task:
                from analyzer.fleet.cluster_reading import read_here

                return read_here(task["read"], task["out"])
            return work(Task.from_json(task))
    except KvpmError as error:
        return {"failed": [_without_folders(error.message), error.hint, int(error.exit_code)]}
    except OSError as error:
        where = f"{Path(os.fsdecode(error.filename)).name}: " if isinstance(error.filename, str | bytes) else ""
        return {"failed": [f"{where}{error.strerror or error}", "check permissions, names and free space", int(ExitCode.INPUT_CUT)]}
    except MemoryError:
        return {"failed": ["out of memory", "fewer --jobs, or since and until", int(ExitCode.INTERNAL)]}
    except Exception as error:
        if os.environ.get("KVPM_DEBUG"):
            import traceback

            traceback.print_exc()
        first = (str(error).splitlines() or [""])[0]
        said = f"internal error: {type(error).__name__}: {_without_folders(first)}"
        return {"failed": [fmt.clean(said, 300), "set KVPM_DEBUG=1 to see where", int(ExitCode.INTERNAL)]}


def work(task: Task) -> dict[str, Any]:
    """Make the report, unless the inputs are the known ones; {"stamps": …, "summary": None where nothing was to do}."""
    # names of files are stored and shown as they are below this folder
    try:
        os.chdir(task.capture.base)
    except OSError as error:
        hint = "on a cluster, give URLs or a folder that all workers share"
        raise KvpmError(f"its folder is not there: {error.strerror}", hint=hint, exit_code=ExitCode.INPUT_CUT) from error
    # before reading: what is appended meanwhile makes the next run read again
    now = stamps(task.capture, task.known or ())
    stored = [asdict(s) for s in now]
    if task.known is not None and same_content(now, task.known):
        return {"stamps": stored, "summary": None}
    for folder in (REPORTS, TRACES):
        (task.out / folder).mkdir(parents=True, exist_ok=True)
    return {"stamps": stored, "summary": _made(task)}


def _made(task: Task) -> dict[str, Any]:
    from analyzer.diagnosis.diagnose import diagnose
    from analyzer.fleet.dataset.extract import Extracted, extract
    from analyzer.fleet.summarise import summarise
    from analyzer.reading import InputOptions, ingested, opened
    from analyzer.report.data import build_report
    from analyzer.report.render import render_html
    from analyzer.report.replay.make import replay_of
    from analyzer.report.write import write_report

    inputs = task.capture.inputs
    with tempfile.TemporaryDirectory(prefix="kvpm-") as scratch:
        options = InputOptions(**asdict(task.capture.reading), thresholds=_thresholds(task, Path(scratch)))
        read = ExitCode.OK
        kept = None
        if task.trace:
            kept = Path(scratch) / task.trace
            read = ingested(inputs, kept, options).exit_code
            inputs = (str(kept),)
        with opened(inputs, options) as (trace, opening):
            # the captures are what is done in parallel; and the same order of work gives the same last digit
            trace.con.execute("SET threads = 1")
            diagnosis = replace(diagnose(trace), trace=task.capture.name)
            # one process: the captures are what is done in parallel
            study = replay_of(trace, diagnosis, asked=None if task.replay else False, jobs=1)
            report = build_report(trace.con, diagnosis, replay=study, inputs=[shown(i) for i in task.capture.inputs])
            html = render_html(report, assets_beside=f"../{ASSETS}")
            summary = summarise(diagnosis, report.verdict.severity, cut=ExitCode.INPUT_CUT in (read, opening))
            if task.part:
                about = Extracted(task.capture.name, task.part, f"{REPORTS}/{task.report}")
                extract(trace, diagnosis, summary, about, task.out / DATASET)
        if kept is not None:
            _keep(kept, task.out / TRACES / task.trace, task.capture.base)
        write_report(task.out / REPORTS / task.report, html, force=True)
    return summary.to_json()


def _thresholds(task: Task, scratch: Path) -> Path | None:
    if not task.thresholds:
        return None
    file = scratch / "thresholds.toml"
    file.write_text(task.thresholds, encoding="utf-8")
    return file


def _keep(scratch: Path, target: Path, base: Path) -> None:
    """Put a trace into the folder of traces, without the places of its inputs on this machine."""
    from analyzer.trace.manifest import read_manifest

    manifest = read_manifest(scratch)
    for source in manifest.sources:
        source.folder = source.folder if is_url(source.folder) else os.path.relpath(source.folder, base)
    manifest.write(scratch)
    shutil.copytree(scratch, target)


def _without_folders(text: str) -> str:
    """Where a scratch folder or the batch lies says nothing to who reads the index, and differs from run to run."""
    return _STEPS_IN.sub("…/", text)
