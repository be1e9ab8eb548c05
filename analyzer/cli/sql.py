"""`kvpm sql`"""

from __future__ import annotations

import csv
import json
import sys
from datetime import datetime
from pathlib import Path

import click
import duckdb
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyzer.cli.options import input_options, opened
from analyzer.errors import ExitCode, KvpmError
from analyzer.fleet.dataset.reader import Dataset, dataset_in
from analyzer.reading import InputOptions
from analyzer.sources.discover import STDIN

_LIST = (
    "SELECT table_name AS name, string_agg(column_name, ', ' ORDER BY ordinal_position) AS columns "
    "FROM information_schema.columns WHERE table_name NOT LIKE '\\_%' ESCAPE '\\' GROUP BY table_name ORDER BY table_name"
)


@click.command()
@click.argument("source", metavar="INPUT")
@click.argument("query", required=False)
@click.option("--table", "form", flag_value="table", default=True, help="A table for people (the default).")
@click.option("--csv", "form", flag_value="csv", help="CSV with a header.")
@click.option("--json", "form", flag_value="json", help="A JSON array of objects.")
@input_options(window=True)
def sql(
    source: str,
    query: str | None,
    form: str,
    options: InputOptions,
) -> int:
    """Ask a trace (or logs) in SQL; without QUERY, list tables and views. QUERY '-' reads standard input.

    kvpm sql trace.kvtrace "SELECT * FROM timeline WHERE waiting > 0"

    INPUT may be what kvpm batch --dataset wrote: then it is the whole fleet that is asked.
    """
    text = sys.stdin.read() if query == "-" else query or _LIST
    if not text.strip():
        raise KvpmError("the query is empty", hint="`kvpm sql INPUT` without a query lists tables and columns")
    fleet = dataset_in(Path(source)) if source != STDIN else None
    if fleet is not None:
        _refuse_window(options)
        with Dataset(fleet) as dataset:
            names, rows = _asked(dataset.con, text)
        read = ExitCode.OK
    else:
        with opened((source,), options) as (trace, read):
            names, rows = _asked(trace.con, text)
    _print(names, rows, form)
    return read


def _refuse_window(options: InputOptions) -> None:
    """A dataset was read with its own options, and is asked for a time in the query, which opens the files of that only."""
    if options != InputOptions(tz=None, year=None, instance=()):
        raise click.UsageError("A dataset takes no options of reading: ask for a time in the query, WHERE day = '2026-11-30'.")


def _asked(con: duckdb.DuckDBPyConnection, text: str) -> tuple[list[str], list[tuple[object, ...]]]:
    try:
        cursor = con.execute(text)
        return [d[0] for d in cursor.description or []], cursor.fetchall()
    except duckdb.Error as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise KvpmError(f"SQL: {first}", hint="`kvpm sql INPUT` without a query lists tables and columns") from None


def _print(names: list[str], rows: list[tuple[object, ...]], form: str) -> None:
    if form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows([[_plain(v) for v in row] for row in rows])
    elif form == "json":
        objects = [dict(zip(names, (_plain(v) for v in row), strict=True)) for row in rows]
        click.echo(json.dumps(objects, indent=1, default=str))
    else:
        table = Table(box=None, header_style="bold")
        for name in names:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(Text("" if v is None else str(_plain(v))) for v in row))
        # without a terminal nothing is folded: a pager or grep wants one row a line
        console = Console() if sys.stdout.isatty() else Console(width=10_000)
        with console.capture() as capture:
            console.print(table)
        click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value
