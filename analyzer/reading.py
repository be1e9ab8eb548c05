"""What a command was given to read, and how: options as they were typed, and opening whatever INPUT is."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.errors import ExitCode, KvpmError
from analyzer.ingestion import IngestOptions, IngestResult, default_trace_name
from analyzer.ingestion import ingest as ingest_library
from analyzer.sources.discover import is_trace
from analyzer.sources.timestamps import parse_iso, zone_from_option
from analyzer.trace.identity import parse_instance_rules
from analyzer.trace.manifest import read_manifest
from analyzer.trace.offset_rules import parse_offset_rules

if TYPE_CHECKING:
    from analyzer.trace.reader import Trace


@dataclass(frozen=True, slots=True)
class InputOptions:
    """What the options of reading INPUT said, and --since, --until and --thresholds; `once` when nothing will be added to the trace."""

    tz: str | None
    year: int | None
    instance: tuple[str, ...]
    offset: tuple[str, ...] = ()
    at: str | None = None
    map: tuple[str, ...] = ()
    keep_text: bool = False
    since: str | None = None
    until: str | None = None
    thresholds: Path | None = None
    once: bool = False

    @property
    def zone(self) -> tzinfo | None:
        """The zone of --tz."""
        return zone_from_option(self.tz) if self.tz is not None else None

    def for_ingest(self) -> IngestOptions:
        """The same for the library."""
        return IngestOptions(
            zone=self.zone,
            year=self.year,
            at=None if self.at is None else moment("--at", self.at, self.zone or UTC),
            columns=_columns(self.map),
            keep_text=self.keep_text,
            rules=tuple(parse_instance_rules(self.instance)),
            offsets=parse_offset_rules(self.offset),
            resumable=not self.once,
        )


def _columns(options: Sequence[str]) -> dict[str, str]:
    """`--map arrival=ts,ttft=first_token_latency` as canonical name to column."""
    columns: dict[str, str] = {}
    for part in (p for option in options for p in option.split(",")):
        name, equals, column = part.partition("=")
        if not (equals and name.strip() and column.strip()):
            raise KvpmError(f"--map {part!r} is not NAME=COLUMN", hint="for example --map arrival=ts,ttft=first_token_latency")
        columns[name.strip()] = column.strip()
    return columns


Ingest = Callable[[Sequence[str], Path, InputOptions], IngestResult]


def ingested(inputs: Sequence[str], trace: Path, options: InputOptions) -> IngestResult:
    """Ingest as the options say, without a word."""
    return ingest_library(inputs, trace, options.for_ingest())


@contextmanager
def opened(inputs: Sequence[str], options: InputOptions, ingest: Ingest | None = None) -> Iterator[tuple[Trace, ExitCode]]:
    """The stored trace that INPUT is, or one made of the raw inputs in a scratch folder, with how reading went.

    `ingest` is called in place of `ingested`, by who wants to show how far it is.
    """
    # what only reads has no need of a database
    from analyzer.diagnosis.thresholds import load_thresholds, thresholds
    from analyzer.trace.reader import Trace

    # a bad file of thresholds is told before the inputs are read
    limits = thresholds(load_thresholds(options.thresholds) if options.thresholds else None)
    stored = [i for i in inputs if i != "-" and is_trace(Path(i))]
    if stored and len(inputs) > 1:
        raise KvpmError("a stored trace is read alone", hint=f"add logs to it with: kvpm ingest LOG... -o {stored[0]}")
    if stored:
        path = Path(stored[0])
        since, until = _bounds(path, options)
        with Trace(path, since=since, until=until, variables=limits) as trace:
            _refuse_empty(trace, since, until)
            cut = any(s.row.get("cut") for s in trace.manifest.sources)
            yield trace, ExitCode.INPUT_CUT if cut else ExitCode.OK
        return
    with tempfile.TemporaryDirectory(prefix="kvpm-") as scratch:
        path = Path(scratch) / default_trace_name(inputs).name
        result = (ingest or ingested)(inputs, path, replace(options, once=True))
        since, until = _bounds(path, options)
        with Trace(path, since=since, until=until, variables=limits) as trace:
            _refuse_empty(trace, since, until)
            yield trace, result.exit_code


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
    found = trace.con.execute(
        "SELECT min(ts), max(ts) FROM (SELECT ts FROM scheduler UNION ALL SELECT ts FROM events "
        "UNION ALL SELECT unnest([first_ts, last_ts]) FROM series UNION ALL SELECT unnest([arrival_ts, finish_ts, ts]) FROM requests)"
    ).fetchone()
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
            return day.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0)).astimezone(UTC)
        except ValueError:
            raise KvpmError(f"{name} {text!r} is no time of day", hint="for example 07:08 or 07:08:30") from None
    return moment(name, text, zone)


def moment(name: str, text: str, zone: tzinfo) -> datetime:
    """A time that an option gives, in UTC; without a zone of its own it is in `zone`. Epoch seconds are one too."""
    if re.fullmatch(r"\d{9,10}(?:\.\d+)?", text):
        return datetime.fromtimestamp(float(text), UTC)
    # seconds may be left out, also before a zone
    padded = re.sub(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(?=$|Z$|[+-]\d\d:?\d\d$)", r"\1:00", text)
    padded = padded + "T00:00:00" if re.fullmatch(r"\d{4}-\d\d-\d\d", padded) else padded
    found = parse_iso(padded)
    if found is None:
        raise KvpmError(
            f"{name} {text!r} is no time",
            hint="for example 2026-11-30T07:08, 2026-11-30T07:08:30Z" + (", or 07:08 on the trace's first day" if name != "--at" else ""),
        )
    return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)


def _first_day(trace: Path, zone: tzinfo) -> datetime:
    stamps = [s.row["first_ts"] for s in read_manifest(trace).sources if s.row.get("first_ts")]
    first = min((datetime.fromisoformat(str(s)) for s in stamps), default=datetime.now(UTC))
    return first.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
