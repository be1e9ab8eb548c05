"""Request rows on their way into the spool: completed, placed in time, and told apart by server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analyzer.parsers.arguments import argument_facts
from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.completion import as_array, completed
from analyzer.parsers.request_records.values import Values, address
from analyzer.parsers.resume import alive, plain
from analyzer.sources.pieces import LineCounts
from analyzer.trace.streams import Stream

Row = dict[str, Any]
# So many are stored at once.
TOGETHER = 1000


class Rows:
    """Takes the rows of one source; `result` says what was learned.

    A file of one server has the stream ''. Where its beginning shows several, each has a stream `host:port`;
    one that turns up later gets such a stream of its own.
    """

    def __init__(self, given: Given, name: str, observer: str, servers: set[tuple[str, int]] | None = None) -> None:
        self._given = given
        self._observer = observer
        self._several = len(servers or ()) > 1
        self._origins: dict[tuple[str, int], str] = {}
        self._facts: set[tuple[str, str | None]] = set()
        self.read = SourceRead(format=name)
        self.values = Values(self.read.counts, given.options)
        self.keep_text = given.options.keep_text
        self.added = 0
        self._rows: list[tuple[int, str, str, Row]] = []

    def state(self) -> dict[str, Any]:
        """What was learned, as plain JSON; all that was taken is in the spool by then."""
        self.store()
        read = self.read
        return {
            "several": self._several,
            "origins": [[*where, origin] for where, origin in self._origins.items()],
            "counts": asdict(read.counts),
            "streams": [s.state() for s in read.streams.values()],
            "engines": sorted(read.engines),
            "span": plain({"first": read.first_ts, "last": read.last_ts}),
            "clock": self.values.clock.state(),
            "naive": self.values.naive,
            "added": self.added,
        }

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._several = state["several"]
        self._origins = {(host, port): origin for host, port, origin in state["origins"]}
        span = alive(state["span"])
        self.read = SourceRead(
            format=self.read.format,
            counts=LineCounts(**state["counts"]),
            streams={s["origin"]: Stream.from_state(s) for s in state["streams"]},
            engines=set(state["engines"]),
            first_ts=span["first"],
            last_ts=span["last"],
        )
        self.values = Values(self.read.counts, self._given.options)
        self.values.clock.go_on(state["clock"])
        self.values.naive = state["naive"]
        self.added = state["added"]

    def server(self, url: object) -> str:
        """The stream of the server a record names; '' where it names none."""
        where = _address(url) if isinstance(url, str) else None
        if where is None:
            return ""
        if where not in self._origins:
            origin = f"{where[0]}:{where[1]}" if self._several or self._origins else ""
            self._origins[where] = origin
            self.stream(origin).addresses.append(where)
        return self._origins[where]

    def stream(self, origin: str) -> Stream:
        """The stream of that name."""
        streams = self.read.streams
        if origin not in streams:
            streams[origin] = Stream(origin, kind="requests")
        return streams[origin]

    def add(self, record: int, engine: str, row: Row, origin: str = "") -> None:
        """Take one request: columns of `requests`, `extra` as a dict; what follows from others is filled in."""
        extra = row.get("extra")
        if extra is not None:
            row["extra"] = [(k, v) for k, v in extra.items() if v is not None] or None
        self._count(1)
        self._learn(engine, origin)
        self._rows.append((record, engine, origin, row))
        if len(self._rows) >= TOGETHER:
            self.store()

    def store(self) -> None:
        """Put what was taken into the spool."""
        if not self._rows:
            return
        records, engines, origins, rows = zip(*self._rows, strict=True)
        self._rows = []
        names = dict.fromkeys(name for row in rows for name in row)
        self._store(records, engines, origins, {name: [row.get(name) for row in rows] for name in names})

    def add_columns(self, records: Sequence[int], engine: str, columns: Mapping[str, Any], origins: Sequence[str]) -> None:
        """Take many requests: columns of `requests`, as numpy arrays or lists."""
        self.store()
        self._count(len(records))
        for origin in dict.fromkeys(origins):
            self._learn(engine, origin)
        self._store(records, [engine] * len(records), origins, columns)

    def _store(self, records: Sequence[int], engines: Sequence[str], origins: Sequence[str], columns: Mapping[str, Any]) -> None:
        given = {"record": records, "engine": engines, "stream": origins, **columns}
        arrays = completed({name: as_array(name, values) for name, values in given.items()}, len(records))
        arrays["source_id"] = pa.repeat(self._given.source_id, len(records))
        arrays["observer"] = pa.repeat(self._observer, len(records))
        for name in ("arrival_ts", "finish_ts"):
            if name in arrays:
                self._see(arrays[name])
        self._given.spool.add_batch("requests", pa.RecordBatch.from_pydict(arrays))

    def arguments(self, record: int, engine: str, arguments: Any, origin: str = "") -> None:
        """Server arguments as facts `arg.NAME`; those already stored are not stored again."""
        for name, value, kind in argument_facts(arguments):
            shown = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            if (name, shown) in self._facts:
                continue
            self._facts.add((name, shown))
            self._given.spool.add(
                "facts",
                {
                    "source_id": self._given.source_id,
                    "record": record,
                    "engine": engine,
                    "stream": origin,
                    "key": f"arg.{name}",
                    "value": shown,
                    "number": float(value) if isinstance(value, (int, float)) else None,
                    "type": kind,
                    "unit": "",
                    "read_from": self.read.format,
                },
            )

    def result(self, nothing: str) -> SourceRead:
        """What was read; without any row the source is of no use, and `nothing` says what it holds instead."""
        self.store()
        read, counts = self.read, self.read.counts
        if not self.added:
            read.usable, read.nothing = False, nothing if counts.matched else "no whole record"
        if read.first_ts is not None:
            read.clock = "inner"
        if self.values.naive or self.values.clock.decisions:
            read.notes += self.values.clock.decisions
            if self.values.clock.zone is None:
                read.utc_offset_s = self.values.clock.offset.total_seconds()
        if counts.damaged:
            read.notes.append(f"{counts.damaged} values were damaged and left out")
        if counts.unmatched:
            read.notes.append(f"{counts.unmatched} lines are no whole record and were left out")
        if counts.last_line_cut:
            read.notes.append("the last line is cut off and was left out")
        return read

    def _learn(self, engine: str, origin: str) -> None:
        stream = self.stream(origin)
        if engine != "client":
            self.read.engines.add(engine)
            stream.engines.add(engine)

    def _count(self, rows: int) -> None:
        self.added += rows
        self.read.counts.records += rows

    def _see(self, moments: pa.Array) -> None:
        ends = pc.min_max(moments).as_py()
        if ends["min"] is not None:
            first, last = ends["min"].astimezone(UTC), ends["max"].astimezone(UTC)
            read = self.read
            read.first_ts = first if read.first_ts is None else min(read.first_ts, first)
            read.last_ts = last if read.last_ts is None else max(read.last_ts, last)


@lru_cache(maxsize=1024)
def _address(url: str) -> tuple[str, int] | None:
    return address(url)
