"""The diagnosis as data: what `kvpm diagnose --json` prints and what the report renders.

Plain frozen dataclasses; `to_dict` gives the JSON object. Absent values are None, never 0.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

SCHEMA_VERSION = 2

Answer = Literal["yes", "no", "partly", "cannot_tell"]
Confidence = Literal["high", "medium", "low"]
Cause = Literal[
    "crash",
    "restart",
    "hang",
    "unschedulable",
    "l1_bound",
    "reservation_bound",
    "cap_bound",
    "prefill_bound",
    "l2_bound",
    "transfer_bound",
    "decode_bound",
    "skew",
    "none",
    "insufficient_data",
]


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open time range in UTC; either end may be unknown."""

    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number behind an answer, with its unit, its time range and the lines it was read from.

    `source` is `path:line` (or several, comma-separated) of the rows that gave the value.
    """

    name: str
    value: float | int | str | bool | None
    unit: str = ""
    start: datetime | None = None
    end: datetime | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class MissingSignal:
    """A signal that would have been needed, and how to record it next time."""

    signal: str
    flag: str


@dataclass(frozen=True, slots=True)
class Answered:
    """One checklist question with its answer.

    `id` is stable (`ttft_broke`, `l1_full`, …); `sql` gives the evidence again with `kvpm sql`; `read` says how its
    numbers are read, `why` why they matter, `advice` what to do.
    """

    id: str
    number: int
    title: str
    answer: Answer
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[MissingSignal, ...] = ()
    sql: str = ""
    read: str = ""
    why: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Highest values: over time, of the sum over ranks (usage: of the highest rank).

    None means that no source reported it; `notes` says why where that is known.
    """

    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    retraction_events: int | None = None
    retracted_requests: int | None = None
    preemptions: int | None = None
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change: what to do, the engine's flag, its present value, which number it moves, and what it costs.

    `flag`, `moves` and `cost` may be empty; `current` is None where it is not in the capture. `versions` says which
    versions have the flag, and is empty where this one is known to. `id` is stable.
    """

    id: str
    action: str
    flag: str = ""
    current: str | None = None
    moves: str = ""
    cost: str = ""
    versions: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause that the evidence supports, in the order in which the verdict ranks them.

    `advice` comes the most useful first; `leave_alone` are things that would not help, and why.
    """

    cause: Cause
    confidence: Confidence
    sentence: str
    instance: str | None = None
    window: Window = Window(None, None)
    rests_on: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    leave_alone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IncidentDiagnosis:
    """One incident of an instance: number 1 is the worst, and the one that the instance's checklist is about."""

    number: int
    window: Window
    findings: tuple[Finding, ...]
    checklist: tuple[Answered, ...]


@dataclass(frozen=True, slots=True)
class InstanceDiagnosis:
    """The same for one instance; `incidents` is empty when nothing broke, `warnings` are of what may break next."""

    instance: str
    engine: str | None
    versions: str
    runs: int
    verdict: Finding
    findings: tuple[Finding, ...]
    window: Window
    peaks: Peaks
    checklist: tuple[Answered, ...]
    incidents: tuple[IncidentDiagnosis, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole trace. The top level repeats the worst instance; `thresholds` are those that differ from the shipped."""

    tool_version: str
    trace: str
    verdict: Finding
    findings: tuple[Finding, ...]
    window: Window
    peaks: Peaks
    checklist: tuple[Answered, ...]
    instances: tuple[InstanceDiagnosis, ...]
    facts: tuple[dict[str, Any], ...]
    sources: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    cut: bool = False
    thresholds: dict[str, float] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: ISO-8601 UTC times, `schema_version` first."""
        raw = asdict(self)
        ordered = {"schema_version": raw.pop("schema_version"), **raw}
        made = plain(ordered)
        assert isinstance(made, dict)
        return made


def plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO-8601 UTC, tuples as lists."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".") + "Z"
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value
