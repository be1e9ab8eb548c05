"""`kvpm diagnose`"""

from __future__ import annotations

import json
from pathlib import Path

import click

from analyzer.cli.fail_on import FailOn, exit_code, fail_on_options
from analyzer.cli.lang import lang_option
from analyzer.cli.options import input_options, inputs_argument, opened, refuse_input
from analyzer.cli.summary import summary
from analyzer.diagnosis.diagnose import diagnose as diagnose_library
from analyzer.reading import InputOptions
from analyzer.report.write import refuse_existing, write_report


@click.command()
@inputs_argument
@input_options(window=True)
@click.option("--json", "as_json", is_flag=True, help="Print the diagnosis as one JSON object.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@fail_on_options
@lang_option
def diagnose(
    inputs: tuple[str, ...],
    options: InputOptions,
    as_json: bool,
    output: Path | None,
    force: bool,
    fail_on: FailOn,
) -> int:
    """Say what happened: verdict, peaks and the checklist, in the terminal or as JSON."""
    refuse_input(output, inputs, options.thresholds)
    if output is not None and str(output) != "-":
        refuse_existing(output, force=force)
    with opened(inputs, options) as (trace, read):
        diagnosis = diagnose_library(trace)
    if as_json:
        text = json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
    else:
        text = summary(diagnosis, to_file=output is not None)
    if output is None or str(output) == "-":
        click.echo(text, nl=False)
    else:
        write_report(output, text, force=force)
    return exit_code(diagnosis, read, fail_on)
