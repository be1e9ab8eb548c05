"""The comparison for a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analyzer.comparison import said
from analyzer.comparison.model import Comparison, SideSummary
from analyzer.comparison.page import groups
from analyzer.language import _
from analyzer.report import fmt, words

_STYLES = {"better": "green", "worse": "bold red", "neither": "dim", "cannot_tell": "yellow"}
_OUTCOMES = {"better": "bold green", "worse": "bold red", "no_clear_change": "bold", "cannot_tell": "bold yellow"}


def text(comparison: Comparison, *, to_file: bool) -> str:
    """Verdict first, then the two sides, reasons, the table, and what changed; coloured for a terminal only."""
    console = Console(highlight=False, no_color=True, width=130) if to_file or not sys.stdout.isatty() else Console(highlight=False)
    with console.capture() as capture:
        _print(console, comparison)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _print(console: Console, c: Comparison) -> None:
    headline, _tone = said.outcome(c.change.outcome)
    console.print(Text(headline, style=_OUTCOMES[c.change.outcome]))
    console.print(Text(c.change.sentence))
    console.print()
    for letter, side in (("A", c.a), ("B", c.b)):
        console.print(Text(_side(letter, side)))
    for title, sentences in ((_("What it rests on:"), c.change.reasons), (_("What weakens it:"), c.change.weakens)):
        if sentences:
            console.print(Text("\n" + title, style="bold"))
        for sentence in sentences:
            console.print(Padding(Text(f"- {sentence}"), (0, 0, 0, 2)))
    console.print()
    console.print(_table(c))
    changed = [pair for pair in c.answers if pair.changed]
    if changed:
        console.print(Text("\n" + _("Answers that changed:"), style="bold"))
    for pair in changed:
        fields = {"n": pair.number, "title": pair.title, "a": said.answer(pair.a), "b": said.answer(pair.b)}
        console.print(Text("  " + _("{n}. {title} {a} → {b}", **fields)))
    for note in c.notes:
        console.print(Text(_("Note: {note}", note=note), style="dim"))


def _side(letter: str, side: SideSummary) -> str:
    return _(
        "{letter}: {name}, {instance}, {span} UTC: {cause} ({confidence})",
        letter=letter,
        name=side.name,
        instance=side.instance or _("unnamed instance"),
        span=fmt.span(side.window.start, side.window.end),
        cause=side.cause,
        confidence=words.confidence_word(side.confidence),
    )


def _table(c: Comparison) -> Table:
    """What at least one side reported."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, justify in (("", "left"), ("A", "right"), ("B", "right"), (_("Difference"), "right"), (_("Ratio"), "right"), ("", "left")):
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    for group in groups(c.deltas):
        for d in group.rows:
            word, _tone = said.direction(d.direction)
            went = Text(word, style=_STYLES[d.direction])
            if d.note:
                went.append(f" ({d.note})", style="dim")
            table.add_row(d.title, Text(said.value(d.a, d.unit)), Text(said.value(d.b, d.unit)), said.difference(d), said.ratio(d), went)
    return table
