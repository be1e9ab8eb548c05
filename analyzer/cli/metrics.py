"""`kvpm metrics`"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.table import Table
from rich.text import Text

from analyzer.cli.terminal import Console
from analyzer.errors import KvpmError
from analyzer.formats.metrics import ENGINES, Metric, catalogue, lookup

# wider than any row: a pipe has no width, and what reads it wants one line per metric
_NO_WIDTH = 10_000


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@click.option("--engine", type=click.Choice(ENGINES), help="Only the names of this exporter.")
@click.option("--json", "as_json", is_flag=True, help="All that is known of each, traps and conversions too, as a JSON array.")
def metrics(filters: tuple[str, ...], engine: str | None, as_json: bool) -> None:
    """List the metrics that are known: what they are called in SQL, their unit, versions and meaning.

    FILTER is a part of a name, as exported or as in SQL; of several, one has to fit. A whole series name works too,
    as any exporter writes it.
    """
    found = [m for m in catalogue() if engine in (None, m.engine) and (not filters or _fits(m, filters))]
    if not found:
        raise KvpmError(f"no metric is called like {' or '.join(filters)}", hint="kvpm metrics without a filter lists all of them")
    if as_json:
        click.echo(json.dumps([asdict(m) for m in found], indent=2, ensure_ascii=False))
        return
    table = Table(box=None, header_style="bold")
    for name in ("name", "exported as", "engine", "type", "unit", "versions", "meaning"):
        table.add_column(name, overflow="fold")
    for m in found:
        table.add_row(*map(Text, (m.name, ", ".join(m.exported), m.engine, ", ".join(m.type), m.unit, m.versions, m.meaning)))
    Console(width=None if sys.stdout.isatty() else _NO_WIDTH).print(table)


def _fits(metric: Metric, filters: Sequence[str]) -> bool:
    names = [name.lower() for name in (metric.name, *metric.raws)]
    for text in filters:
        known = lookup(text, metric.labels)
        if (known and known.metric == metric) or any(text.lower() in name for name in names):
            return True
    return False
