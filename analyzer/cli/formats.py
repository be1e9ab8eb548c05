"""`kvpm formats`"""

from __future__ import annotations

import sys

import click
from rich.table import Table
from rich.text import Text

from analyzer.cli.terminal import Console
from analyzer.formats.load import registry
from analyzer.formats.match import Match, attempts, key_reports, match_line
from analyzer.sources.wrappers import unwrap


@click.group(invoke_without_command=True)
@click.pass_context
def formats(ctx: click.Context) -> None:
    """List the line formats that are known, with the versions that print them."""
    if ctx.invoked_subcommand is not None:
        return
    table = Table(box=None, header_style="bold")
    for name in ("format", "engine", "becomes", "versions", "samples"):
        table.add_column(name, overflow="fold")
    for fmt in registry().formats:
        versions = ", ".join(dict.fromkeys(s.versions for s in fmt.samples))
        table.add_row(Text(fmt.id), fmt.engine, fmt.table, Text(versions), str(len(fmt.samples)))
    Console().print(table)
    click.echo(f"{len(registry().formats)} formats, {len(registry().prefixes)} line prefixes")


@formats.command()
@click.argument("line")
def explain(line: str) -> None:
    """Show what LINE is read as, field by field, or how far each format got. '-' reads standard input."""
    text = sys.stdin.read() if line == "-" else line
    for one in text.splitlines() or [""]:
        _explain(one)


def _explain(line: str) -> None:
    console = Console(highlight=False, soft_wrap=True)
    wrap = unwrap(line)
    match = match_line(wrap.text)
    if wrap.wrappers:
        when = f", stamped {wrap.outer.isoformat()}" if wrap.outer else ""
        origin = f", from {wrap.origin}" if wrap.origin else ""
        console.print(Text(f"collector   {' + '.join(wrap.wrappers)}{when}{origin}"))
    head = match.head
    if head.prefixes:
        parts = [f"{n}={v}" for n, v in (("stamp", head.stamp), ("tags", head.tags), ("process", head.proc), ("pid", head.pid),
                                         ("level", head.level), ("file", head.file)) if v]  # fmt: skip
        console.print(Text(f"prefix      {' + '.join(head.prefixes)}: {', '.join(parts)}"))
    else:
        console.print("prefix      none known")
    if match.parsed is None:
        _explain_failure(console, match)
        return
    parsed = match.parsed
    console.print(Text(f"format      {parsed.format.id} (engine {parsed.format.engine}, becomes {parsed.format.table})"))
    if parsed.format.notes:
        console.print(Text(f"note        {parsed.format.notes}"))
    for report in key_reports(parsed, match.message):
        console.print(Text(f"  {report.key}: {report.value}  ->  {report.fate}"))
    for column, value in parsed.values.items():
        console.print(Text(f"  {column} = {value}"))
    for key, value in parsed.extra.items():
        console.print(Text(f"  extra[{key}] = {value}"))
    for column in parsed.damaged:
        console.print(Text(f"  damaged: {column}"))


def _explain_failure(console: Console, match: Match) -> None:
    console.print("format      none reads this message")
    tried = attempts(match.head.engine, match.message)
    if not tried:
        console.print("            and none comes near")
    for attempt in tried:
        console.print(Text(f"  {attempt.format.id}: read {attempt.read} characters, {attempt.problem}"))
