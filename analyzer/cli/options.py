"""Options that several commands share, and opening INPUT with a progress bar."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from analyzer import reading
from analyzer.errors import ExitCode, KvpmError
from analyzer.ingestion import IngestResult
from analyzer.ingestion import ingest as ingest_library
from analyzer.input_reading import Progress as ProgressCallback
from analyzer.language import _
from analyzer.memory import keep_heap
from analyzer.reading import InputOptions
from analyzer.sources.discover import STDIN, Input, find_inputs, is_trace
from analyzer.sources.urls import is_url

if TYPE_CHECKING:
    from analyzer.trace.reader import Trace

F = TypeVar("F", bound=Callable[..., Any])


_READING = (
    click.option(
        "--tz",
        metavar="ZONE",
        help="Time zone of stamps without one: Asia/Shanghai, +08:00. Default: what the collector's stamps tell, else UTC.",
    ),
    click.option(
        "--year",
        type=click.IntRange(2015, 2100),
        help="Year of stamps without one (vLLM). Default: the latest that fits the file's date.",
    ),
    click.option(
        "--instance",
        multiple=True,
        metavar="PATTERN=NAME",
        help="Name the server of inputs whose path or pod matches. Repeatable.",
    ),
    click.option(
        "--offset",
        multiple=True,
        metavar="SOURCE=TIME",
        help="Add a time to all stamps of inputs whose path matches: server.log=+7h, client.jsonl=-90s. Repeatable. "
        "Default: what signals shared with another input tell.",
    ),
    click.option("--at", metavar="TIME", help="When metrics that carry no time were scraped. Default: the file's time."),
    click.option(
        "--map",
        multiple=True,
        metavar="NAME=COLUMN",
        help="Read a JSONL or CSV file as request records with these columns: arrival=ts,ttft=first_token_latency. Repeatable.",
    ),
    click.option("--keep-text", is_flag=True, help="Store prompts and outputs of request records; without it only lengths and hashes."),
)
_WINDOW = (
    click.option("--since", metavar="TIME", help="Look only at what came after: 2026-11-30T07:08, or 07:08 (UTC, or in --tz)."),
    click.option("--until", metavar="TIME", help="Look only at what came before."),
    click.option(
        "--thresholds",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="A TOML file with thresholds of your own: full_usage = 0.85. Those it does not name stay as shipped.",
    ),
)
_LOOKING = ("since", "until", "thresholds")
inputs_argument = click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")


def input_options(*, window: bool) -> Callable[[F], F]:
    """How to read INPUT, given to the command as one `options: InputOptions`; with `window`, what to look at in it too."""

    def decorate(function: F) -> F:
        @wraps(function)
        def command(**given: Any) -> Any:
            # options of these names with another meaning are the command's own
            names = [f.name for f in fields(InputOptions) if f.name != "once" and (window or f.name not in _LOOKING)]
            options = InputOptions(**{name: given.pop(name) for name in names})
            return function(options=options, **given)

        wrapped: Any = command
        for option in reversed((*_READING, *(_WINDOW if window else ()))):
            wrapped = option(wrapped)
        return cast(F, wrapped)

    return decorate


# How a page, a PDF and a picture begin; no page is evidence.
_PAGES = (b"<!doctype html", b"%pdf", b"<svg")


def refuse_input(output: Path | None, inputs: Sequence[str], *files: Path | None) -> None:
    """What is read is not written over, whatever --force says: INPUT, what lies in it, and other `files` that options name.

    A page that an earlier run left in a folder of INPUT may be made anew. Raises KvpmError.
    """
    if output is None or str(output) == STDIN or not output.is_file():
        return
    read = [Path(given) for given in inputs if given != STDIN] + [file for file in files if file is not None]
    if any(path.exists() and output.samefile(path) for path in read):
        raise KvpmError(f"{output} is an input", hint="name another file for -o")
    inside = next((path for path in read if path.is_dir() and output.resolve().is_relative_to(path.resolve())), None)
    if inside is not None and is_trace(inside):
        raise KvpmError(f"{output} is a part of {inside}, which is an input", hint="name a file outside of it for -o")
    if not _is_page(output) and any(
        i.path is not None and output.samefile(i.path) for i in find_inputs([i for i in inputs if _holds_more(i)])
    ):
        raise KvpmError(f"{output} is an input, or would be one", hint="name a file for -o that INPUT does not hold")


def _holds_more(given: str) -> bool:
    """Whether one of INPUT stands for several files, a folder or a pattern."""
    return given != STDIN and not is_url(given) and (Path(given).is_dir() or not os.path.lexists(given)) and not is_trace(Path(given))


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip().lower().startswith(_PAGES)


def ingested(
    inputs: Sequence[str],
    trace: Path,
    options: InputOptions,
    live: Sequence[Input] = (),
    *,
    jobs: int | None = None,
    cluster: str | None = None,
) -> IngestResult:
    """Ingest with a progress bar where stderr is a terminal; says what could not be read."""
    keep_heap()
    with _progress() as callback:
        result = ingest_library(inputs, trace, replace(options.for_ingest(), jobs=jobs, cluster=cluster), live=live, progress=callback)
    for problem in result.problems:
        if problem.io or len(inputs) > 1 or len(result.problems) < 6:
            click.echo(f"kvpm: {problem.name} {problem.message}", err=True)
    for source in result.manifest.sources:
        if source.row.get("cut"):
            click.echo(f"kvpm: {source.path} was cut short: stored up to its last whole record", err=True)
    return result


@contextmanager
def opened(inputs: Sequence[str], options: InputOptions) -> Iterator[tuple[Trace, ExitCode]]:
    """`reading.opened`, with a progress bar and a word on what could not be read."""
    with reading.opened(inputs, options, ingested) as found:
        yield found


@contextmanager
def _progress() -> Iterator[ProgressCallback | None]:
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(Path(name).name[-40:], total=total or None)
            bar.update(tasks[name], completed=done)

        yield report


@contextmanager
def replay_progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar of the replays done of how many, where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(_("replays"), total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
