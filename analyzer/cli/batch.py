"""`kvpm batch`"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from analyzer.cli.fail_on import FailOn, fail_on_options
from analyzer.cli.lang import lang_option
from analyzer.cli.options import input_options, inputs_argument
from analyzer.errors import ExitCode
from analyzer.fleet.batch import BatchResult, Options, Step, run_batch
from analyzer.fleet.model import Failure, Fleet, Reading, Record, Skipped
from analyzer.language import _, ngettext
from analyzer.reading import InputOptions
from analyzer.report import fmt, words

_MAX_NAMED = 20


@click.command()
@inputs_argument
@input_options(window=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="The folder of the reports.")
@click.option("--jobs", type=click.IntRange(1, 512), metavar="N", help="Captures read at a time. Default: one a core.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Read them on a Dask cluster, tcp://HOST:8786. Inputs are URLs, or in a folder that all workers share.",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Give a capture up after this time.")
@click.option("--traces", is_flag=True, help="Keep the stored trace of each capture too, for kvpm sql and kvpm compare.")
@click.option("--dataset", is_flag=True, help="Keep what was read of all captures as one set of tables too, for kvpm sql.")
@click.option(
    "--replay/--no-replay",
    default=False,
    help="Replay the requests of each worst instance where something broke and it takes seconds, up to half a minute more a capture. "
    "Off by default.",
)
@click.option("--force", is_flag=True, help="Make all reports anew, also of captures that did not change.")
@fail_on_options
@lang_option
def batch(
    inputs: tuple[str, ...],
    options: InputOptions,
    output: Path,
    jobs: int | None,
    cluster: str | None,
    timeout: float | None,
    traces: bool,
    dataset: bool,
    replay: bool,
    force: bool,
    fail_on: FailOn,
) -> int:
    """Write a report of each of many captures, and an index of them.

    INPUT is a folder whose sub-folders are captures, a stored trace, a glob in quotes, a URL of a file, folder or glob (s3://, gs://,
    https://), or a list of captures (NAME.toml).
    The next run into the same folder reads only what changed.
    """
    reading = Reading(**{f.name: getattr(options, f.name) for f in fields(Reading)})
    if cluster is not None and jobs is not None:
        raise click.UsageError("--jobs is of processes here: a cluster reads one capture on each thread of its workers.")
    asked = Options(
        reading, options.thresholds, jobs, timeout, keep_traces=traces, dataset=dataset, replay=replay, force=force, cluster=cluster
    )
    with _progress() as told:
        result = run_batch(inputs, output, asked, told=told)
    _announce(result)
    return _exit_code(result, fail_on)


@contextmanager
def _progress() -> Iterator[Callable[[Step], None]]:
    """A bar where stderr is a terminal, else a line for each capture."""
    if not sys.stderr.isatty():
        yield _line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(step: Step) -> None:
            name = "" if step.last is None else step.last.what if isinstance(step.last, Skipped) else step.last.name
            bar.update(task, total=step.total, completed=step.done, description=name[-40:])

        yield show


def _line(step: Step) -> None:
    match step.last:
        case Record(name=name, summary=s):
            told = _("{cause} ({confidence})", cause=s.cause, confidence=words.confidence_word(s.confidence))
        case Failure(name=name):
            # the reason stands at the end, where what to do about it does
            told = _("no report")
        case Skipped(what=name, why=why):
            told = why
        case None:
            return
    click.echo(f"[{step.done}/{step.total}] {name}: {told}", err=True)


def _announce(result: BatchResult) -> None:
    fleet = result.fleet
    for folder in result.of_files:
        told = _("each file of {folder} was taken for a capture of its own; kvpm report {folder} reads them as one", folder=folder)
        click.echo(f"kvpm: {told}", err=True)
    for failure in fleet.failures[:_MAX_NAMED]:
        click.echo(f"kvpm: {failure.name}: {failure.reason}", err=True)
        if failure.hint:
            click.echo(f"      {failure.hint}", err=True)
    if len(fleet.failures) > _MAX_NAMED:
        click.echo("kvpm: " + _("and {n} more without a report", n=fmt.number(len(fleet.failures) - _MAX_NAMED)), err=True)
    n = len(fleet.captures)
    counts = ngettext("{n} report: {made} made, {kept} as before", "{n} reports: {made} made, {kept} as before", n,
                      n=fmt.number(n), made=fmt.number(result.made), kept=fmt.number(result.kept))  # fmt: skip
    click.echo(counts)
    click.echo(_verdicts(fleet))
    if result.removed:
        gone = result.removed
        click.echo(ngettext("{n} report of a capture that is gone was removed", "{n} reports of captures that are gone were removed", gone,
                            n=fmt.number(gone)))  # fmt: skip
    if fleet.skipped:
        left = len(fleet.skipped)
        click.echo(ngettext("{n} entry is no capture; the index says why", "{n} entries are no captures; the index says why", left,
                            n=fmt.number(left)))  # fmt: skip
    click.echo(_("index: {path}", path=result.index))


def _verdicts(fleet: Fleet) -> str:
    """`verdicts: l1_bound 3, crash 1`, the most frequent first."""
    found = Counter(r.summary.cause for r in fleet.captures)
    counted = [f"{cause} {fmt.number(n)}" for cause, n in sorted(found.items(), key=lambda item: (-item[1], item[0]))]
    return _("verdicts: {verdicts}", verdicts=fmt.listed(counted) if counted else _("none"))


def _exit_code(result: BatchResult, fail_on: FailOn) -> ExitCode:
    """A capture that gave no report, or not of all its input, outweighs a cause that was found."""
    fleet = result.fleet
    if not fleet.captures:
        return ExitCode.NOTHING_USABLE
    if fleet.failures or any(r.summary.cut for r in fleet.captures):
        return ExitCode.INPUT_CUT
    found = any(fail_on.counts(*f) for r in fleet.captures for f in r.summary.findings[: None if fail_on.any_finding else 1])
    return ExitCode.CAUSE_FOUND if found else ExitCode.OK
