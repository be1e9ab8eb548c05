"""What a source says of the processes that wrote it: engines, addresses, and the moments of their lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(slots=True)
class Mark:
    """A moment in the life of a process: role is start, ready, serving or end."""

    ts: datetime
    record: int
    role: str
    format: str
    pid: int | None = None
    last_ts: datetime | None = None
    last_record: int = 0


@dataclass(slots=True)
class Stream:
    """What one source said through one collector stream (usually the only one)."""

    origin: str
    engines: set[str] = field(default_factory=set)
    addresses: list[tuple[str, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    spans: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "origin": self.origin,
            "engines": sorted(self.engines),
            "addresses": [list(a) for a in self.addresses],
            "marks": [[m.ts.isoformat(), m.record, m.role, m.format, m.pid] for m in self.marks],
            "spans": {k: [a.isoformat(), b.isoformat()] for k, (a, b) in sorted(self.spans.items())},
        }

    @staticmethod
    def from_json(document: dict[str, Any]) -> Stream:
        """The inverse of `to_json`."""
        return Stream(
            origin=document["origin"],
            engines=set(document["engines"]),
            addresses=[(h, p) for h, p in document["addresses"]],
            marks=[Mark(datetime.fromisoformat(t), r, role, f, pid) for t, r, role, f, pid in document["marks"]],
            spans={k: (datetime.fromisoformat(a), datetime.fromisoformat(b)) for k, (a, b) in document["spans"].items()},
        )
