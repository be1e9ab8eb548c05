"""Puts together what a replay of one server starts from: its settings, its load, how long its steps took, and what was seen of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb

from analyzer.diagnosis.diagnose import diagnose, rows
from analyzer.diagnosis.model import Diagnosis
from analyzer.errors import KvpmError
from analyzer.language import _
from analyzer.replay.case.configured import configured
from analyzer.replay.case.facts import engine_of, run_to_replay, runs_of
from analyzer.replay.case.given import given_step_time
from analyzer.replay.case.rebuilt import rebuilt
from analyzer.replay.case.recorded import recorded
from analyzer.replay.case.requests import Records, records
from analyzer.replay.case.uncovered import ended
from analyzer.replay.fit import fit_step_time, observe
from analyzer.replay.model import Case, NoReplay
from analyzer.replay.step_time import StepTime
from analyzer.replay.workload import Workload
from analyzer.trace.reader import Trace

# Idle time after the last request that still belongs to the case.
_IDLE_S = 30.0


def case_of(trace: Trace, instance: str, run_id: str | None = None, step_time: StepTime | None = None) -> Case | NoReplay:
    """The case of one process run of an instance: of `run_id`, else of the run in which most requests waited.

    With `step_time` the capture need not tell how long steps take; what clients waited beside the engine is still taken from it.
    Raises KvpmError where the instance has no such run.
    """
    con = trace.con
    runs = runs_of(con, instance)
    if run_id is not None and run_id not in runs:
        raise KvpmError(f"{instance!r} has no run {run_id!r}", hint=f"it has {', '.join(runs) or 'none'}")
    run = run_id or run_to_replay(con, instance)
    if run is None:
        return NoReplay(instance, _("the capture holds no log or metrics of an SGLang or vLLM server by this name"))
    known = configured(con, instance, run)
    if isinstance(known, NoReplay):
        return known
    found = records(con, instance, run)
    if found is not None:
        workload: Workload | None = recorded(con, instance, run, found, known.settings)
    else:
        workload = rebuilt(con, instance, run, known.settings)
    start = workload.start if workload is not None else None
    if workload is None or start is None:
        return NoReplay(
            instance,
            _("neither request records nor counters or scheduler lines tell which requests came"),
            _("record requests with a client (arrival, prompt and output tokens), or scrape the metrics every few seconds"),
        )
    if len(runs) > 1:
        workload = _with_note(
            workload, _("replayed is the process run {run}, one of {n}; requests of the others are left out", run=run, n=len(runs))
        )
    end_s = (_end(con, instance, run, found, workload) - start).total_seconds()
    fitted = fit_step_time(con, instance, run, workload, known.settings, start, end_s)
    if step_time is not None:
        fitted = given_step_time(step_time, 0.0 if isinstance(fitted, NoReplay) else fitted.overhead_s)
    elif isinstance(fitted, NoReplay):
        return fitted
    return Case(
        instance=instance,
        engine=known.engine,
        engine_version=known.version,
        workload=workload,
        settings=known.settings,
        setting_rows=known.rows,
        fitted=fitted,
        observed=observe(con, instance, run, start, end_s),
        start=start,
        end_s=end_s,
        uncovered=(*known.uncovered, *ended(con, instance, run, start, end_s)),
    )


def instances(trace: Trace, diagnosis: Diagnosis | None = None) -> list[str]:
    """The servers of a trace that a replay can be tried of, the worst first as the diagnosis has them; it is made where it is not given."""
    ordered = [i.instance for i in (diagnosis or diagnose(trace)).instances]
    return [name for name in ordered if engine_of(trace.con, name) is not None]


def _end(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, found: Records | None, workload: Workload) -> datetime:
    """Up to when the capture says what the server did: the observer's last moment while requests were pending, since it then gave them up;
    else the last report, less what is idle time."""
    assert workload.start is not None
    last = found.last if found is not None else None
    if found is not None and found.pending and last is not None:
        return last
    told = rows(con, "SELECT last_report_ts AS ts FROM run WHERE instance = ? AND run_id = ?", instance, run_id)
    report = told[0]["ts"] if told else None
    if last is None:
        return report or workload.start + timedelta(seconds=workload.duration_s)
    return last if report is None else max(last, min(report, last + timedelta(seconds=_IDLE_S)))


def _with_note(workload: Workload, note: str) -> Workload:
    return Workload(workload.requests, workload.contents, workload.start, workload.approximate, (*workload.notes, note))
