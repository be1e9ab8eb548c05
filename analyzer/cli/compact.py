"""`kvpm compact`"""

from __future__ import annotations

from pathlib import Path

import click

from analyzer.trace.compaction import compact as compact_trace
from analyzer.trace.store import ROW_TABLES


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
def compact(trace: Path) -> int:
    """Make few files of the many that a trace has which was added to often.

    The rows of each input and table come to lie in one file, but for the last lines of a log that may grow. What is in the trace stays the
    same; queries over many small files are slower. `kvpm ingest` by itself keeps them below some twenty per input and table.
    """
    manifest = compact_trace(trace)
    files = sum(len(manifest.files_of(table)) for table in ROW_TABLES)
    inputs = len(manifest.sources)
    click.echo(f"{trace}: {files:,} files of {inputs:,} input{'s' * (inputs != 1)}")
    return 0
