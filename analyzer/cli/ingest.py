"""`kvpm ingest`"""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from analyzer.cli.options import ingested, input_options
from analyzer.cli.prometheus import ServerOptions, server_options
from analyzer.errors import KvpmError
from analyzer.ingestion import default_trace_name
from analyzer.reading import InputOptions
from analyzer.sources.discover import find_inputs, is_trace


@click.command()
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@input_options(window=False)
@server_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The trace to make or to add to. Default: after the first input, in the working folder.",
)
@click.option("--force", is_flag=True, help="Make the trace anew if it exists, instead of adding to it.")
@click.option("--jobs", type=click.IntRange(1, 512), metavar="N", help="Processes that read at a time. Default: one a core.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Read them on a Dask cluster, tcp://HOST:8786. Inputs are URLs, or in a folder that all workers share.",
)
def ingest(
    inputs: tuple[str, ...],
    options: InputOptions,
    server: ServerOptions,
    output: Path | None,
    force: bool,
    jobs: int | None,
    cluster: str | None,
) -> int:
    """Read logs, metric dumps and request records into a stored trace (Parquet tables and a manifest).

    Reading the same input again changes nothing; of a log that grew the new lines are read, also when it was rotated and is
    called otherwise by now.
    """
    live = server.inputs(options.zone)
    if not inputs and not live:
        raise click.UsageError("Give an INPUT, or a server with --prometheus.")
    if cluster is not None and jobs is not None:
        raise click.UsageError("--jobs is of processes here: a cluster reads one input on each thread of its workers.")
    trace = output or default_trace_name(inputs or ("prometheus",))
    if force and is_trace(trace):
        _refuse_inside(trace, inputs)
        shutil.rmtree(trace)
    result = ingested(inputs, trace, options, live, jobs=jobs, cluster=cluster)
    click.echo(str(trace))
    for name, rows in result.manifest.totals.items():
        click.echo(f"  {name:<10} {rows:>9,} rows")
    for source in result.manifest.sources:
        r = source.row
        click.echo(
            f"  {source.path} ({r['format']}): {r['lines']:,} lines, {r['matched_lines']:,} matched, {r['ignored_lines']:,} ignored, "
            f"{r['unmatched_lines']:,} unmatched, {r['other_lines']:,} other"
        )
        if r["offset_s"]:
            click.echo(
                f"    {r['offset_s']:+g} s added to its times ({r['offset_from']}{'; ' + r['offset_basis'] if r['offset_basis'] else ''})"
            )
    return result.exit_code


def _refuse_inside(trace: Path, inputs: tuple[str, ...]) -> None:
    """What is to be read is not removed with the trace that is made anew."""
    for found in find_inputs(inputs):
        if found.path is not None and found.path.resolve().is_relative_to(trace.resolve()):
            raise KvpmError(f"{found.path} lies in {trace}, which --force removes", hint="name another trace for -o")
