"""`kvpm diagnose`"""

from __future__ import annotations

import json

import click

from analyzer.cli.options import InputOptions, exit_code, fail_on_option, input_options, opened
from analyzer.cli.summary import print_summary
from analyzer.diagnosis.diagnose import diagnose as diagnose_library


@click.command()
@input_options(window=True)
@click.option("--json", "as_json", is_flag=True, help="Print the diagnosis as one JSON object.")
@fail_on_option
def diagnose(
    inputs: tuple[str, ...],
    tz: str | None,
    year: int | None,
    instance: tuple[str, ...],
    since: str | None,
    until: str | None,
    as_json: bool,
    fail_on: tuple[str, ...],
) -> int:
    """Say what happened: verdict, peaks and the checklist, in the terminal or as JSON."""
    with opened(inputs, InputOptions(tz, year, instance, since, until)) as (trace, read):
        diagnosis = diagnose_library(trace)
    if as_json:
        click.echo(json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=True, allow_nan=False))
    else:
        print_summary(diagnosis)
    return exit_code(diagnosis, read, fail_on)
