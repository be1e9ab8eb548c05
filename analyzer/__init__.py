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

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analyzer.diagnosis.model import Diagnosis
    from analyzer.ingestion import IngestOptions, IngestResult
    from analyzer.trace.reader import Trace

__version__ = "0.1.0"
__all__ = ["diagnose", "ingest", "open_trace", "render_report"]

# The heavy libraries are loaded by the call that needs them: `kvpm --help` should not wait for them.


def ingest(inputs: Sequence[str], trace: str | Path, options: IngestOptions | None = None) -> IngestResult:
    """Read logs into the stored trace `trace`; see `analyzer.ingestion.ingest`."""
    from analyzer.ingestion import ingest as run

    return run(inputs, Path(trace), options)


def open_trace(path: str | Path, *, since: datetime | None = None, until: datetime | None = None) -> Trace:
    """Open a stored trace as a DuckDB database with all views in place (`.con`); close it after use.

    `since` and `until` bound what the views show. Raises KvpmError for what is no trace.
    """
    from analyzer.diagnosis.thresholds import thresholds
    from analyzer.trace.reader import Trace

    return Trace(Path(path), since=since, until=until, variables=thresholds())


def diagnose(trace: Trace) -> Diagnosis:
    """Answer the checklist for every instance of an opened trace and name the cause."""
    from analyzer.diagnosis.diagnose import diagnose as run

    return run(trace)


def render_report(trace: Trace, diagnosis: Diagnosis | None = None) -> str:
    """The post-mortem as one self-contained HTML page."""
    from analyzer.report.data import build_report
    from analyzer.report.render import render_html

    return render_html(build_report(trace.con, diagnosis or diagnose(trace)))
