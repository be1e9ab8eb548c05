"""`kvpm report`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from analyzer.cli.fail_on import FailOn, exit_code, fail_on_options
from analyzer.cli.lang import lang_option
from analyzer.cli.options import InputOptions, input_options, inputs_argument, opened, refuse_input
from analyzer.diagnosis.diagnose import diagnose
from analyzer.diagnosis.model import Diagnosis
from analyzer.errors import ExitCode
from analyzer.ingestion import default_trace_name
from analyzer.language import _
from analyzer.report import words
from analyzer.report.data import build_report
from analyzer.report.render import render_html
from analyzer.report.write import refuse_existing, write_report


@click.command()
@inputs_argument
@input_options(window=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The HTML file; '-' is standard output. Default: after the first input, in the working folder.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@fail_on_options
@lang_option
def report(
    inputs: tuple[str, ...],
    options: InputOptions,
    output: Path | None,
    force: bool,
    fail_on: FailOn,
) -> int:
    """Write the post-mortem: one HTML file, to be opened without a network."""
    target = output or default_trace_name(inputs).with_suffix(".html")
    to_stdout = str(target) == "-"
    refuse_input(target, inputs)
    if not to_stdout:
        refuse_existing(target, force=force)
    html, diagnosis, read = made_report(inputs, options)
    if to_stdout:
        click.echo(html, nl=False)
    else:
        write_report(target, html, force=force)
        announce(diagnosis, target)
    return exit_code(diagnosis, read, fail_on)


def made_report(inputs: Sequence[str], options: InputOptions) -> tuple[str, Diagnosis, ExitCode]:
    """The page for INPUT, the diagnosis in it, and how reading went."""
    with opened(inputs, options) as (trace, read):
        diagnosis = diagnose(trace)
        return render_html(build_report(trace.con, diagnosis)), diagnosis, read


def announce(diagnosis: Diagnosis, target: Path) -> None:
    """Say the verdict and where the report is."""
    verdict = diagnosis.verdict
    level = words.confidence_word(verdict.confidence)
    click.echo(_("{cause} ({confidence}): {sentence}", cause=verdict.cause, confidence=level, sentence=verdict.sentence))
    click.echo(_("report: {path}", path=target))
