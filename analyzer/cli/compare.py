"""`kvpm compare`"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import click

from analyzer.cli.lang import lang_option
from analyzer.cli.options import input_options, opened, refuse_input
from analyzer.comparison.compare import compare as compare_library
from analyzer.comparison.curves import Align
from analyzer.comparison.page import build_page, render_page
from analyzer.comparison.side import Side, side
from analyzer.comparison.text import text
from analyzer.diagnosis.diagnose import diagnose
from analyzer.errors import ExitCode, KvpmError
from analyzer.ingestion import default_trace_name
from analyzer.language import _
from analyzer.reading import InputOptions
from analyzer.report.write import refuse_existing, write_report
from analyzer.sources.urls import shown

_AS_IT_IS = "-"


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="A [B]")
@input_options(window=False)
@click.option(
    "--windows",
    nargs=2,
    metavar="FROM..TO FROM..TO",
    help="What to look at in A and in B: 07:00..07:10 07:20..07:30; either end may be left out, and '-' is all of it. Times as for "
    "kvpm report --since.",
)
@click.option(
    "--instances",
    nargs=2,
    metavar="NAME NAME",
    help="Which server of A and which of B, as kvpm diagnose names them; '-' is the default: of A the one in the worst state, of B the "
    "one called like it, else its worst.",
)
@click.option("--names", nargs=2, metavar="NAME NAME", help="What to call A and B: before after. Default: their inputs.")
@click.option(
    "--align",
    type=click.Choice(["start", "incident"]),
    default="start",
    help="What is put at the same place of the charts' time axis: each side's start, or the start of its worst incident.",
)
@click.option(
    "--thresholds",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A TOML file with thresholds of your own, for both sides.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as one JSON object.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the comparison as an HTML page (with --json: as JSON) to this file; '-' is standard output. Default: a summary in the "
    "terminal.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@lang_option
def compare(
    inputs: tuple[str, ...],
    options: InputOptions,
    windows: tuple[str, str] | None,
    instances: tuple[str, str] | None,
    names: tuple[str, str] | None,
    align: Align,
    thresholds: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> int:
    """Compare two captures: before and after a change, two servers, or two windows of one trace.

    A and B are each one INPUT: a log, a folder with all that is left of one time, or a stored trace. Without B, A is compared with
    itself: give --windows or --instances.
    """
    first, second = _two(inputs, windows, instances)
    refuse_input(output, inputs, thresholds)
    to_stdout = output is None or str(output) == "-"
    if output is not None and not to_stdout and output.suffix.lower() not in ((".json",) if as_json else (".html", ".htm")):
        wanted, hint = ("JSON", "name a .json file") if as_json else ("an HTML page", "name a .html file, or add --json for a .json file")
        raise KvpmError(f"{output} would hold {wanted}", hint=hint)
    if output is not None and not to_stdout:
        refuse_existing(output, force=force)
    options = replace(options, thresholds=thresholds)
    with _sides((first, second), options, windows, instances, names) as (a, b, read):
        comparison = compare_library(a, b)
        if as_json:
            made = json.dumps(comparison.to_dict(), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
        elif output is None:
            made = text(comparison, to_file=False)
        else:
            made = render_page(build_page(a, b, comparison, align))
    if output is None or to_stdout:
        click.echo(made, nl=False)
    else:
        write_report(output, made, force=force)
        if not as_json:
            click.echo(comparison.change.sentence)
            click.echo(_("comparison: {path}", path=output))
    return ExitCode.INPUT_CUT if read != ExitCode.OK or comparison.a.cut or comparison.b.cut else ExitCode.OK


def _two(inputs: Sequence[str], windows: tuple[str, str] | None, instances: tuple[str, str] | None) -> tuple[str, str]:
    """The two inputs; one alone is both, if something tells its two sides apart."""
    if len(inputs) > 2:
        raise KvpmError(
            f"compare takes two inputs, A and B, and got {len(inputs)}",
            hint="put the inputs of one side into a folder, or into a stored trace with kvpm ingest",
        )
    if inputs.count("-") == 2:
        raise KvpmError("standard input can be read once", hint="name a file for A or for B")
    if len(inputs) == 1 and windows is None and instances is None:
        raise KvpmError(
            f"{shown(inputs[0])} alone has nothing to be compared with",
            hint=f"kvpm compare {shown(inputs[0])} B, or --windows 07:00..07:10 07:20..07:30, or --instances NAME NAME",
        )
    return inputs[0], inputs[-1]


@contextmanager
def _sides(
    inputs: tuple[str, str],
    options: InputOptions,
    windows: tuple[str, str] | None,
    instances: tuple[str, str] | None,
    names: tuple[str, str] | None,
) -> Iterator[tuple[Side, Side, ExitCode]]:
    """Both sides opened and diagnosed; one input for both is read once."""
    a_window, b_window = windows or (_AS_IT_IS, _AS_IT_IS)
    wanted = [None if name == _AS_IT_IS else name for name in instances or (_AS_IT_IS, _AS_IT_IS)]
    same = inputs[0] == inputs[1]
    with ExitStack() as stack:
        if same and (a_window, b_window) != (_AS_IT_IS, _AS_IT_IS):
            # What is in neither window is not looked at, but it is read: the whole is opened first.
            whole, read = stack.enter_context(opened([inputs[0]], options))
            paths = (str(whole.path), str(whole.path))
        else:
            paths, read = inputs, ExitCode.OK
        trace, code = stack.enter_context(opened([paths[0]], _bounded(options, a_window)))
        told = diagnose(trace)
        a = side(trace, told, letter="A", instance=wanted[0], name=_name(0, inputs, windows, instances, names))
        other, other_code = (
            (trace, code) if same and a_window == b_window else stack.enter_context(opened([paths[1]], _bounded(options, b_window)))
        )
        of_b = told if other is trace else diagnose(other)
        like = a.instance.instance
        b = side(other, of_b, letter="B", instance=wanted[1], like=like, name=_name(1, inputs, windows, instances, names))
        yield a, b, next((c for c in (read, code, other_code) if c != ExitCode.OK), ExitCode.OK)


def _bounded(options: InputOptions, window: str) -> InputOptions:
    """The options with one side's window."""
    if window == _AS_IT_IS:
        return options
    since, dots, until = window.partition("..")
    if not dots or not (since.strip() or until.strip()):
        raise KvpmError(
            f"--windows {window!r} is not FROM..TO", hint="for example 07:00..07:10, 07:20.. or 2026-11-30T07:00..2026-11-30T07:10"
        )
    return replace(options, since=since.strip() or None, until=until.strip() or None)


def _name(
    at: int,
    inputs: tuple[str, str],
    windows: tuple[str, str] | None,
    instances: tuple[str, str] | None,
    names: tuple[str, str] | None,
) -> str:
    """What a side is called: as told, else its input, and where that is the same for both what tells them apart."""
    if names:
        return names[at]
    told = _apart(*inputs)[at]
    if inputs[0] != inputs[1]:
        return told
    return " ".join([told, *(pair[at] for pair in (windows, instances) if pair and pair[at] != _AS_IT_IS)])


def _apart(a: str, b: str) -> tuple[str, str]:
    """The inputs' own names, with as many of the folders they lie in as it takes to tell them apart."""

    def parts(given: str) -> tuple[str, ...]:
        own = default_trace_name([given]).name.removesuffix(".kvtrace").removesuffix(".kvtrace")
        return (*Path(os.path.abspath(shown(given))).parts[1:-1], own)

    first, second = parts(a), parts(b)
    deep = next((n for n in range(1, max(len(first), len(second))) if first[-n:] != second[-n:]), 1)
    return "/".join(first[-deep:]), "/".join(second[-deep:])
