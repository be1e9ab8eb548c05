"""Of which servers and process lifetimes the rows of a source are: what they are stored with, and whether that still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from analyzer.trace.identity import Identity
from analyzer.trace.manifest import StoredSource


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a process lifetime that the source is the first to show: it becomes an event."""

    record: int
    engine: str
    stream: str
    ts: datetime
    fell_back: bool

    def row(self, source_id: str, shift: timedelta) -> dict[str, Any]:
        """The event, `shift` earlier than it was."""
        return {
            "source_id": source_id, "record": self.record, "engine": self.engine or None, "stream": self.stream,
            "ts": self.ts - shift, "kind": "start",
            "text": "counters fell back: a process started between two scrapes" if self.fell_back else "a process started",
        }  # fmt: skip


@dataclass(slots=True)
class Placement:
    """The instance of each stream, the lifetimes of each instance (id and start), and the starts.

    Of what is stored also the last time of any row, and the number of lines before its tail (None without one).
    """

    instances: dict[str, str] = field(default_factory=dict)
    runs: dict[str, list[tuple[str, datetime | None]]] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    last: datetime | None = None
    lines: int | None = None

    @property
    def whole_starts(self) -> list[Start]:
        """The starts that do not belong to the tail."""
        return [s for s in self.starts if self.lines is None or s.record <= self.lines]

    @staticmethod
    def of(source: StoredSource, identity: Identity) -> Placement:
        """Where the rows of a source belong by what is known of all sources now."""
        instances = {d["origin"]: identity.instance[source.source_id, d["origin"]] for d in source.streams}
        runs = {name: [(r.run_id, r.start) for r in identity.runs[name]] for name in dict.fromkeys(instances.values())}
        lines = None if source.resume is None else source.resume.lines
        return Placement(instances, runs, list(_starts_of(source, identity)), lines=lines)

    def holds_in(self, now: Placement, source: StoredSource, *, grows: bool) -> bool:
        """True when rows that were stored with this are as they would be stored now; of a source that grew, but for those of its tail."""
        if any(now.instances.get(origin) != name for origin, name in self.instances.items()):
            return False
        for name, runs in self.runs.items():
            later = now.runs.get(name, [])
            if later[: len(runs)] != runs or not all(self._is_behind(start, source) for _, start in later[len(runs) :]):
                return False
        if not grows:
            return self.starts == now.starts
        return all(s in now.starts for s in self.whole_starts)

    def _is_behind(self, start: datetime | None, source: StoredSource) -> bool:
        """True when a lifetime that began then has none of the rows that are stored."""
        # a series is split where a lifetime begins
        if any(d["kind"] == "metrics" for d in source.streams) or start is None or self.last is None:
            return False
        return start > self.last

    def to_json(self, last: datetime | None) -> dict[str, Any]:
        """For the manifest, with the last time of any row."""
        return {
            "instances": self.instances,
            "runs": {name: [[run, _text(start)] for run, start in runs] for name, runs in self.runs.items()},
            "starts": [[s.record, s.engine, s.stream, s.ts.isoformat(), s.fell_back] for s in self.starts],
            "last": _text(last),
            "lines": self.lines,
        }

    @staticmethod
    def from_json(document: dict[str, Any]) -> Placement | None:
        """The inverse of `to_json`; None for a source of a trace that did not say."""
        if not document:
            return None
        return Placement(
            document["instances"],
            {name: [(run, _moment(start)) for run, start in runs] for name, runs in document["runs"].items()},
            [Start(record, engine, stream, datetime.fromisoformat(ts), fell) for record, engine, stream, ts, fell in document["starts"]],
            _moment(document["last"]),
            document["lines"],
        )


def _starts_of(source: StoredSource, identity: Identity) -> Iterator[Start]:
    for name, runs in identity.runs.items():
        # of a process that is nobody's server only its start time may be known
        for run in runs if name in identity.serving else ():
            if run.source_id == source.source_id and run.start is not None:
                stream = next((d["origin"] for d in source.streams if identity.instance[source.source_id, d["origin"]] == name), "")
                yield Start(run.record, run.engine, stream, run.start, bool(run.not_before))


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
