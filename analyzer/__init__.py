"""kvpm: post-mortem analysis of LLM serving incidents from what the servers left behind.

The public API:

    from analyzer import ingest, open_trace, diagnose, render_report

    ingest(["server.log"], "incident.kvtrace")
    with open_trace("incident.kvtrace") as trace:
        print(diagnose(trace).verdict.sentence)
        trace.con.sql("SELECT * FROM timeline").pl()   # any DuckDB query

Everything the `kvpm` command does is a call of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.language import use

if TYPE_CHECKING:
    from analyzer.comparison.model import Comparison
    from analyzer.diagnosis.model import Diagnosis
    from analyzer.ingestion import IngestOptions, IngestResult
    from analyzer.trace.reader import Trace

__version__ = "0.1.0"
__all__ = ["compare", "diagnose", "ingest", "open_trace", "render_report"]

# The heavy libraries are loaded by the call that needs them: `kvpm --help` should not wait for them.


def ingest(inputs: Sequence[str], trace: str | Path, options: IngestOptions | None = None) -> IngestResult:
    """Read logs into the stored trace `trace`; see `analyzer.ingestion.ingest`."""
    from analyzer.ingestion import ingest as run

    return run(inputs, Path(trace), options)


def open_trace(
    path: str | Path,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> Trace:
    """Open a stored trace as a DuckDB database with all views in place (`.con`); close it after use.

    `since` and `until` bound what the views show; `thresholds` are your own over the shipped ones, for the views and for
    `diagnose` of this trace. Raises KvpmError for what is no trace, and for a threshold that cannot be.
    """
    from analyzer.diagnosis.thresholds import thresholds as with_shipped
    from analyzer.trace.reader import Trace

    return Trace(Path(path), since=since, until=until, variables=with_shipped(thresholds))


def diagnose(trace: Trace, lang: str = "en") -> Diagnosis:
    """Answer the checklist for every instance of an opened trace and name the cause.

    Sentences are in `lang`, one of `analyzer.language.LANGUAGES` (else ValueError); ids, causes and answers are the same in all.
    """
    from analyzer.diagnosis.diagnose import diagnose as run

    with use(lang):
        return run(trace)


def compare(a: Trace, b: Trace, *, instances: tuple[str | None, str | None] = (None, None), lang: str = "en") -> Comparison:
    """What is different in `b`, and whether it is better; `instances` names one of each, as `kvpm compare --instances` does.

    Two windows of one trace are the trace opened twice, with `since` and `until`. Raises KvpmError where a trace holds no such instance.
    """
    from analyzer.comparison.compare import compare as run
    from analyzer.comparison.side import side

    with use(lang):
        first = side(a, diagnose(a, lang), letter="A", instance=instances[0])
        second = side(b, diagnose(b, lang), letter="B", instance=instances[1], like=first.instance.instance)
        return run(first, second)


def render_report(trace: Trace, diagnosis: Diagnosis | None = None, lang: str = "en") -> str:
    """The post-mortem as one self-contained HTML page in `lang`; a `diagnosis` that is given keeps the language it was made in."""
    from analyzer.report.data import build_report
    from analyzer.report.render import render_html

    with use(lang):
        return render_html(build_report(trace.con, diagnosis or diagnose(trace, lang)))
