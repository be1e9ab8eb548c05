"""The whole diagnosis of an opened trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb

from analyzer import __version__
from analyzer.diagnosis import say
from analyzer.diagnosis.advice import advise
from analyzer.diagnosis.answers import answer_all
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import PRECEDENCE, is_covered
from analyzer.diagnosis.causes.forecast import warnings
from analyzer.diagnosis.model import Diagnosis, Finding, IncidentDiagnosis, InstanceDiagnosis, Peaks, Window
from analyzer.diagnosis.questions import questions
from analyzer.diagnosis.stored_words import stored, stored_reasons
from analyzer.diagnosis.thresholds import changed, in_force
from analyzer.diagnosis.verdict import findings
from analyzer.formats.versions import version_key
from analyzer.language import N_, _
from analyzer.trace.reader import Trace

# Each is diagnosed; a capture with more than these has one trouble, not many.
MAX_INCIDENTS = 20
_NO_REPORT = N_("no scheduler report in the capture")
# Why a peak is lower than another source has it, by the source that was read.
_MORE_ELSEWHERE = {
    "log": N_("from the log; the metrics show {value} at another time"),
    "metrics": N_("from the metrics; the log shows {value} at another time"),
}
# Views that are asked for each instance, besides those of the questions.
_OF_INSTANCE = ("peaks", "_silence", "_stall", "slow_decode", "forecast")


def diagnose(trace: Trace) -> Diagnosis:
    """Answer every question for every instance; the top level repeats the worst one."""
    con = trace.con
    names = [r["instance"] for r in rows(con, "SELECT instance FROM _instance ORDER BY instance")]
    if len(names) > 1:
        trace.keep({*_OF_INSTANCE, *(q.view for q in questions().values())})
    instances = [_instance(con, name) for name in names]
    instances.sort(key=lambda i: (_rank(i.verdict), -(i.peaks.waiting or 0), i.instance))
    sources = [_in_words(s) for s in rows(con, "SELECT * FROM sources ORDER BY path")]
    if instances:
        worst = instances[0]
        verdict, window, peaks, checklist = worst.verdict, worst.window, worst.peaks, worst.checklist
    else:
        empty = next((s for s in sources if s["nothing"]), None)
        if empty:
            why = _("This capture cannot tell what happened: {path} {nothing}.", path=empty["path"], nothing=empty["nothing"])
        else:
            why = _("This capture cannot tell what happened: it holds lines of an engine, but no report, event or start-up line of one.")
        advice, leave_alone = advise("insufficient_data", None, (None, None), {})
        verdict = Finding("insufficient_data", "low", why, advice=advice, leave_alone=leave_alone)
        nothing = dict.fromkeys(("running", "waiting", "kv_usage", "retraction_events", "retracted_requests", "preemptions"), _(_NO_REPORT))
        window, peaks = Window(None, None), Peaks(notes=nothing)
        checklist = tuple(
            q.answer("", "cannot_tell", _("The capture holds no scheduler report."), missing=q.missing(None)) for q in questions().values()
        )
    found = [verdict] + [f for i in instances for f in i.findings if f is not verdict]
    return Diagnosis(
        tool_version=__version__,
        trace=trace.path.name.removesuffix(".kvtrace"),
        verdict=verdict,
        findings=tuple(found),
        window=window,
        peaks=peaks,
        checklist=checklist,
        instances=tuple(instances),
        facts=tuple(rows(con, "SELECT * FROM fact ORDER BY instance, run_id, key")),
        sources=tuple(sources),
        notes=tuple(_notes(trace, sources)),
        warnings=tuple(
            _("{instance}: {warning}", instance=i.instance, warning=w) if len(instances) > 1 else w for i in instances for w in i.warnings
        ),
        cut=any(s["cut"] for s in sources),
        thresholds={name: now for name, (now, _) in changed(in_force(con)).items()},
    )


def rows(con: duckdb.DuckDBPyConnection, sql: str, *parameters: object) -> list[Row]:
    """The result of a query as one dict per row."""
    cursor = con.execute(sql, parameters) if parameters else con.execute(sql)
    names = [d[0] for d in cursor.description or []]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


def _in_words(source: Row) -> Row:
    """A row of `sources` with what readers wrote of it in the language of the moment."""
    told = {"nothing": stored(source["nothing"]) or None, "notes": "\n".join(map(stored, (source["notes"] or "").splitlines())) or None}
    return source | told


def _rank(verdict: Finding) -> tuple[int, int]:
    # a green instance never hides one that cannot be told
    order = [c for c in PRECEDENCE if c not in ("none", "insufficient_data")] + ["insufficient_data", "none"]
    return (order.index(verdict.cause), {"high": 0, "medium": 1, "low": 2}[verdict.confidence])


def _instance(con: duckdb.DuckDBPyConnection, name: str) -> InstanceDiagnosis:
    about = rows(con, "SELECT * FROM _instance WHERE instance = ?", name)[0]
    peak = rows(con, "SELECT * FROM peaks WHERE instance = ?", name)[0]
    views = {q.view: rows(con, f"SELECT * FROM {q.view} WHERE instance = ?", name) for q in questions().values()}
    version_min, version_max, versions = _versions(con, name)
    instance = Case(
        instance=name,
        incident=1,
        engine=about["engine"],
        reports=peak["reports"],
        waiting_reports=peak["waiting_reports"],
        running_reports=peak["running_reports"],
        has_log=_has_log(con, name),
        idle=peak["running"] == 0 and peak["waiting"] == 0 and not peak["tokens_made"],
        open_ended=False,
        rows={},
        ends=tuple(rows(con, "SELECT * FROM _run_end WHERE instance = ? ORDER BY first_ts", name)),
        silences=tuple(rows(con, "SELECT * FROM _silence WHERE instance = ? ORDER BY start_ts", name)),
        stalls=tuple(rows(con, "SELECT * FROM _stall WHERE instance = ? ORDER BY start_ts", name)),
        slow_decode=next(iter(rows(con, "SELECT * FROM slow_decode WHERE instance = ?", name)), None),
        limits=in_force(con),
        versions=(version_min, version_max),
    )
    open_ended, facts = _open_ended(con, name), _facts(con, name)
    configured = questions()["config_asked_for_it"].view
    cases = [
        replace(
            instance,
            incident=n,
            open_ended=n in open_ended,
            # a view that tells of the whole instance has one row for all of its incidents
            rows={view: next(r for r in found if r.get("incident", n) == n) for view, found in views.items()},
            facts=facts.get(next(r["run_id"] for r in views[configured] if r["incident"] == n), {}),
        )
        for n in sorted(r["incident"] for r in views["q01_ttft"])[:MAX_INCIDENTS]
    ]
    case = cases[0]
    found, each = findings(cases, is_covered(case.engine, version_min))
    return InstanceDiagnosis(
        instance=name,
        engine=case.engine,
        versions=versions,
        runs=about["runs"],
        verdict=found[0],
        findings=found,
        window=found[0].window,
        peaks=_peaks(case, peak),
        checklist=answer_all(case),
        incidents=tuple(
            IncidentDiagnosis(c.incident, c.window, of_it, answer_all(c)) for c, of_it in zip(cases, each, strict=False) if c.window.start
        ),
        warnings=warnings(next(iter(rows(con, "SELECT * FROM forecast WHERE instance = ?", name)), None), case.limits),
    )


def _has_log(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    sql = "SELECT count(*) AS n FROM sources WHERE format = 'engine_log' AND list_contains(string_split(instance, ','), ?)"
    return bool(rows(con, sql, name)[0]["n"])


def _open_ended(con: duckdb.DuckDBPyConnection, name: str) -> set[int]:
    """The incidents whose queue is still there at the instance's last report."""
    found = rows(
        con,
        "SELECT i.incident FROM _load AS l JOIN incident AS i USING (instance) WHERE l.instance = ? "
        "GROUP BY i.incident, i.end_ts HAVING arg_max(l.waiting, l.ts) > 0 AND max(l.ts) <= i.end_ts",
        name,
    )
    return {r["incident"] for r in found}


