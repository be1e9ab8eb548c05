"""`kvpm report`"""

from __future__ import annotations

from pathlib import Path

import click

from analyzer.cli.options import InputOptions, exit_code, fail_on_option, input_options, opened
from analyzer.diagnosis.diagnose import diagnose
from analyzer.ingest import default_trace_name
from analyzer.report.data import build_report
from analyzer.report.render import render_html
from analyzer.report.write import refuse_existing, write_report


@click.command()
@input_options(window=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The HTML file; '-' is standard output. Default: after the first input, in the working folder.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@fail_on_option
def report(
    inputs: tuple[str, ...],
    tz: str | None,
    year: int | None,
    instance: tuple[str, ...],
    since: str | None,
    until: str | None,
    output: Path | None,
    force: bool,
    fail_on: tuple[str, ...],
) -> int:
    """Write the post-mortem: one HTML file, to be opened without a network."""
    target = output or default_trace_name(inputs).with_suffix(".html")
    to_stdout = str(target) == "-"
    if not to_stdout:
        refuse_existing(target, force=force)
    with opened(inputs, InputOptions(tz, year, instance, since, until)) as (trace, read):
        diagnosis = diagnose(trace)
        html = render_html(build_report(trace.con, diagnosis))
    if to_stdout:
        click.echo(html, nl=False)
    else:
        write_report(target, html, force=force)
        click.echo(f"{diagnosis.verdict.cause} ({diagnosis.verdict.confidence}): {diagnosis.verdict.sentence}")
        click.echo(f"report: {target}")
    return exit_code(diagnosis, read, fail_on)
