"""`kvpm demo`"""

from __future__ import annotations

from pathlib import Path

import click

from analyzer.cli.report import report
from analyzer.resources import demo_dir


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="demo_report.html",
    show_default=True,
    help="The HTML file to write.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@click.pass_context
def demo(ctx: click.Context, output: Path, force: bool) -> int:
    """Write a report of a small incident that comes with the tool."""
    log = demo_dir() / "server.log"
    code = ctx.invoke(
        report, inputs=(str(log),), tz="UTC", year=2026, instance=("server.log=demo",), since=None, until=None,
        output=output, force=force, fail_on=(),
    )  # fmt: skip
    return int(code)
