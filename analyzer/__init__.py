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
    from analyzer.replay.model import NoReplay, Study
    from analyzer.trace.reader import Trace

__version__ = "0.1.0"
__all__ = ["compare", "diagnose", "ingest", "open_trace", "render_report", "replay_trace"]

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


def replay_trace(
    trace: Trace,
    changes: Sequence[str] = (),
    goals: Sequence[tuple[str, str]] = (),
    *,
    instance: str | None = None,
    grid: bool = True,
    jobs: int | None = None,
    lang: str = "en",
) -> list[Study | NoReplay]:
    """What would have helped: the requests of the worst server, or of `instance` ('all': of each), through a model of its scheduler.

    Each of `changes` is one what-if as `kvpm replay --set` takes it (`l1_tokens=x1.25`), each of `goals` a goal and the knob that shall
    meet it (`("ttft_p99<2s", "l1_tokens")`); with `grid` every knob is tried. Raises KvpmError for what cannot be parsed or found.
    """
    from analyzer.replay import goal, knobs
    from analyzer.replay.study import Asked, study

    with use(lang):
        asked = Asked(tuple(map(knobs.parse, changes)), tuple((goal.parse(g), by) for g, by in goals), grid)
        return study(trace, asked, instance=instance, jobs=jobs)


def render_report(trace: Trace, diagnosis: Diagnosis | None = None, lang: str = "en", *, study: Study | NoReplay | None = None) -> str:
    """The post-mortem as one self-contained HTML page in `lang`; what is given keeps the language it was made in.

    With the `study` of the worst instance (`analyzer.replay.study`) the page tells what would have helped.
    """
    from analyzer.report.data import build_report
    from analyzer.report.render import render_html

    with use(lang):
        return render_html(build_report(trace.con, diagnosis or diagnose(trace, lang), replay=study))
