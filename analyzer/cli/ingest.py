"""`kvpm ingest`"""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from analyzer.cli.options import InputOptions, ingested, input_options, inputs_argument
from analyzer.ingestion import default_trace_name
from analyzer.sources.discover import is_trace


@click.command()
@inputs_argument
@input_options(window=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The trace to make or to add to. Default: after the first input, in the working folder.",
)
@click.option("--force", is_flag=True, help="Make the trace anew if it exists, instead of adding to it.")
def ingest(inputs: tuple[str, ...], options: InputOptions, output: Path | None, force: bool) -> int:
    """Read logs into a stored trace (Parquet tables and a manifest).

    Reading the same input again changes nothing; a log that grew adds its new lines.
    """
    trace = output or default_trace_name(inputs)
    if force and is_trace(trace):
        shutil.rmtree(trace)
    result = ingested(inputs, trace, options)
    click.echo(str(trace))
    for name, rows in result.manifest.totals.items():
        click.echo(f"  {name:<10} {rows:>9,} rows")
    for source in result.manifest.sources:
        r = source.row
        click.echo(
            f"  {source.path}: {r['lines']:,} lines, {r['matched_lines']:,} matched, {r['ignored_lines']:,} ignored, "
            f"{r['unmatched_lines']:,} unmatched, {r['other_lines']:,} other"
        )
    return result.exit_code