def _facts(con: duckdb.DuckDBPyConnection, name: str) -> dict[str | None, dict[str, Row]]:
    """The facts of each run by key, each with the line it was read from."""
    found: dict[str | None, dict[str, Row]] = {}
    for fact in rows(con, "SELECT * FROM fact WHERE instance = ? ORDER BY key", name):
        found.setdefault(fact["run_id"], {})[fact["key"]] = fact
    return found


def _versions(con: duckdb.DuckDBPyConnection, name: str) -> tuple[str | None, str | None, str]:
    """(oldest and newest version that fit, words) of an instance: stated by a line, or inferred from the shape of lines."""
    stated = rows(
        con,
        "SELECT DISTINCT value FROM fact WHERE instance = ? AND key = 'engine_version' ORDER BY value",
        name,
    )
    if stated:
        values = [str(r["value"]) for r in stated]
        values.sort(key=version_key)
        return values[0], values[-1], ", ".join(values)
    inferred = rows(
        con,
        "SELECT max(version_min) AS lo, min(version_max) AS hi FROM sources "
        "WHERE version_from = 'inferred' AND list_contains(string_split(instance, ','), ?)",
        name,
    )[0]
    low, high = inferred["lo"], inferred["hi"]
    if low and high and version_key(low) > version_key(high):
        # Two inputs of neighbouring versions' shapes: it lies between them either way.
        low, high = high, low
    if low and low == high:
        return low, high, _("{version} (inferred from its lines)", version=low)
    if low and high:
        return low, high, _("{low} to {high} (inferred from its lines)", low=low, high=high)
    if low:
        return low, high, _("{version} or later (inferred from its lines)", version=low)
    if high:
        return low, high, _("up to {version} (inferred from its lines)", version=high)
    return None, None, _("unknown")


