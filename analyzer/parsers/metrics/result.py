"""What the readers of metric dumps have in common: the answer they give, and how times become numbers."""

from __future__ import annotations

from collections.abc import Iterable

from analyzer.parsers.reader import SourceRead
from analyzer.parsers.series import SeriesWriter
from analyzer.sources.pieces import LineCounts
from analyzer.sources.timestamps import from_us

NO_ZONE = "stamps have no zone and nothing tells it: read as UTC (set --tz)"
CUT = "the last line is cut"
_MIXED = "mixes scrapes of several servers and no label tells them apart: save each server to a file of its own"


def source_read(
    name: str,
    writer: SeriesWriter,
    counts: LineCounts,
    *,
    clock: str | None = "samples",
    clock_assumed: bool = False,
    notes: Iterable[str] = (),
    described: bool = False,
    needs_engine: bool = False,
) -> SourceRead:
    """Close the writer and put together what was read; `counts` needs its fates, `lines` and `records` are set here.

    `described`: there were HELP or TYPE lines. `needs_engine`: what only tells of a process is of no use, since
    every exporter has that; where metrics were asked for by name it is.
    """
    read = writer.finish()
    counts.records = writer.stored
    counts.lines = counts.matched + counts.ignored + counts.unmatched + counts.other
    usable = bool(read.engines) if needs_engine else writer.stored > 0
    usable = usable and writer.stored > 0 and bool(read.streams)
    return SourceRead(
        format=name,
        counts=counts,
        streams=read.streams if usable else {},
        versions=read.versions,
        engines=read.engines,
        first_ts=None if writer.first is None else from_us(writer.first),
        last_ts=None if writer.last is None else from_us(writer.last),
        clock=clock if writer.stored else None,
        clock_assumed=clock_assumed and writer.stored > 0,
        notes=[*notes, *read.notes],
        usable=usable,
        nothing="" if usable else _MIXED if read.mixed else _nothing(writer, described),
    )


def _nothing(writer: SeriesWriter, described: bool) -> str:
    prefixes = sorted({_prefix(name) for name in writer.foreign})
    if writer.stored and not prefixes:
        return "holds samples of a process that is no model server"
    if prefixes:
        more = f" and {len(prefixes) - 3} more" if len(prefixes) > 3 else ""
        return f"holds samples of other programs only ({', '.join(prefixes[:3])}{more})"
    return "describes metrics and holds no sample" if described else "holds no sample"


def _prefix(name: str) -> str:
    head, colon, _ = name.partition(":")
    if colon:
        return head[:40] + ":"
    head, line, _ = name.partition("_")
    return head[:40] + line
