"""From a diagnosis and an opened trace to the report's data.

`build_report` reads the diagnosis and the views over time (`timeline`, `event`, and those that tell who said
what) and decides what is shown, in which order, and where it is capped. Text from the trace is cleaned here (control characters, length)
and escaped later, by the templates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import duckdb

from analyzer.diagnosis.model import (
    Advice,
    Answered,
    Diagnosis,
    Evidence,
    Finding,
    InstanceDiagnosis,
    MissingSignal,
    Peaks,
    Window,
)
from analyzer.language import _
from analyzer.report import fmt, words
from analyzer.report.capped import Capped, cap
from analyzer.report.charts import MAX_POINTS
from analyzer.report.explore.data import build_explore
from analyzer.report.explore.model import ExploreInstance
from analyzer.report.felt import measure
from analyzer.report.inputs import fact_groups, source_totals, source_views
from analyzer.report.model import (
    MAX_ADVICE,
    MAX_CHARTED_INSTANCES,
    MAX_EVIDENCE,
    MAX_FINDINGS,
    MAX_INCIDENTS,
    MAX_INSTANCE_ROWS,
    MAX_MISSING,
    MAX_NOTES,
    MAX_POINTS_OF_OTHERS,
    MAX_REASONS,
    AdviceView,
    EvidenceView,
    FindingView,
    IncidentRow,
    InstanceRow,
    InstanceView,
    Link,
    MissingView,
    PeakView,
    QuestionView,
    ReportData,
    Verdict,
)
from analyzer.report.numbers import key_numbers
from analyzer.report.parts import ttft_parts
from analyzer.report.question_charts import QuestionCharts
from analyzer.report.replay.data import Told, build_replay
from analyzer.report.severity import grade
from analyzer.report.story import story
from analyzer.report.timeline import build_timelines

# The anchor of the worst instance, which comes first.
FIRST_ANCHOR = "i1"


def build_report(
    con: duckdb.DuckDBPyConnection, diagnosis: Diagnosis, *, replay: Told | None = None, inputs: Sequence[str] = ()
) -> ReportData:
    """Everything the page shows, from an opened trace and its diagnosis.

    `replay` is what a replay of the worst instance came to (see `analyzer.report.replay.make`); without one the report says nothing of
    it. `inputs` are what the report is made of, for commands that a reader may copy.
    """
    ordered = _worst_first(diagnosis)
    anchors = {d.instance: f"i{n}" for n, d in enumerate(ordered[:MAX_CHARTED_INSTANCES], 1)}
    sql_seen: dict[tuple[str, str], str] = {}
    views = [_instance_view(con, d, anchors[d.instance], sql_seen) for d in ordered[:MAX_CHARTED_INSTANCES]]
    lead = ordered[0]
    worst = views[0]
    several = len(ordered) > 1
    questions = {a.id: Link(_question_text(a), f"#{worst.anchor}-q{a.number:02d}") for a in lead.checklist}
    top = _finding_view(diagnosis.verdict, questions)
    own = {_identity(f) for d in ordered for f in (d.verdict, *d.findings)}
    extra = [f for f in diagnosis.findings if f != diagnosis.verdict and _identity(f) not in own]
    cut_paths = [fmt.clean(s.get("path")) for s in diagnosis.sources if s.get("cut")]
    return ReportData(
        trace=fmt.clean(diagnosis.trace),
        tool_version=fmt.clean(diagnosis.tool_version, 40),
        schema_version=diagnosis.schema_version,
        cut=diagnosis.cut,
        cut_sources=cap(cut_paths, 5),
        verdict=Verdict(
            finding=top,
            window=_first_known(diagnosis.window, diagnosis.verdict.window),
            severity=worst.verdict.severity,
            grade=grade(diagnosis.verdict.cause, top.tone, worst.verdict.severity),
            numbers=worst.verdict.numbers,
            peaks=_peak_views(diagnosis.peaks, lead.engine),
            missing=_verdict_missing(diagnosis.verdict, diagnosis.checklist),
        ),
        engine=worst.engine,
        instance_rows=Capped(
            tuple(_instance_row(d, anchors) for d in ordered[:MAX_INSTANCE_ROWS]) if several else (),
            len(ordered) if several else 0,
        ),
        instances=Capped(tuple(views), len(ordered)),
        findings=cap((_finding_view(f, questions, diagnosis.verdict) for f in extra), MAX_FINDINGS),
        missing=_missing_views(diagnosis.checklist, *(d.checklist for d in ordered)),
        facts=fact_groups(diagnosis, [d.instance for d in ordered]),
        sources=source_views(con, diagnosis.sources),
        totals=source_totals(diagnosis.sources),
        notes=cap((fmt.clean(n, 600) for n in (*diagnosis.warnings, *diagnosis.notes)), MAX_NOTES),
        explore=build_explore(con, [_explored(d, anchors[d.instance]) for d in ordered[:MAX_CHARTED_INSTANCES]]),
        replay=None if replay is None else build_replay(replay, window=worst.verdict.window, inputs=inputs, several=several),
    )


def _explored(diagnosis: InstanceDiagnosis, anchor: str) -> ExploreInstance:
    window = _first_known(diagnosis.window, diagnosis.verdict.window)
    return ExploreInstance(anchor, diagnosis.instance, diagnosis.engine, window, _others(diagnosis))


def _worst_first(diagnosis: Diagnosis) -> list[InstanceDiagnosis]:
    """Instances in the order of the page. Without any, the top level stands for the only one."""
    if not diagnosis.instances:
        return [
            InstanceDiagnosis(
                instance=diagnosis.verdict.instance or "",
                engine=None,
                versions="",
                runs=0,
                verdict=diagnosis.verdict,
                findings=diagnosis.findings,
                window=diagnosis.window,
                peaks=diagnosis.peaks,
                checklist=diagnosis.checklist,
            )
        ]
    tones = {"bad": 0, "warn": 1, "grey": 2, "good": 3}
    confidences = {"high": 0, "medium": 1, "low": 2}

    def badness(d: InstanceDiagnosis) -> tuple[int, int, int, int, list[tuple[str, int]], str]:
        return (
            # The diagnosis has already said which one the top level repeats.
            0 if d.instance == diagnosis.verdict.instance else 1,
            tones[words.cause_words(d.verdict.cause)[3]],
            confidences.get(d.verdict.confidence, 3),
            -(d.peaks.waiting or 0),
            _natural(d.instance),
            d.instance,
        )

    return sorted(diagnosis.instances, key=badness)


def _natural(name: str) -> list[tuple[str, int]]:
    """Sorts pod-2 before pod-10."""
    # Capped, because int() refuses to read thousands of digits.
    return [(text, int(digits[:18] or -1)) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", name[:200])]


def _identity(finding: Finding) -> tuple[str, str | None, str]:
    return (finding.cause, finding.instance, finding.sentence)


def _first_known(*windows: Window) -> Window:
    return next((w for w in windows if w.start or w.end), Window(None, None))


def _question_text(answered: Answered) -> str:
    return f"{answered.number}. {fmt.clean(answered.title, 160)}"


def _finding_view(finding: Finding, questions: Mapping[str, Link], verdict: Finding | None = None) -> FindingView:
    """What the page shows of a finding; beside a `verdict` of the same cause, its advice is not told again."""
    told = verdict is not None and verdict.cause == finding.cause and verdict.instance == finding.instance
    title, short, meaning, tone = words.cause_words(finding.cause)
    sentence = fmt.prose(finding.sentence, 1000)
    headline, details = fmt.headline(sentence)
    return FindingView(
        cause=fmt.clean(finding.cause, 60),
        title=title,
        short=short,
        meaning=meaning,
        tone=tone,
        confidence=words.confidence_word(finding.confidence),
        sentence=sentence,
        headline=headline,
        details=details,
        instance=fmt.clean(finding.instance, 120),
        window=finding.window,
        rests_on=tuple(questions.get(i, Link(fmt.clean(i, 60))) for i in finding.rests_on[:14]),
        reasons=cap((fmt.prose(r, 500) for r in finding.reasons), MAX_REASONS),
        advice=cap(() if told else map(_advice_view, finding.advice), MAX_ADVICE),
        leave_alone=cap(() if told else (fmt.clean(s, 500) for s in finding.leave_alone), MAX_ADVICE),
    )


def _advice_view(advice: Advice) -> AdviceView:
    return AdviceView(
        action=fmt.clean(advice.action, 500),
        flag=fmt.clean(advice.flag, 120),
        current=fmt.clean(advice.current, 120),
        moves=fmt.clean(advice.moves, 500),
        cost=fmt.clean(advice.cost, 500),
        versions=fmt.clean(advice.versions, 60),
    )


def _peak_views(peaks: Peaks, engine: str | None) -> tuple[PeakView, ...]:
    views = []
    for key, label, unit, only in words.PEAKS:
        value = getattr(peaks, key)
        note = fmt.clean(peaks.notes.get(key), 200)
        # "not reported" is worth saying only of what this engine can report at all.
        if value is None and not note and only and engine and only != engine:
            continue
        views.append(PeakView(key, _(label), value, unit, note))
    return tuple(views)


def _verdict_missing(verdict: Finding, checklist: Sequence[Answered]) -> tuple[MissingSignal, ...]:
    """What a "cannot tell" verdict lacks: of the answers it rests on, else of all."""
    if verdict.cause != "insufficient_data":
        return ()
    basis = [a for a in checklist if a.id in verdict.rests_on and a.missing] or checklist
    found = {(m.signal, m.flag): m for a in basis for m in a.missing}
    return tuple(_clean_missing(m) for m in list(found.values())[:8])


def _clean_missing(missing: MissingSignal) -> MissingSignal:
    return MissingSignal(fmt.clean(missing.signal, 200), fmt.clean(missing.flag, 300))


def _instance_row(diagnosis: InstanceDiagnosis, anchors: Mapping[str, str]) -> InstanceRow:
    return InstanceRow(
        anchor=anchors.get(diagnosis.instance, ""),
        name=fmt.name_of(diagnosis.instance),
        engine=_engine(diagnosis),
        runs=diagnosis.runs,
        finding=_finding_view(diagnosis.verdict, {}),
        window=_first_known(diagnosis.window, diagnosis.verdict.window),
        peaks=diagnosis.peaks,
    )


def _engine(diagnosis: InstanceDiagnosis) -> str:
    parts = [fmt.clean(diagnosis.engine, 40), fmt.clean(diagnosis.versions, 120)]
    return " ".join(p for p in parts if p)


def _instance_view(
    con: duckdb.DuckDBPyConnection,
    diagnosis: InstanceDiagnosis,
    anchor: str,
    sql_seen: dict[tuple[str, str], str],
) -> InstanceView:
    window = _first_known(diagnosis.window, diagnosis.verdict.window)
    points = MAX_POINTS if anchor == FIRST_ANCHOR else MAX_POINTS_OF_OTHERS
    drawn = build_timelines(con, diagnosis.instance, window, others=_others(diagnosis), engine=diagnosis.engine, uid=anchor, points=points)
    findings = [f for f in diagnosis.findings if f != diagnosis.verdict]
    questions = {a.id: Link(_question_text(a), f"#{anchor}-q{a.number:02d}") for a in diagnosis.checklist}
    found = _finding_view(diagnosis.verdict, questions)
    severity = measure(con, diagnosis.instance, diagnosis.verdict.cause, window, drawn.extent)
    near = drawn.closeup or drawn.whole
    charts = None if near is None else QuestionCharts(con, diagnosis.instance, near, anchor)
    return InstanceView(
        anchor=anchor,
        name=fmt.name_of(diagnosis.instance),
        engine=_engine(diagnosis),
        runs=diagnosis.runs,
        verdict=Verdict(
            finding=found,
            window=window,
            severity=severity,
            grade=grade(diagnosis.verdict.cause, found.tone, severity),
            numbers=key_numbers(con, diagnosis.instance, diagnosis.verdict.cause, window, diagnosis.checklist, severity, diagnosis.peaks),
            peaks=_peak_views(diagnosis.peaks, diagnosis.engine),
            missing=_verdict_missing(diagnosis.verdict, diagnosis.checklist),
        ),
        story=None if near is None else story(near),
        closeup=drawn.closeup,
        timeline=drawn.whole,
        table=drawn.table,
        table_step_s=drawn.table_step_s,
        events=drawn.events,
        questions=tuple(_question_view(con, a, diagnosis, anchor, window, charts, sql_seen) for a in diagnosis.checklist),
        incidents=_incidents(diagnosis),
        findings=cap((_finding_view(f, questions, diagnosis.verdict) for f in findings), MAX_FINDINGS),
    )


def _others(diagnosis: InstanceDiagnosis) -> tuple[Window, ...]:
    """The windows of all incidents but the worst."""
    return tuple(i.window for i in diagnosis.incidents if i.number != 1)


def _incidents(diagnosis: InstanceDiagnosis) -> Capped[IncidentRow]:
    """The incidents in the order of time, where there are several; the cap leaves out the mildest."""
    several = [i for i in diagnosis.incidents if i.findings] if len(diagnosis.incidents) > 1 else []
    kept = sorted(several[:MAX_INCIDENTS], key=lambda i: (fmt.epoch_ms(i.window.start) if i.window.start else 0, i.number))
    return Capped(tuple(IncidentRow(i.number, i.window, _finding_view(i.findings[0], {})) for i in kept), len(several))


def _question_view(
    con: duckdb.DuckDBPyConnection,
    answered: Answered,
    diagnosis: InstanceDiagnosis,
    anchor: str,
    window: Window,
    charts: QuestionCharts | None,
    sql_seen: dict[tuple[str, str], str],
) -> QuestionView:
    chip, tone = words.answer_words(answered.answer)
    own = f"{anchor}-q{answered.number:02d}"
    basis = answered.id in diagnosis.verdict.rests_on
    expanded = answered.answer in ("yes", "partly") or basis
    # The page of a fleet stays small: beside the worst instance only what matters is drawn.
    drawn = expanded or anchor == FIRST_ANCHOR
    # The same query need not stand in a report twelve times.
    seen_at = sql_seen.setdefault((answered.id, answered.sql), own)
    return QuestionView(
        anchor=own,
        number=answered.number,
        title=fmt.clean(answered.title, 200),
        chip=chip,
        tone=tone,
        sentence=fmt.prose(answered.sentence, 800),
        expanded=expanded,
        basis=basis,
        evidence=cap((_evidence_view(e) for e in answered.evidence if e.value is not None), MAX_EVIDENCE),
        unreported=tuple(fmt.clean(e.name, 160) for e in answered.evidence[:MAX_EVIDENCE] if e.value is None),
        missing=tuple(_clean_missing(m) for m in answered.missing[:12]),
        chart=charts.of(answered.id, answered.number) if charts is not None and drawn else None,
        parts=ttft_parts(con, diagnosis.instance, f"{own}-parts") if answered.id == "ttft_split" else None,
        moment=_moment(answered, window),
        read=fmt.clean(answered.read, 1500),
        why=fmt.clean(answered.why, 1500),
        advice=fmt.clean(answered.advice, 1500),
        sql=fmt.clean_block(answered.sql) if seen_at == own else "",
        sql_at="" if seen_at == own else f"#{seen_at}",
    )


def _moment(answered: Answered, window: Window) -> Window:
    """When an answer was so: where its evidence says so, else the incident."""
    if answered.answer not in ("yes", "partly"):
        return Window(None, None)
    return _first_known(*(Window(e.start, e.end) for e in answered.evidence), window)


def _evidence_view(evidence: Evidence) -> EvidenceView:
    return EvidenceView(
        name=fmt.clean(evidence.name, 160),
        value=fmt.measure(evidence.value, fmt.clean(evidence.unit, 40)),
        window=Window(evidence.start, evidence.end),
        source=fmt.clean(evidence.source, 300),
    )


def _missing_views(*checklists: Sequence[Answered]) -> Capped[MissingView]:
    found: dict[tuple[str, str], set[int]] = {}
    for checklist in checklists:
        for answered in checklist:
            for missing in answered.missing:
                clean = _clean_missing(missing)
                found.setdefault((clean.signal, clean.flag), set()).add(answered.number)
    # What answers the most questions is the most worth turning on.
    ranked = sorted(found.items(), key=lambda item: (-len(item[1]), min(item[1]), item[0]))
    return cap((MissingView(s, f, tuple(sorted(q))) for (s, f), q in ranked), MAX_MISSING)
