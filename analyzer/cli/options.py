"""Options that several commands share, and opening whatever INPUT is."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from analyzer.diagnosis.model import Diagnosis
from analyzer.diagnosis.thresholds import thresholds
from analyzer.errors import ExitCode, KvpmError
from analyzer.ingestion import IngestOptions, IngestResult, default_trace_name
from analyzer.ingestion import Progress as ProgressCallback
from analyzer.ingestion import ingest as ingest_library
from analyzer.sources.discover import is_trace
from analyzer.sources.timestamps import parse_iso, zone_from_option
from analyzer.trace.identity import parse_instance_rules
from analyzer.trace.manifest import read_manifest
from analyzer.trace.reader import Trace

# Of the causes of the design, those that this release gives; `none` is no reason to fail.
FAIL_ON = (
    "crash", "restart", "hang", "l1_bound", "reservation_bound", "cap_bound", "prefill_bound", "transfer_bound", "decode_bound",
    "insufficient_data",
)  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class InputOptions:
    """What --tz, --year, --instance, --since and --until said."""

    tz: str | None
    year: int | None
    instance: tuple[str, ...]
    since: str | None = None
    until: str | None = None

    @property
    def zone(self) -> tzinfo | None:
        """The zone of --tz."""
        return zone_from_option(self.tz) if self.tz is not None else None

    def for_ingest(self) -> IngestOptions:
        """The same for the library."""
        return IngestOptions(self.zone, self.year, tuple(parse_instance_rules(self.instance)))


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
)
_WINDOW = (
    click.option("--since", metavar="TIME", help="Look only at what came after: 2026-11-30T07:08, or 07:08 (UTC, or in --tz)."),
    click.option("--until", metavar="TIME", help="Look only at what came before."),
)
inputs_argument = click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")


def input_options(*, window: bool) -> Callable[[F], F]:
    """How to read INPUT, given to the command as one `options: InputOptions`; with `window`, --since and --until too."""

    def decorate(function: F) -> F:
        @wraps(function)
        def command(*, tz: str | None, year: int | None, instance: tuple[str, ...], **rest: Any) -> Any:
            since, until = rest.pop("since", None), rest.pop("until", None)
            return function(options=InputOptions(tz, year, instance, since, until), **rest)

        wrapped: Any = command
        for option in reversed((*_READING, *(_WINDOW if window else ()))):
            wrapped = option(wrapped)
        return cast(F, wrapped)

    return decorate


def fail_on_option(function: F) -> F:
    """--fail-on CAUSE."""
    return click.option(
        "--fail-on", multiple=True, type=click.Choice(FAIL_ON), metavar="CAUSE",
        help=f"Exit with 1 when this cause is among the findings; repeatable. One of {', '.join(FAIL_ON)}.",
    )(function)  # fmt: skip


def exit_code(diagnosis: Diagnosis, read: ExitCode, fail_on: Sequence[str]) -> int:
    """The exit code after a diagnosis: an input that was cut outweighs a cause that was found."""
    if read != ExitCode.OK or diagnosis.cut:
        return ExitCode.INPUT_CUT
    if any(f.cause in fail_on for f in diagnosis.findings):
        return ExitCode.CAUSE_FOUND
    return ExitCode.OK


def refuse_input(output: Path | None, inputs: Sequence[str]) -> None:
    """The evidence is not written over, whatever --force says."""
    if output is None or str(output) == "-" or not output.exists():
        return
    for given in inputs:
        if given != "-" and Path(given).exists() and output.samefile(given):
            raise KvpmError(f"{output} is an input", hint="name another file for -o")


@contextmanager
def opened(inputs: Sequence[str], options: InputOptions) -> Iterator[tuple[Trace, ExitCode]]:
    """The stored trace that INPUT is, or one made of the raw inputs in a scratch folder."""
    stored = [i for i in inputs if i != "-" and is_trace(Path(i))]
    if stored and len(inputs) > 1:
        raise KvpmError("a stored trace is read alone", hint=f"add logs to it with: kvpm ingest LOG... -o {stored[0]}")
    if stored:
        path = Path(stored[0])
        since, until = _bounds(path, options)
        with Trace(path, since=since, until=until, variables=thresholds()) as trace:
            _refuse_empty(trace, since, until)
            cut = any(s.row.get("cut") for s in trace.manifest.sources)
            yield trace, ExitCode.INPUT_CUT if cut else ExitCode.OK
        return
    with tempfile.TemporaryDirectory(prefix="kvpm-") as scratch:
        path = Path(scratch) / default_trace_name(inputs).name
        result = ingested(inputs, path, options)
        since, until = _bounds(path, options)
        with Trace(path, since=since, until=until, variables=thresholds()) as trace:
            _refuse_empty(trace, since, until)
            yield trace, result.exit_code


def ingested(inputs: Sequence[str], trace: Path, options: InputOptions) -> IngestResult:
    """Ingest with a progress bar where stderr is a terminal; says what could not be read."""
    with _progress() as callback:
        result = ingest_library(inputs, trace, options.for_ingest(), progress=callback)
    for problem in result.problems:
        if problem.io or len(inputs) > 1 or len(result.problems) < 6:
            click.echo(f"kvpm: {problem.name} {problem.message}", err=True)
    for source in result.manifest.sources:
        if source.row.get("cut"):
            click.echo(f"kvpm: {source.path} was cut short: stored up to its last whole record", err=True)
    return result


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


def _bounds(trace: Path, options: InputOptions) -> tuple[datetime | None, datetime | None]:
    since = _moment("--since", options.since, trace, options)
    until = _moment("--until", options.until, trace, options)
    if since and until and since >= until:
        raise KvpmError("--since is not before --until", hint="times are UTC unless --tz says otherwise")
    return since, until


def _refuse_empty(trace: Trace, since: datetime | None, until: datetime | None) -> None:
    """A window beside the capture would look like a capture of nothing."""
    if since is None and until is None:
        return
    found = trace.con.execute("SELECT min(ts), max(ts) FROM (SELECT ts FROM scheduler UNION ALL SELECT ts FROM events)").fetchone()
    first, last = found or (None, None)
    if first is not None and ((since and since > last) or (until and until < first)):
        raise KvpmError(
            "nothing lies between --since and --until",
            hint=f"the input covers {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC",
        )


def _moment(name: str, text: str | None, trace: Path, options: InputOptions) -> datetime | None:
    if text is None:
        return None
    zone = options.zone or UTC
    clock = re.fullmatch(r"(\d{1,2}):(\d\d)(?::(\d\d))?", text)
    if clock:
        day = _first_day(trace, zone)
        try:
            moment = day.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0))
        except ValueError:
            raise KvpmError(f"{name} {text!r} is no time of day", hint="for example 07:08 or 07:08:30") from None
        return moment.astimezone(UTC)
    padded = text + ":00" if re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", text) else text
    padded = padded + "T00:00:00" if re.fullmatch(r"\d{4}-\d\d-\d\d", padded) else padded
    moment_or_none = parse_iso(padded)
    if moment_or_none is None:
        raise KvpmError(
            f"{name} {text!r} is no time",
            hint="for example 2026-11-30T07:08, or 07:08 on the trace's first day",
        )
    moment = moment_or_none if moment_or_none.tzinfo else moment_or_none.replace(tzinfo=zone)
    return moment.astimezone(UTC)


def _first_day(trace: Path, zone: tzinfo) -> datetime:
    stamps = [s.row["first_ts"] for s in read_manifest(trace).sources if s.row.get("first_ts")]
    first = min((datetime.fromisoformat(str(s)) for s in stamps), default=datetime.now(UTC))
    return first.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
