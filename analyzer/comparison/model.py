"""A comparison as data: what `kvpm compare --json` prints, and what the page and the terminal show.

Plain frozen dataclasses; `to_dict` gives the JSON object. Absent values are None, never 0. A and B are the two sides;
differences are B less A, ratios B over A.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from analyzer.diagnosis.model import Answer, Cause, Confidence, Window, plain

SCHEMA_VERSION = 1

Direction = Literal["better", "worse", "neither", "cannot_tell"]
Outcome = Literal["better", "worse", "no_clear_change", "cannot_tell"]
# What a value is: it says how it is written, and how much of a difference is one.
Unit = Literal["s", "share", "requests", "requests/s", "tokens", "tokens/s", "events", "per 1000 requests", "per hour", "incidents"]
Wish = Literal["lower", "higher", "none"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value of one side.

    `low` and `high` hold the true value as far as chance and a histogram's buckets go (None: no such bound); `at_least`
    says that the true value is above `value`. `n` is how many requests or reports it was made from; of a rate, how many
    events, over `of` requests or hours. `source` is who told it.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    at_least: bool = False
    n: int | None = None
    of: float | None = None
    source: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """One measurement of both sides. `wish` says which way is better, `none` for what is load, not outcome.

    `difference` and `ratio` are None where a value is missing or only known to be longer than something.
    """

    id: str
    group: str
    title: str
    unit: Unit
    wish: Wish
    a: Measurement
    b: Measurement
    difference: float | None
    ratio: float | None
    direction: Direction
    note: str = ""


@dataclass(frozen=True, slots=True)
class SideSummary:
    """What one side is, and what the diagnosis says of it. `incidents` counts those that broke something."""

    name: str
    trace: str
    instance: str
    engine: str | None
    versions: str
    runs: int
    run_id: str | None
    window: Window
    seconds: float | None
    cause: Cause
    confidence: Confidence
    sentence: str
    incident: Window
    incidents: int
    cut: bool


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """One checklist question, answered for both."""

    id: str
    number: int
    title: str
    a: Answer
    b: Answer
    sentence_a: str
    sentence_b: str

    @property
    def changed(self) -> bool:
        """True when the answers differ."""
        return self.a != self.b


@dataclass(frozen=True, slots=True)
class FactPair:
    """One setting, capacity or version that differs; None on the side that does not have it. Sources are `path:line`.

    `incidental` ones differ from start to start or name the machine: a seed, a port, the seconds a load took.
    """

    key: str
    a: str | None
    b: str | None
    unit: str
    source_a: str
    source_b: str
    incidental: bool = False


@dataclass(frozen=True, slots=True)
class Configuration:
    """What differs in the runs that are compared, and the settings that changed within one side (`within_a`, `within_b`)."""

    changed: tuple[FactPair, ...]
    only_a: tuple[FactPair, ...]
    only_b: tuple[FactPair, ...]
    same: int
    within_a: tuple[str, ...] = ()
    within_b: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """The verdict on the change. `numbers` is what the numbers did, `outcome` what that says of the change itself.

    `same_cause` is True where both sides have the same verdict; `weakens` are what a reader must hold against it.
    """

    outcome: Outcome
    numbers: Outcome
    sentence: str
    same_cause: bool
    reasons: tuple[str, ...]
    weakens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides, compared."""

    tool_version: str
    change: Change
    a: SideSummary
    b: SideSummary
    deltas: tuple[Delta, ...]
    answers: tuple[AnswerPair, ...]
    configuration: Configuration
    notes: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def delta(self, id: str) -> Delta:
        """The row called `id`; KeyError without one."""
        for each in self.deltas:
            if each.id == id:
                return each
        raise KeyError(id)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: ISO-8601 UTC times, `schema_version` first."""
        raw = asdict(self)
        made = plain({"schema_version": raw.pop("schema_version"), **raw})
        assert isinstance(made, dict)
        return made
