"""`kvpm report`"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from analyzer.cli.fail_on import FailOn, exit_code, fail_on_options
from analyzer.cli.lang import lang_option
from analyzer.cli.options import input_options, inputs_argument, opened, refuse_input, replay_progress
from analyzer.diagnosis.diagnose import diagnose
from analyzer.diagnosis.model import Diagnosis
from analyzer.errors import ExitCode, KvpmError
from analyzer.ingestion import default_trace_name
from analyzer.language import _
from analyzer.reading import InputOptions
from analyzer.report import words
from analyzer.report.data import build_report
from analyzer.report.forms.browser import find_browser
from analyzer.report.forms.choice import FORMS, Form, chosen_form
from analyzer.report.forms.pictures import PictureForm, picture_address, picture_bytes, report_picture
from analyzer.report.forms.render import render_report
from analyzer.report.forms.svg import Picture
from analyzer.report.model import ReportData
from analyzer.report.render import render_html
from analyzer.report.replay.make import replay_of
from analyzer.report.write import refuse_existing, write_report
from analyzer.sources.urls import shown

Charts = Literal["svg", "png", "none"]
_PICTURE_SUFFIXES: dict[str, PictureForm] = {".svg": "svg", ".png": "png"}


@click.command()
@inputs_argument
@input_options(window=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file; '-' is standard output. Default: after the first input, in the working folder.",
)
@click.option("--format", "form", type=click.Choice(FORMS), help="Default: as the suffix of the file says, else html. pdf needs Chromium.")
@click.option(
    "--charts",
    type=click.Choice(("svg", "png", "none")),
    help="The picture inside of Markdown. Default: svg, or none with --picture. png needs Chromium.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Write the chart of the incident to this file, too (.svg or .png); Markdown refers to it.",
)
@click.option(
    "--replay/--no-replay",
    default=None,
    envvar="KVPM_REPLAY",
    help="Replay the requests of the worst instance: what would have helped? Default: KVPM_REPLAY (0 or 1), else where something "
    "broke and it takes seconds.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@fail_on_options
@lang_option
def report(
    inputs: tuple[str, ...],
    options: InputOptions,
    output: Path | None,
    form: Form | None,
    charts: Charts | None,
    picture: Path | None,
    replay: bool | None,
    force: bool,
    fail_on: FailOn,
) -> int:
    """Write the post-mortem: one HTML file, to be opened without a network, or Markdown, JSON or PDF."""
    to_stdout = output is not None and str(output) == "-"
    written = chosen_form(form, None if to_stdout else output)
    target = output or default_trace_name(inputs).with_suffix(f".{written}")
    picture_form = _checked(written, charts, picture)
    if picture == target:
        raise KvpmError(f"{target} cannot be the report and its picture", hint="name another file for --picture")
    for file in (target, picture):
        refuse_input(file, inputs, options.thresholds)
        if file is not None and not (file == target and to_stdout):
            refuse_existing(file, force=force)
    data, diagnosis, read = report_data(inputs, options, replay=replay)
    drawn = report_picture(data) if picture is not None or (written == "md" and charts != "none") else None
    if picture is not None and drawn is None:
        raise KvpmError("there is nothing to draw: no report, metric or event with a time was read", hint="leave out --picture")
    made = render_report(data, written, picture=_address(drawn, charts, picture, None if to_stdout else target))
    if to_stdout:
        click.echo(made, nl=False)
    else:
        write_report(target, made, force=force)
    if picture is not None and drawn is not None and picture_form is not None:
        write_report(picture, picture_bytes(drawn, picture_form), force=force)
    if not to_stdout:
        announce(diagnosis, target)
        if picture is not None:
            click.echo(_("picture: {path}", path=picture))
    return exit_code(diagnosis, read, fail_on)


def _checked(written: Form, charts: Charts | None, picture: Path | None) -> PictureForm | None:
    """The form of the picture's file; what cannot be done is said before the inputs are read."""
    if charts is not None and written != "md":
        raise KvpmError(
            f"--charts is about Markdown, and the report is written as {written}", hint="add --format md, or leave out --charts"
        )
    if charts in ("svg", "png") and picture is not None:
        raise KvpmError("Markdown holds the picture or refers to it: not both", hint="leave out --charts or --picture")
    picture_form = None if picture is None else _PICTURE_SUFFIXES.get(picture.suffix.lower())
    if picture is not None and picture_form is None:
        raise KvpmError(f"{picture}: a picture is .svg or .png", hint=f"name it {picture.with_suffix('.svg')}")
    if written == "pdf":
        find_browser("print-to-pdf")
    if "png" in (charts, picture_form):
        find_browser("screenshot")
    return picture_form


def _address(drawn: Picture | None, charts: Charts | None, picture: Path | None, target: Path | None) -> str:
    """What Markdown says of its picture: all of it as a `data:` URL, or where its file is as seen from the report's."""
    if drawn is None:
        return ""
    if picture is None:
        return picture_address(drawn, "png" if charts == "png" else "svg")
    return Path(os.path.relpath(picture, target.parent if target is not None else ".")).as_posix()


def report_data(inputs: Sequence[str], options: InputOptions, *, replay: bool | None = None) -> tuple[ReportData, Diagnosis, ExitCode]:
    """What the report of INPUT shows, the diagnosis in it, and how reading went; `replay` is the option."""
    with opened(inputs, options) as (trace, read):
        diagnosis = diagnose(trace)
        with replay_progress() as told:
            study = replay_of(trace, diagnosis, asked=replay, told=told)
        return build_report(trace.con, diagnosis, replay=study, inputs=[shown(i) for i in inputs]), diagnosis, read


def made_report(inputs: Sequence[str], options: InputOptions) -> tuple[str, Diagnosis, ExitCode]:
    """The page for INPUT, the diagnosis in it, and how reading went."""
    data, diagnosis, read = report_data(inputs, options)
    return render_html(data), diagnosis, read


def announce(diagnosis: Diagnosis, target: Path) -> None:
    """Say the verdict and where the report is."""
    verdict = diagnosis.verdict
    level = words.confidence_word(verdict.confidence)
    click.echo(_("{cause} ({confidence}): {sentence}", cause=verdict.cause, confidence=level, sentence=verdict.sentence))
    click.echo(_("report: {path}", path=target))
