"""An engine's log to rows: one pass over the records of one source, most of which are read in bulk.

Which instance and which process lifetime a row belongs to is not known here (the address may be
printed a restart later); rows carry the collector stream they came through, and the source's `Streams`
say what was learned of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from analyzer.formats.load import registry
from analyzer.formats.model import LineFormat, Parsed
from analyzer.formats.prefix import Head
from analyzer.formats.pyrepr import read_repr
from analyzer.formats.values import Value
from analyzer.formats.versions import VersionRange
from analyzer.parsers.arguments import argument_facts
from analyzer.parsers.bulk.block import BlockRead, everything_left
from analyzer.parsers.bulk.ending import Ending
from analyzer.parsers.bulk.lines import Ints
from analyzer.parsers.bulk.moments import NO_TIME
from analyzer.parsers.bulk.outcome import INFERENCE_PATH
from analyzer.parsers.bulk.stream import read_blocks
from analyzer.parsers.bulk.times import Stamps, utc_of
from analyzer.parsers.plausible import is_plausible
from analyzer.parsers.reader import Given, ReadOptions, SourceRead
from analyzer.parsers.requests_text import RequestLines
from analyzer.parsers.resume import Resume, alive, plain
from analyzer.sources.pieces import Line, LineCounts, Pieces
from analyzer.sources.records import HEAD_LINES, Assembler, Record, wrap_width
from analyzer.sources.timestamps import MICROSECOND, NO_YEAR, Clock, from_naive_us, from_us, parse_stamp, to_naive_us
from analyzer.sources.wrappers import may_be_partial
from analyzer.trace.schema import TS
from analyzer.trace.spool import Spool
from analyzer.trace.streams import Mark, Stream

Row = dict[str, Any]

# Records looked at before the clock is settled; a start-up alone prints a few hundred.
_DIARY = 3000
# An event line may be completed by the lines right below it.
_CONTINUES_WITHIN_LINES = 6
# Of so many records the collector's stamp is compared with the engine's.
_PAIRS = 200
# What the reader knows at a place and can be written down as it is.
_PLAIN = ("inner", "outer", "no_time", "dead_preemptions", "serves", "head_seen")
# One more than any rank.
_NO_RANK = 1 << 16


class EngineLogReader:
    """The log of an engine, and whatever no other reader claims: lines of no engine are counted, and give no rows."""

    name = "engine_log"

    def claims(self, head: str, name: str) -> bool:
        """Everything."""
        return True

    def read(self, given: Given) -> SourceRead:
        """Read one source into its spool."""
        reader = _Reader(given.source_id, given.spool, given.options)
        if given.resume is not None:
            reader.go_on(given.resume)
        if not given.resumable:
            return reader.run(given.chunks)
        return reader.run_up_to_the_end(given.chunks, 0 if given.resume is None else given.resume.offset)


def _stamp(record: Record) -> datetime | None:
    return parse_stamp(record.match.head.stamp)


def _first_of_engines(read: BlockRead) -> dict[str, int]:
    """The first line of each engine that shows itself in what was read in bulk."""
    found: dict[str, int] = {}
    for number, kind in enumerate(read.kinds):
        if kind.attested and kind.engine != "any":
            at = int(read.at[np.argmax(read.kind == number)])
            found[kind.engine] = min(at, found.get(kind.engine, at))
    return found


def _moment(us: int) -> datetime | None:
    return None if us == NO_TIME else from_us(int(us))


def _times(us: Ints) -> pa.Array:
    missing = us == NO_TIME
    return pa.array(us, mask=missing if missing.any() else None).cast(TS)


class _Block:
    """A block with its records in line order: those read in bulk (arrays of `read`) and those read one by one.

    `first_line` is the number of the line before the block; `places` tells for each of `records` how many of those
    read in bulk stand before it; `stamps` are those of all, in line order.
    """

    def __init__(self, first_line: int, read: BlockRead, records: list[Record]) -> None:
        self.first_line = first_line
        self.read = read
        self.records = records
        self.places: Ints = np.searchsorted(read.at, np.array([r.line - first_line - 1 for r in records], np.int64))
        self.stamps = self._stamps()

    def _stamps(self) -> Stamps:
        read = self.read
        ahead = np.array([NO_TIME if k.inner_zone_us is None else k.inner_zone_us for k in read.kinds], np.int64)
        known = np.array([not k.outer_naive for k in read.kinds], np.bool_)
        mine = Stamps(read.inner_us, ahead[read.kind], read.outer_us, known[read.kind] if len(read.kind) else np.zeros(0, np.bool_))
        if not self.records:
            return mine
        inner, zones, outer, outer_known = [], [], [], []
        for record in self.records:
            stamp = _stamp(record)
            inner.append(NO_TIME if stamp is None else to_naive_us(stamp.replace(tzinfo=None)))
            zone = None if stamp is None else stamp.utcoffset()
            zones.append(NO_TIME if zone is None else zone // MICROSECOND)
            outer_known.append(record.outer is not None)
            other = record.outer_naive if record.outer is None else record.outer.replace(tzinfo=None)
            outer.append(NO_TIME if other is None else to_naive_us(other))
        where = self.places
        return Stamps(
            np.insert(mine.inner, where, inner),
            np.insert(mine.inner_ahead, where, zones),
            np.insert(mine.outer, where, outer),
            np.insert(mine.outer_known, where, outer_known),
        )


class _Reader:
    def __init__(self, source_id: str, spool: Spool, options: ReadOptions) -> None:
        self._id = source_id
        self._spool = spool
        self._jobs = options.jobs
        self._clock = Clock(options.zone, options.year, options.newest)
        self._counts = LineCounts()
        self._pieces = Pieces(self._counts)
        self._assembler: Assembler | None = None
        self._wrapped = False
        self._head_seen = False
        self._lines = 0
        self._waiting: list[_Block] | None = []
        self._streams: dict[str, Stream] = {}
        self._versions = VersionRange()
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

    def run(self, chunks: Iterable[bytes]) -> SourceRead:
        """Read the source to its end."""
        self._read(chunks)
        if self._assembler is not None:
            rest = list(self._assembler.run(self._pieces.rest()))
            if rest:
                self._give(_Block(self._lines, everything_left(b""), rest))
        self._settle()
        self._flush_pending()
        for row in self._requests.rest():
            self._spool.add("requests", row)
        return self._result()

    def run_up_to_the_end(self, chunks: Iterable[bytes], offset: int) -> SourceRead:
        """Read the source, whose bytes begin at `offset`, and say where reading may go on once it has grown."""
        ending = Ending(chunks)
        self._read(ending.before())
        resume: Resume | None = None
        for number, part in enumerate(ending.parts):
            behind = b"".join(ending.parts[number:])
            resume = self._resume(offset + ending.size - len(behind))
            if resume is not None:
                self._spool = self._spool.begin_tail()
                self._read((behind,))
                break
            self._read((part,))
        result = self.run(())
        result.resume = resume if result.usable else None
        return result

    def _read(self, chunks: Iterable[bytes]) -> None:
        for data, read in read_blocks(chunks, self._id, jobs=self._jobs):
            self._give(self._block(data, read))

    def _resume(self, offset: int) -> Resume | None:
        """What is known here; None while something is undecided that more of the source may decide otherwise."""
        if self._waiting is not None or self._assembler is None or self._wrapped or not self._head_seen:
            return None
        # the text of a line that waits for its rest belongs into no trace
        requests = None if self._pieces.waiting else self._requests.state()
        if requests is None:
            return None
        pending = self._pending and [self._pending[0].id, plain(self._pending[1]), self._pending[2]]
        state = {
            "clock": self._clock.state(),
            "counts": asdict(self._counts),
            "attested": sorted(self._assembler.attested),
            "streams": [s.state() for s in self._streams.values()],
            "versions": asdict(self._versions),
            "requests": requests,
            "now": [[origin, ts.isoformat()] for origin, ts in self._now.items()],
            "pending": pending,
            "engines": sorted(self._engines),
            "span": plain({"first": self._first, "last": self._last}),
            "notes": list(self._notes),
        } | {name: getattr(self, f"_{name}") for name in _PLAIN}
        return Resume(EngineLogReader.name, offset, self._lines, state)

    def go_on(self, resume: Resume) -> None:
        """Go on from where an earlier reading stopped."""
        state = resume.state
        self._lines = resume.lines
        self._waiting = None
        self._clock.go_on(state["clock"])
        self._counts = LineCounts(**state["counts"])
        self._pieces = Pieces(self._counts)
        self._assembler = Assembler(self._counts, 0)
        self._assembler.attested = set(state["attested"])
        self._streams = {s["origin"]: Stream.from_state(s) for s in state["streams"]}
        self._versions = VersionRange(**state["versions"])
        self._requests.go_on(state["requests"])
        self._now = {origin: datetime.fromisoformat(ts) for origin, ts in state["now"]}
        if state["pending"] is not None:
            form, row, line = state["pending"]
            self._pending = registry().by_id[form], alive(row), line
        self._engines = set(state["engines"])
        span = alive(state["span"])
        self._first, self._last = span["first"], span["last"]
        self._notes = list(state["notes"])
        for name in _PLAIN:
            setattr(self, f"_{name}", state[name])

    def _block(self, data: bytes, read: BlockRead) -> _Block:
        """One block with all its records."""
        if self._assembler is None:
            width = wrap_width(
                [raw.decode("utf-8", "surrogateescape").removesuffix("\r") for raw in data.split(b"\n", HEAD_LINES)[:HEAD_LINES]]
            )
            self._wrapped = width > 0
            self._head_seen = read.lines >= HEAD_LINES
            self._assembler = Assembler(self._counts, width)
        if self._wrapped or self._pieces.waiting or any(may_be_partial(raw) for stretch in read.left for _, raw in stretch):
            # what a line is may depend on any line before it
            read = everything_left(data)
        self._counts.add(read.counts)
        attests = _first_of_engines(read)
        records: list[Record] = []
        unended = None if data.endswith(b"\n") else read.lines - 1
        for stretch in read.left:
            self._assembler.attested |= {engine for engine, at in attests.items() if at < stretch[0][0]}
            records += self._assembler.run(self._pieces.of(self._lines_of(stretch, unended)))
        self._assembler.attested |= attests.keys()
        block = _Block(self._lines, read, records)
        self._lines += read.lines
        return block

    def _lines_of(self, stretch: list[tuple[int, bytes]], unended: int | None) -> Iterator[Line]:
        for number, raw in stretch:
            text = raw.decode("utf-8", "surrogateescape")
            yield self._lines + number + 1, text if number == unended else text.removesuffix("\r"), number != unended

    def _give(self, block: _Block) -> None:
        """Take a block, once the clock is settled by the first records of the source."""
        if self._waiting is None:
            self._take_block(block)
            return
        self._waiting.append(block)
        if sum(len(b.read.at) + len(b.records) for b in self._waiting) >= _DIARY:
            self._settle()

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        if not waiting:
            return
        pairs: list[tuple[datetime, datetime]] = []
        dated: datetime | None = None
        stamped = False
        left = _DIARY
        for block in waiting:
            stamps = block.stamps
            for inner, ahead, outer, known in zip(
                stamps.inner[:left].tolist(), stamps.inner_ahead[:left].tolist(),
                stamps.outer[:left].tolist(), stamps.outer_known[:left].tolist(), strict=True,
            ):  # fmt: skip
                stamped = stamped or inner != NO_TIME or (outer != NO_TIME and not known)
                if inner == NO_TIME:
                    continue
                if ahead == NO_TIME and outer != NO_TIME and known and len(pairs) < _PAIRS:
                    pairs.append((from_naive_us(inner), from_us(outer)))
                if dated is None and from_naive_us(inner).year != NO_YEAR:
                    dated = from_naive_us(inner)
            left -= min(left, len(stamps.inner))
        if stamped:
            self._clock.decide(pairs, dated)
        for block in waiting:
            self._take_block(block)

    def _take_block(self, block: _Block) -> None:
        """All records of a block: rows read in bulk at once, the others one by one, and what follows from their order."""
        read = block.read
        stamps = block.stamps
        ts, outer = utc_of(self._clock, stamps)
        self._inner += int((stamps.inner != NO_TIME).sum())
        self._outer += int(((stamps.inner == NO_TIME) & (ts != NO_TIME)).sum())
        timed = ts[ts != NO_TIME]
        if len(timed):
            first, last = from_us(int(timed.min())), from_us(int(timed.max()))
            self._first = first if self._first is None else min(self._first, first)
            self._last = last if self._last is None else max(self._last, last)
        mine = np.ones(len(ts), np.bool_)
        own = block.places + np.arange(len(block.records))
        mine[own] = False
        bulk_ts = ts[mine]
        for kind in read.kinds:
            self._serves = self._serves or kind.asks_to_infer
            self._dead_preemptions = self._dead_preemptions or kind.dead_preemptions
            features = registry().by_id[kind.format].features
            for feature in kind.features:
                self._versions.narrow(features[feature].since, features[feature].until)
        done = 0
        for record, place, at in zip(block.records, block.places.tolist(), own.tolist(), strict=True):
            self._pass(block, bulk_ts, done, place)
            done = place
            self._take(record, _moment(ts[at]), _moment(outer[at]))
        self._pass(block, bulk_ts, done, len(read.at))
        self._add_rows(block, bulk_ts, outer[mine])

    def _add_rows(self, block: _Block, ts: Ints, outer: Ints) -> None:
        read = block.read
        for table, batch in read.rows.items():
            rows = np.flatnonzero(np.array([k.table == table for k in read.kinds], np.bool_)[read.kind])
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns["record"] = pa.array(read.at[rows] + block.first_line + 1)
            columns["ts"] = _times(ts[rows])
            columns["outer_ts"] = _times(outer[rows])
            if table == "scheduler":
                self._add_spans(block, columns, rows, ts)
            self._spool.add_batch(table, pa.RecordBatch.from_pydict(columns))

    def _add_spans(self, block: _Block, columns: dict[str, pa.Array], rows: Ints, ts: Ints) -> None:
        """First and last report of each rank, by stream."""
        kinds, kind = np.unique(block.read.kind[rows], return_inverse=True)
        codes = kind.astype(np.int64)
        for rank in ("dp", "tp", "pp"):
            of_rank = columns[rank].cast(pa.int64()).fill_null(_NO_RANK - 1).to_numpy() if rank in columns else _NO_RANK - 1
            codes = codes * _NO_RANK + of_rank
        for code in np.unique(codes).tolist():
            times = ts[rows[codes == code]]
            ranks = []
            for _ in range(3):
                code, rank = divmod(code, _NO_RANK)
                ranks.append(None if rank == _NO_RANK - 1 else rank)
            of = block.read.kinds[kinds[code]]
            self._widen(of.origin, f"{of.engine}/{ranks[2]}/{ranks[1]}/{ranks[0]}", from_us(int(times.min())), from_us(int(times.max())))

    def _widen(self, origin: str, key: str, begin: datetime, end: datetime) -> None:
        spans = self._streams.setdefault(origin, Stream(origin)).spans
        first, last = spans.get(key, (begin, end))
        spans[key] = (min(first, begin), max(last, end))

    def _pass(self, block: _Block, ts: Ints, begin: int, end: int) -> None:
        """What follows from the order of the records `begin` to `end` among those read in bulk."""
        if begin == end:
            return
        read = block.read
        of = read.kind[begin:end]
        spans = {}
        for number in np.unique(of).tolist():
            here = np.flatnonzero(of == number)
            spans[number] = (begin + int(here[0]), begin + int(here[-1]))
        for number, (_, last) in sorted(spans.items(), key=lambda entry: entry[1][1]):
            if ts[last] != NO_TIME:
                self._now[read.kinds[number].origin] = from_us(int(ts[last]))
        # in the order in which they were seen first
        for number, (first, last) in sorted(spans.items(), key=lambda entry: entry[1]):
            kind = read.kinds[number]
            if kind.table == "ignored" and kind.engine == "any":
                continue
            stream = self._streams.setdefault(kind.origin, Stream(kind.origin))
            if kind.engine != "any":
                self._engines.add(kind.engine)
                stream.engines.add(kind.engine)
            if kind.role:
                for at in (first, last):
                    self._mark(stream, kind.role, kind.format, kind.pid, from_us(int(ts[at])), block.first_line + int(read.at[at]) + 1)
            if kind.table != "ignored":
                self._flush_pending()

    def _learn(self, fmt: LineFormat, message: str) -> None:
        for feature in fmt.features:
            if feature.when.search(message):
                self._versions.narrow(feature.since, feature.until)

    def _take(self, record: Record, ts: datetime | None, outer: datetime | None) -> None:
        """One record that was read by itself; `ts` is of the engine's own stamp, else the collector's, else None."""
        parsed = record.match.parsed
        assert parsed is not None
        fmt = parsed.format
        head = record.match.head
        if ts is not None:
            self._now[record.origin] = ts
        carried = ts or self._now.get(record.origin)
        if fmt.table == "ignored" and fmt.engine == "any":
            self._serves = self._serves or bool(INFERENCE_PATH.search(record.match.message))
            return
        stream = self._streams.setdefault(record.origin, Stream(record.origin))
        if fmt.role and carried is not None:
            self._mark(stream, fmt.role, fmt.id, head.pid, carried, record.line)
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
            self._scheduler(record, parsed, row, ts)
        elif fmt.table == "events":
            self._event(fmt, parsed, row, head, record.line)
        elif fmt.table == "facts":
            self._facts(fmt, parsed, row, stream)
        elif fmt.table == "requests":
            row |= parsed.values
            row["extra"] = _extra(parsed)
            for done in self._requests.add(parsed, row, head.ranks):
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

    def _scheduler(self, record: Record, parsed: Parsed, row: Row, ts: datetime) -> None:
        row |= {column: value for column, value in parsed.values.items() if self._plausible(column, value)}
        if "preemptions_dead_field" in parsed.extra:
            self._dead_preemptions = True
        row["extra"] = _extra(parsed)
        self._widen(record.origin, f"{row['engine']}/{row.get('dp')}/{row.get('tp')}/{row.get('pp')}", ts, ts)
        self._spool.add("scheduler", row)

    def _plausible(self, column: str, value: Value) -> bool:
        plausible = is_plausible(column, value)
        self._counts.damaged += not plausible
        return plausible

    def _event(self, fmt: LineFormat, parsed: Parsed, row: Row, head: Head, line: int) -> None:
        row |= parsed.values
        row.setdefault("pid", head.pid)
        row["reported_by"] = head.tags or head.proc or None
        self._pending = (fmt, row, line)
        if fmt.id not in registry().continued:
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
        row["text"] = fmt.sentence(row)
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

    def _mark(self, stream: Stream, role: str, form: str, pid: int | None, ts: datetime, line: int) -> None:
        marks = stream.marks
        if marks and marks[-1].role == role and (role == "serving" or marks[-1].format == form):
            last = marks[-1]
            if role == "serving" or (last.pid == pid and (ts - last.ts).total_seconds() < 20):
                if line >= last.last_record:
                    last.last_ts, last.last_record = ts, line
                return
        marks.append(Mark(ts, line, role, form, pid, ts, line))

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
