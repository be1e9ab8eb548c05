"""The diagnosis for a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analyzer.diagnosis import say
from analyzer.diagnosis.model import Answered, Diagnosis, Finding, InstanceDiagnosis
from analyzer.language import N_, _, ngettext
from analyzer.report import fmt, source_words, words

_STYLE = {"yes": "bold red", "no": "green", "partly": "yellow", "cannot_tell": "dim"}
_GREEN = ("none",)
_ANSWERS = {"yes": N_("yes"), "no": N_("no"), "partly": N_("partly"), "cannot_tell": N_("cannot tell")}
_PEAKS = {
    "running": N_("peak running"),
    "waiting": N_("peak waiting"),
    "kv_usage": N_("peak kv_usage"),
    "retraction_events": N_("peak retraction_events"),
    "retracted_requests": N_("peak retracted_requests"),
    "preemptions": N_("peak preemptions"),
}
_COLUMNS = (N_("instance"), N_("engine"), N_("verdict"), N_("confidence"), N_("running"), N_("waiting"), N_("KV usage"))
MAX_ADVICE = 4
MAX_SOURCES = 40
MAX_SOURCE_NOTES = 3


def summary(diagnosis: Diagnosis, *, to_file: bool) -> str:
    """Verdict first, then peaks, findings, checklist, and what was read; coloured for a terminal only."""
    console = Console(highlight=False, no_color=True, width=120) if to_file or not sys.stdout.isatty() else Console(highlight=False)
    with console.capture() as capture:
        _print(console, diagnosis)
    # table cells are padded to the full width: no one wants those blanks in a ticket
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _print(console: Console, diagnosis: Diagnosis) -> None:
    verdict = diagnosis.verdict
    if diagnosis.cut:
        console.print(Text(_("An input was cut short: this covers only what could be read."), style="bold yellow"))
    style = "green" if verdict.cause in _GREEN else "dim" if verdict.cause == "insufficient_data" else "bold red"
    level = _("confidence {level}", level=words.confidence_word(verdict.confidence))
    console.print(Text.assemble((verdict.cause, style), f"  {level}"))
    console.print(Text(verdict.sentence))
    _print_advice(console, verdict)
    for warning in diagnosis.warnings:
        console.print(Text(_("Warning: {warning}", warning=warning), style="yellow"))
    if diagnosis.thresholds:
        told = fmt.listed(f"{name} = {value:g}" for name, value in diagnosis.thresholds.items())
        console.print(Text(_("Thresholds of your own: {thresholds}", thresholds=told), style="yellow"))
    for other in diagnosis.findings[1:]:
        fields = {"cause": other.cause, "confidence": words.confidence_word(other.confidence), "sentence": other.sentence}
        console.print(
            Text(
                _("also [{instance}] {cause} ({confidence}): {sentence}", instance=other.instance, **fields)
                if len(diagnosis.instances) > 1
                else _("also {cause} ({confidence}): {sentence}", **fields)
            )
        )
    if len(diagnosis.instances) > 1:
        console.print()
        console.print(_instances(diagnosis.instances))
    console.print()
    console.print(_peaks(diagnosis))
    console.print()
    console.print(_checklist(diagnosis.checklist))
    missing = {(m.signal, m.flag) for a in diagnosis.checklist for m in a.missing}
    if missing:
        console.print(Text("\n" + _("To be able to tell next time:"), style="bold"))
        for signal, flag in sorted(missing):
            console.print(Text("  " + _("{signal}: {flag}", signal=signal, flag=flag)))
    console.print(Text("\n" + _("Read:"), style="bold"))
    for source in diagnosis.sources[:MAX_SOURCES]:
        _print_source(console, source)
    if len(diagnosis.sources) > MAX_SOURCES:
        n = len(diagnosis.sources) - MAX_SOURCES
        more = ngettext("and {n} more input; --json has them all", "and {n} more inputs; --json has them all", n, n=fmt.number(n))
        console.print(Text(f"  {more}"))


def _print_advice(console: Console, finding: Finding) -> None:
    """What to do and what to leave alone, the most useful first."""
    if finding.advice:
        console.print(Text(_("What to do:"), style="bold"))
    for advice in finding.advice[:MAX_ADVICE]:
        now = " " + _("(now {value})", value=fmt.clean(advice.current, 60)) if advice.current is not None else ""
        has = f" ({advice.versions})" if advice.versions else ""
        flag = Text(f"{advice.flag}{now}{has}" + _(": "), style="bold") if advice.flag else Text()
        cost = " " + _("Cost:") + f" {advice.cost}" if advice.cost else ""
        said = fmt.sentences((advice.action, advice.moves))
        console.print(Padding(Text.assemble("- ", flag, said, (cost, "dim")), (0, 0, 0, 2)))
    if len(finding.advice) > MAX_ADVICE:
        more = _("and {n} more; --json has them all", n=len(finding.advice) - MAX_ADVICE)
        console.print(Text(f"  {more}", style="dim"))
    if finding.leave_alone:
        console.print(Text(_("What to leave alone:"), style="bold"))
    for sentence in finding.leave_alone[:MAX_ADVICE]:
        console.print(Padding(Text(f"- {sentence}"), (0, 0, 0, 2)))


def _print_source(console: Console, source: source_words.Source) -> None:
    """What one input gave, then when and by whose clock, then the first of its notes."""
    path = fmt.clean(source.get("path"), 240)
    nothing = fmt.clean(source.get("nothing"), 300)
    if nothing:
        console.print(Text("  " + _("{path}: nothing ({why})", path=path, why=nothing)))
    else:
        kind = source_words.read_as(source)
        release = source_words.version(source)
        fields = {"path": path, "kind": kind, "gave": source_words.gave(source) or _("not counted")}
        line = (
            _("{path}: {kind}, version {version}; {gave}", version=release, **fields) if release else _("{path}: {kind}; {gave}", **fields)
        )
        console.print(Text(f"  {line}"))
        start, end = fmt.to_utc(source.get("first_ts")), fmt.to_utc(source.get("last_ts"))
        when = [f"{fmt.span(start, end)} UTC"] if start or end else []
        lines = fmt.clauses((*when, source_words.clock(source), source_words.offset(source)))
        console.print(Text(f"    {lines}", style="dim"))
    notes = str(source.get("notes") or "").splitlines()
    for note in notes[:MAX_SOURCE_NOTES]:
        console.print(Text(f"    {fmt.clean(note, 200)}", style="dim"))
    if len(notes) > MAX_SOURCE_NOTES:
        n = len(notes) - MAX_SOURCE_NOTES
        more = ngettext("and {n} more note; --json has them all", "and {n} more notes; --json has them all", n, n=fmt.number(n))
        console.print(Text(f"    {more}", style="dim"))


def _peaks(diagnosis: Diagnosis) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    p = diagnosis.peaks
    window = say.span(diagnosis.window.start, diagnosis.window.end)
    table.add_row(_("window"), Text(window))
    for name, label in _PEAKS.items():
        value = getattr(p, name)
        shown = fmt.not_reported() if value is None else say.share(value) if name == "kv_usage" else f"{value:,}"
        note = p.notes.get(name, "")
        table.add_row(_(label), Text(shown + (f"  ({note})" if note else "")))
    return table


def _checklist(checklist: tuple[Answered, ...]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", width=2)
    table.add_column(width=11)
    table.add_column(overflow="fold")
    for a in checklist:
        answer = Text(_(_ANSWERS[a.answer]), style=_STYLE[a.answer])
        table.add_row(str(a.number), answer, Text.assemble((a.title, "bold"), " ", a.sentence))
    return table


def _instances(instances: tuple[InstanceDiagnosis, ...]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in _COLUMNS:
        table.add_column(_(name), overflow="fold")
    for i in instances:
        p = i.peaks
        table.add_row(
            Text(i.instance), i.engine or "", i.verdict.cause, words.confidence_word(i.verdict.confidence),
            "" if p.running is None else str(p.running), "" if p.waiting is None else str(p.waiting),
            "" if p.kv_usage is None else say.share(p.kv_usage),
        )  # fmt: skip
    return table
