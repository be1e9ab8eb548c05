"""The diagnosis for a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyzer.diagnosis import say
from analyzer.diagnosis.model import Answered, Diagnosis, InstanceDiagnosis
from analyzer.report import fmt, source_words

_STYLE = {"yes": "bold red", "no": "green", "partly": "yellow", "cannot_tell": "dim"}
_GREEN = ("none",)
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
        console.print(Text("An input was cut short: this covers only what could be read.", style="bold yellow"))
    style = "green" if verdict.cause in _GREEN else "dim" if verdict.cause == "insufficient_data" else "bold red"
    console.print(Text.assemble((verdict.cause, style), f"  confidence {verdict.confidence}"))
    console.print(Text(verdict.sentence))
    if verdict.advice:
        console.print(Text(f"What to do: {verdict.advice}"))
    for other in diagnosis.findings[1:]:
        where = f" [{other.instance}]" if len(diagnosis.instances) > 1 else ""
        console.print(Text(f"also{where} {other.cause} ({other.confidence}): {other.sentence}"))
    if len(diagnosis.instances) > 1:
        console.print()
        console.print(_instances(diagnosis.instances))
    console.print()
    console.print(_peaks(diagnosis))
    console.print()
    console.print(_checklist(diagnosis.checklist))
    missing = {(m.signal, m.flag) for a in diagnosis.checklist for m in a.missing}
    if missing:
        console.print(Text("\nTo be able to tell next time:", style="bold"))
        for signal, flag in sorted(missing):
            console.print(Text(f"  {signal}: {flag}"))
    console.print(Text("\nRead:", style="bold"))
    for source in diagnosis.sources[:MAX_SOURCES]:
        _print_source(console, source)
    if len(diagnosis.sources) > MAX_SOURCES:
        console.print(Text(f"  and {fmt.plural(len(diagnosis.sources) - MAX_SOURCES, 'more input')}; --json has them all"))


def _print_source(console: Console, source: source_words.Source) -> None:
    """What one input gave, then when and by whose clock, then the first of its notes."""
    path = fmt.clean(source.get("path"), 240)
    nothing = fmt.clean(source.get("nothing"), 300)
    if nothing:
        console.print(Text(f"  {path}: nothing ({nothing})"))
    else:
        kind = source_words.read_as(source)
        release = source_words.version(source)
        console.print(Text(f"  {path}: {kind}{f', version {release}' if release else ''}; {source_words.gave(source) or 'not counted'}"))
        start, end = fmt.to_utc(source.get("first_ts")), fmt.to_utc(source.get("last_ts"))
        when = [f"{fmt.span(start, end)} UTC"] if start or end else []
        lines = ", ".join(part for part in (*when, source_words.clock(source), source_words.offset(source)) if part)
        console.print(Text(f"    {lines}", style="dim"))
    notes = str(source.get("notes") or "").splitlines()
    for note in notes[:MAX_SOURCE_NOTES]:
        console.print(Text(f"    {fmt.clean(note, 200)}", style="dim"))
    if len(notes) > MAX_SOURCE_NOTES:
        console.print(Text(f"    and {fmt.plural(len(notes) - MAX_SOURCE_NOTES, 'more note')}; --json has them all", style="dim"))


def _peaks(diagnosis: Diagnosis) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    p = diagnosis.peaks
    window = say.span(diagnosis.window.start, diagnosis.window.end)
    table.add_row("window", Text(window))
    for name in ("running", "waiting", "kv_usage", "retraction_events", "retracted_requests", "preemptions"):
        value = getattr(p, name)
        shown = "not reported" if value is None else say.share(value) if name == "kv_usage" else f"{value:,}"
        note = p.notes.get(name, "")
        table.add_row(f"peak {name}", Text(shown + (f"  ({note})" if note else "")))
    return table


def _checklist(checklist: tuple[Answered, ...]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", width=2)
    table.add_column(width=11)
    table.add_column(overflow="fold")
    for a in checklist:
        answer = Text(a.answer.replace("_", " "), style=_STYLE[a.answer])
        table.add_row(str(a.number), answer, Text.assemble((a.title, "bold"), " ", a.sentence))
    return table


def _instances(instances: tuple[InstanceDiagnosis, ...]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in ("instance", "engine", "verdict", "confidence", "running", "waiting", "KV usage"):
        table.add_column(name, overflow="fold")
    for i in instances:
        p = i.peaks
        table.add_row(
            Text(i.instance), i.engine or "", i.verdict.cause, i.verdict.confidence,
            "" if p.running is None else str(p.running), "" if p.waiting is None else str(p.waiting),
            "" if p.kv_usage is None else say.share(p.kv_usage),
        )  # fmt: skip
    return table
