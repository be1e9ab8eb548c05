"""An engine's log to rows: one pass over the records of one source.

Which instance and which process lifetime a row belongs to is not known here (the address may be
printed a restart later); rows carry the collector stream they came through, and the source's `Streams`
say what was learned of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from analyzer.formats.model import LineFormat, Parsed
from analyzer.formats.prefix import Head
from analyzer.formats.pyrepr import read_repr
from analyzer.formats.values import Value
from analyzer.formats.versions import VersionRange
from analyzer.parsers.arguments import argument_facts
from analyzer.parsers.reader import Given, ReadOptions, SourceRead
from analyzer.parsers.requests_text import RequestLines
from analyzer.sources.records import LineCounts, Record, read_records
from analyzer.sources.timestamps import NO_YEAR, Clock, parse_iso, parse_short
from analyzer.trace.spool import Spool
from analyzer.trace.streams import Mark, Stream

Row = dict[str, Any]

# No server has more of anything; usage is rounded, and may overdraw a little.
_MOST = 1e12
_MOST_USAGE = 1.05
# What a model server is asked for; other web servers have access lines too.
_INFERENCE_PATH = re.compile(r'"POST (?:/v1/(?:chat/)?completions|/generate)\b')
# Records looked at before the clock is settled; a start-up alone prints a few hundred.
_DIARY = 3000
# An event line may be completed by the lines right below it.
_CONTINUES_WITHIN_LINES = 6
# Shapes repeat: after this many lines of a format nothing new is learned about the version.
_FEATURE_LINES = 400


class EngineLogReader:
    """The log of an engine, and whatever no other reader claims: lines of no engine are counted, and give no rows."""

    name = "engine_log"

    def claims(self, head: str, name: str) -> bool:
        """Everything."""
        return True

    def read(self, given: Given) -> SourceRead:
        """Read one source into its spool."""
        return _Reader(given.source_id, given.spool, given.options).run(given.blocks)


def _stamp(record: Record) -> datetime | None:
    text = record.match.head.stamp
    if not text:
        return None
    return parse_short(text) if text[2:3] == "-" else parse_iso(text)


class _Reader:
    def __init__(self, source_id: str, spool: Spool, options: ReadOptions) -> None:
        self._id = source_id
        self._spool = spool
        self._clock = Clock(options.zone, options.year, options.newest)
        self._counts = LineCounts()
        self._streams: dict[str, Stream] = {}
        self._versions = VersionRange()
        self._seen: dict[str, int] = {}
        self._requests = RequestLines()
        self._now: dict[str, datetime] = {}
        self._pending: tuple[LineFormat, Row, int] | None = None
        self._engines: set[str] = set()
        self._first: datetime | None = None
        self._last: datetime | None = None
        self._inner = 0
        self._outer = 0
        self._notes: list[str] = []
        self._no_time = 0
        self._dead_preemptions = False
        self._serves = False

    def run(self, blocks: Iterator[str]) -> SourceRead:
        records = read_records(blocks, self._counts)
        head = list(islice(records, _DIARY))
        self._settle_clock(head)
        for record in chain(head, records):
            self._take(record)
        self._flush_pending()
        for row in self._requests.rest():
            self._spool.add("requests", row)
        return self._result()

    def _settle_clock(self, head: list[Record]) -> None:
        pairs: list[tuple[datetime, datetime]] = []
        dated: datetime | None = None
        for record in head:
            inner = _stamp(record)
            if inner is None:
                continue
            if inner.tzinfo is None and record.outer is not None:
                pairs.append((inner, record.outer))
            if dated is None and inner.year != NO_YEAR:
                dated = inner
        if any(_stamp(r) is not None or r.outer_naive is not None for r in head):
            self._clock.decide(pairs[:200], dated)

    def _times(self, record: Record) -> tuple[datetime | None, datetime | None]:
        """(ts, outer_ts): ts from the engine's own stamp, else the collector's, else None."""
        outer = record.outer
        if outer is None and record.outer_naive is not None:
            outer = self._clock.to_utc(record.outer_naive)
        inner = _stamp(record)
        if inner is None:
            self._outer += outer is not None
            return outer, outer
        self._inner += 1
        return (inner.astimezone(UTC) if inner.tzinfo else self._clock.to_utc(inner, record.outer)), outer

    def _take(self, record: Record) -> None:
        parsed = record.match.parsed
        assert parsed is not None
        fmt = parsed.format
        head = record.match.head
        ts, outer = self._times(record)
        if ts is not None:
            self._now[record.origin] = ts
            self._first = ts if self._first is None else min(self._first, ts)
            self._last = ts if self._last is None else max(self._last, ts)
        carried = ts or self._now.get(record.origin)
        if fmt.table == "ignored" and fmt.engine == "any":
            self._serves = self._serves or bool(_INFERENCE_PATH.search(record.match.message))
            return
        stream = self._streams.setdefault(record.origin, Stream(record.origin))
        self._mark(stream, fmt, head, carried, record.line)
        if fmt.engine != "any":
            self._engines.add(fmt.engine)
            stream.engines.add(fmt.engine)
        if not record.cut:
            self._learn(fmt, record.match.message)
        if fmt.table == "ignored":
            return
        if fmt.continues:
            self._continue(fmt, parsed, record.line)
            return
        self._flush_pending()
        row = self._row(record, fmt, head, carried, outer)
        if fmt.table == "scheduler":
            if ts is None:
                self._no_time += 1
                return
            self._scheduler(record, parsed, row, stream, ts)
        elif fmt.table == "events":
            self._event(fmt, parsed, row, head, record.line)
        elif fmt.table == "facts":
            self._facts(fmt, parsed, row, stream)
        elif fmt.table == "requests":
            row |= parsed.values
            row["extra"] = _extra(parsed)
            for done in self._requests.add(parsed, row):
                self._spool.add("requests", done)
        else:
            self._spool.add(fmt.table, row | parsed.values)

    def _row(self, record: Record, fmt: LineFormat, head: Head, ts: datetime | None, outer: datetime | None) -> Row:
        row: Row = {
            "source_id": self._id,
            "record": record.line,
            "engine": fmt.engine,
            "ts": ts,
            "outer_ts": outer,
            "stream": record.origin,
        }
        if fmt.table in ("scheduler", "events", "cache_ops"):
            row |= head.ranks
        elif "dp" in head.ranks:
            row["dp"] = head.ranks["dp"]
        return row

    def _scheduler(self, record: Record, parsed: Parsed, row: Row, stream: Stream, ts: datetime) -> None:
        row |= {column: value for column, value in parsed.values.items() if self._plausible(column, value)}
        if "preemptions_dead_field" in parsed.extra:
            self._dead_preemptions = True
        row["extra"] = _extra(parsed)
        key = f"{row['engine']}/{row.get('dp')}/{row.get('tp')}/{row.get('pp')}"
        first, last = stream.spans.get(key, (ts, ts))
        stream.spans[key] = (min(first, ts), max(last, ts))
        self._spool.add("scheduler", row)

    def _plausible(self, column: str, value: Value) -> bool:
        """False for a count below zero or beyond any server, and a share beyond the whole: damage, not a report."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            most = _MOST_USAGE if column.endswith("_usage") else _MOST
            if not 0 <= value <= most:
                self._counts.damaged += 1
                return False
        return True

    def _event(self, fmt: LineFormat, parsed: Parsed, row: Row, head: Head, line: int) -> None:
        row |= parsed.values
        row.setdefault("pid", head.pid)
        row["reported_by"] = head.tags or head.proc or None
        self._pending = (fmt, row, line)
        if fmt.id != "sglang.oom":
            self._flush_pending()

    def _continue(self, fmt: LineFormat, parsed: Parsed, line: int) -> None:
        if self._pending is None or self._pending[0].id != fmt.continues:
            return
        _, row, began = self._pending
        if line - began <= _CONTINUES_WITHIN_LINES:
            row |= parsed.values

    def _flush_pending(self) -> None:
        if self._pending is None:
            return
        fmt, row, _ = self._pending
        self._pending = None
        row["text"] = fmt.text.format_map(dict.fromkeys(_names(fmt.text), "?") | row)
        self._spool.add("events", row)

    def _facts(self, fmt: LineFormat, parsed: Parsed, row: Row, stream: Stream) -> None:
        units = {f.column: f.unit for f in fmt.fields}
        entries = [(k, v, _type_name(v), units.get(k, "")) for k, v in parsed.values.items()]
        if fmt.arguments:
            arguments, whole = read_repr(parsed.argument_text)
            if not whole:
                self._notes.append(f"the arguments on line {row['record']} are cut: some are missing")
            known = argument_facts(arguments)
            entries += [(f"arg.{name}", value, kind, "") for name, value, kind in known]
            address = _address({name: value for name, value, _ in known}, fmt.engine)
            if address and address not in stream.addresses:
                stream.addresses.append(address)
        for key, value, kind, unit in entries:
            number = float(value) if isinstance(value, (int, float)) else None
            shown = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            self._spool.add(
                "facts",
                row
                | {
                    "key": key,
                    "value": shown,
                    "number": number,
                    "type": kind,
                    "unit": unit,
                    "read_from": fmt.id,
                },
            )
        version = parsed.values.get("engine_version")
        if isinstance(version, str):
            self._versions.state(version)

    def _mark(self, stream: Stream, fmt: LineFormat, head: Head, ts: datetime | None, line: int) -> None:
        if not fmt.role or ts is None:
            return
        marks = stream.marks
        if marks and marks[-1].role == fmt.role and (fmt.role == "serving" or marks[-1].format == fmt.id):
            last = marks[-1]
            if fmt.role == "serving" or (last.pid == head.pid and (ts - last.ts).total_seconds() < 20):
                last.last_ts, last.last_record = ts, line
                return
        marks.append(Mark(ts, line, fmt.role, fmt.id, head.pid, ts, line))

    def _learn(self, fmt: LineFormat, message: str) -> None:
        seen = self._seen.get(fmt.id, 0)
        if fmt.features and seen < _FEATURE_LINES:
            self._seen[fmt.id] = seen + 1
            for feature in fmt.features:
                if feature.when.search(message):
                    self._versions.narrow(feature.since, feature.until)

    def _result(self) -> SourceRead:
        c = self._counts
        if not self._engines and not c.unmatched_surely:
            # `[time] text` alone is many programs' habit
            c.other, c.unmatched, c.unmatched_files = c.other + c.unmatched, 0, {}
        notes = list(self._clock.decisions)
        if c.joined:
            notes.append(f"{c.joined} records were wrapped by a terminal and joined again")
        if c.split:
            notes.append(f"{c.split} records were glued to another on one line and split off")
        if c.damaged:
            notes.append(f"{c.damaged} values were damaged and left out")
        if c.last_line_cut:
            notes.append("the last line is cut off and was left out")
        if self._no_time:
            notes.append(f"{self._no_time} scheduler lines have no time stamp at all and were left out")
        if self._dead_preemptions:
            notes.append("a Preemptions field was printed, which no released version does: not used")
        if self._versions.conflict:
            notes.append("lines of more than one engine version")
        if c.unmatched_files:
            most = sorted(c.unmatched_files.items(), key=lambda kv: (-kv[1], kv[0]))[:8]
            self._notes.append("unmatched lines come from " + ", ".join(f"{n} ({k})" for n, k in most))
        return SourceRead(
            format="engine_log",
            counts=c,
            streams=self._streams,
            versions=self._versions,
            engines=self._engines,
            first_ts=self._first,
            last_ts=self._last,
            clock=("inner" if self._inner else "outer") if self._inner or self._outer else None,
            utc_offset_s=self._clock.offset.total_seconds() if self._inner and self._clock.zone is None else None,
            clock_assumed=bool(self._inner) and self._clock.zone_assumed,
            year_assumed=bool(self._inner) and self._clock.year_assumed,
            notes=notes + self._notes,
            # a model server's access lines alone prove nothing, but they are no foreign log either
            usable=bool(self._engines) or c.unmatched > 0 or (self._serves and c.ignored > c.other),
            nothing="holds no line of a known engine",
        )


def _extra(parsed: Parsed) -> list[tuple[str, str]] | None:
    return list(parsed.extra.items()) or None


def _names(template: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", template)


def _type_name(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return {int: "int", float: "float"}.get(type(value), "str")


_DEFAULT_PORTS = {"sglang": 30000, "vllm": 8000}


def _address(arguments: dict[str, Any], engine: str) -> tuple[str, int] | None:
    """(host, port) the server listens on, as far as its arguments tell; host "" is any interface."""
    host, port = arguments.get("host"), arguments.get("port")
    if host is None and port is None:
        return None
    if port is None or isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        port = _DEFAULT_PORTS.get(engine, 0)
    return str(host or ""), port
