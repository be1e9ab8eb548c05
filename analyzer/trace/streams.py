"""What a source says of the processes that wrote it: engines, addresses, and the moments of their lives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any


@dataclass(slots=True)
class Mark:
    """A moment in the life of a process: role is start, ready, serving or end.

    `not_before` is set where only a span is known: a counter that fell back tells that a process began between
    two scrapes, and `ts` is the later one.
    """

    ts: datetime
    record: int
    role: str
    format: str
    pid: int | None = None
    last_ts: datetime | None = None
    last_record: int = 0
    not_before: datetime | None = None


@dataclass(slots=True)
class Stream:
    """What one source said through one collector stream (usually the only one).

    `origin` is how the collector names it (pod, container, scrape target), empty where it does not. `kind` is log,
    metrics or requests: only logs of the same ranks at the same time exclude each other.
    """

    origin: str
    kind: str = "log"
    engines: set[str] = field(default_factory=set)
    addresses: list[tuple[str, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    spans: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "origin": self.origin,
            "kind": self.kind,
            "engines": sorted(self.engines),
            "addresses": [list(a) for a in self.addresses],
            "marks": [
                [m.ts.isoformat(), m.record, m.role, m.format, m.pid, m.not_before.isoformat() if m.not_before else None]
                for m in self.marks
            ],
            "spans": {k: [a.isoformat(), b.isoformat()] for k, (a, b) in sorted(self.spans.items())},
        }

    @staticmethod
    def from_json(document: dict[str, Any]) -> Stream:
        """The inverse of `to_json`."""
        return Stream(
            origin=document["origin"],
            kind=document.get("kind", "log"),
            engines=set(document["engines"]),
            addresses=[(h, p) for h, p in document["addresses"]],
            marks=[_mark(*m) for m in document["marks"]],
            spans={k: (datetime.fromisoformat(a), datetime.fromisoformat(b)) for k, (a, b) in document["spans"].items()},
        )

    def state(self) -> dict[str, Any]:
        """What `to_json` gives, and what only the reader needs to go on."""
        heard = [[m.last_ts.isoformat() if m.last_ts else None, m.last_record] for m in self.marks]
        return self.to_json() | {"heard": heard}

    @staticmethod
    def from_state(document: dict[str, Any]) -> Stream:
        """The inverse of `state`."""
        stream = Stream.from_json(document)
        for mark, (ts, record) in zip(stream.marks, document["heard"], strict=True):
            mark.last_ts, mark.last_record = datetime.fromisoformat(ts) if ts else None, record
        return stream

    def moved(self, by: timedelta) -> Stream:
        """The same with all times `by` later."""
        if not by:
            return self
        marks = [
            replace(m, ts=m.ts + by, last_ts=m.last_ts and m.last_ts + by, not_before=m.not_before and m.not_before + by)
            for m in self.marks
        ]
        return replace(self, marks=marks, spans={k: (a + by, b + by) for k, (a, b) in self.spans.items()})


def _mark(ts: str, record: int, role: str, form: str, pid: int | None, not_before: str | None = None) -> Mark:
    return Mark(datetime.fromisoformat(ts), record, role, form, pid, not_before=datetime.fromisoformat(not_before) if not_before else None)
