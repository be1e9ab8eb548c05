"""From log text to a diagnosis, in a scratch folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from analyzer.diagnosis.diagnose import diagnose
from analyzer.diagnosis.model import Diagnosis, InstanceDiagnosis
from analyzer.diagnosis.thresholds import thresholds
from analyzer.ingestion import IngestOptions, ingest
from analyzer.trace.reader import Trace


def diagnosis_of(
    logs: str | Mapping[str, str], *, since: datetime | None = None, until: datetime | None = None, queries: dict[str, Any] | None = None
) -> Diagnosis:
    """The diagnosis of one log, or of several by file name.

    `queries` maps a name to SQL; its values are replaced by the rows.
    """
    if isinstance(logs, str) and not queries:
        return _of_one(logs, since, until)
    return _of_files(logs, since, until, queries)


@lru_cache(maxsize=64)
def _of_one(log: str, since: datetime | None, until: datetime | None) -> Diagnosis:
    return _of_files(log, since, until, None)


def _of_files(logs: str | Mapping[str, str], since: datetime | None, until: datetime | None, queries: dict[str, Any] | None) -> Diagnosis:
    files = {"server.log": logs} if isinstance(logs, str) else logs
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "in"
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        trace = Path(scratch) / "t.kvtrace"
        ingest([str(folder)], trace, IngestOptions(UTC, 2026))
        with Trace(trace, since=since, until=until, variables=thresholds()) as opened:
            for name, sql in (queries or {}).items():
                assert queries is not None
                queries[name] = opened.con.execute(sql).fetchall()
            return diagnose(opened)


def diagnoses_of_each(logs: Mapping[str, str]) -> dict[str, InstanceDiagnosis]:
    """What is said of each of several servers, by name, from one trace of all: to open one costs more than all the rest."""
    found = diagnosis_of({f"{name}/server.log": log for name, log in logs.items()})
    by_name = {i.instance: i for i in found.instances}
    assert set(by_name) == set(logs)
    return by_name


class Servers:
    """Logs of servers that know nothing of each other: read into one trace when the first of them is asked for."""

    def __init__(self) -> None:
        self._logs: dict[str, str] = {}
        self._found = cache(lambda: diagnoses_of_each(self._logs))

    def add(self, log: str) -> Callable[[], InstanceDiagnosis]:
        """One more; what is returned gives what is said of it."""
        name = f"server-{len(self._logs)}"
        self._logs[name] = log
        return lambda: self._found()[name]


def causes(diagnosis: Diagnosis | InstanceDiagnosis) -> list[str]:
    """The causes of all findings, the verdict first."""
    return [f.cause for f in diagnosis.findings]


def answer(diagnosis: Diagnosis | InstanceDiagnosis, question: str) -> str:
    """The answer to one question of the checklist."""
    return next(a.answer for a in diagnosis.checklist if a.id == question)