def _peaks(case: Case, peak: Row) -> Peaks:
    retracted = case.row("retracted")
    notes: dict[str, str] = {}
    if not case.reports:
        for name in ("running", "waiting", "kv_usage"):
            notes[name] = _(_NO_REPORT)
    if peak["pool_usage"] is not None and peak["kv_usage"] is not None and peak["pool_usage"] > peak["kv_usage"]:
        notes["kv_usage"] = _("another pool (sliding window or mamba) was fuller: {usage}", usage=say.share(peak["pool_usage"]))
    if peak["other_basis"] is not None:
        for name in ("running", "waiting", "kv_usage"):
            other = peak[f"other_{name}"]
            if other is not None and peak[name] is not None and other > peak[name]:
                shown = say.share(other) if name == "kv_usage" else f"{other:,}"
                notes[name] = _(_MORE_ELSEWHERE[peak["basis"]], value=shown)
    events = requests = preemptions = None
    if case.engine == "sglang" or retracted["visible"] == "each":
        requests = retracted["retracted_requests"]
        events = retracted["retraction_events"]
        if retracted["visible"] == "each":
            requests = requests or 0
        notes["preemptions"] = _("not applicable: SGLang retracts")
        if retracted["visible"] == "counter":
            notes["retracted_requests"] = _("by the engine's counter")
        if events is None:
            notes["retraction_events"] = _("no log in the capture")
        if requests is None:
            notes["retracted_requests"] = _("scrape sglang:num_retracted_requests_total, or keep the log")
    elif case.engine == "vllm":
        notes["retraction_events"] = notes["retracted_requests"] = _("not applicable: vLLM preempts")
        preemptions = retracted["preemptions"]
        if retracted["visible"] == "counter":
            notes["preemptions"] = _("by the engine's counter, resets understood")
        elif preemptions is not None:
            notes["preemptions"] = _("at least this many: vLLM V0 prints its count at every fiftieth")
        elif retracted["visible"] == "never":
            notes["preemptions"] = _("vLLM V1 logs no preemption: scrape vllm:num_preemptions_total")
        else:
            notes["preemptions"] = _("vLLM V0 prints every fiftieth preemption only, and none is in the log")
    return Peaks(
        running=peak["running"],
        waiting=peak["waiting"],
        kv_usage=peak["kv_usage"],
        retraction_events=events,
        retracted_requests=requests,
        preemptions=preemptions,
        notes=notes,
    )


def _notes(trace: Trace, sources: list[dict[str, Any]]) -> list[str]:
    notes = [
        _("Threshold {name} is {now}, as shipped {shipped}.", name=name, now=format(now, "g"), shipped=format(shipped, "g"))
        for name, (now, shipped) in changed(in_force(trace.con)).items()
    ]
    notes += [
        _("{source}: instance {instance} ({because})", source=a["source"], instance=a["instance"], because=stored_reasons(a["because"]))
        for a in trace.manifest.aliases
    ]
    for s in sources:
        notes += [_("{source}: {note}", source=s["path"], note=line) for line in (s["notes"] or "").splitlines()]
    return notes
