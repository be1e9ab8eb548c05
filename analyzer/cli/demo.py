"""`kvpm demo`"""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from analyzer.cli.lang import lang_option
from analyzer.cli.report import announce, made_report
from analyzer.reading import InputOptions
from analyzer.report.write import refuse_existing, write_report
from analyzer.resources import demo_dir

FILES = ("server.log", "metrics.prom.gz", "client.jsonl.gz")


@click.command()
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="demo_report.html", show_default=True, help="The HTML file to write."
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@lang_option
def demo(output: Path, force: bool) -> None:
    """Write a report of a small incident that comes with the tool."""
    refuse_existing(output, force=force)
    # from beside the files, so that the report names them as one would on the spot
    with contextlib.chdir(demo_dir()):
        html, diagnosis, _ = made_report(FILES, InputOptions("UTC", 2026, tuple(f"{name}=demo" for name in FILES)))
    write_report(output, html, force=force)
    announce(diagnosis, output)
