"""From a batch to what its index shows: counts, captures worst first, incidents over time, and what gave no report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import quote

from analyzer.diagnosis.causes.finding import LEVELS, PRECEDENCE
from analyzer.diagnosis.model import Cause, Window
from analyzer.diagnosis.thresholds import changed, thresholds
from analyzer.fleet.model import Failure, Fleet, Record, Skipped
from analyzer.fleet.periods import MAX_LANES, Period, periods
from analyzer.fleet.state import REPORTS
from analyzer.language import _
from analyzer.report import fmt, words
from analyzer.report.capped import Capped, cap
from analyzer.report.severity import Grade, Severity, grade
from analyzer.report.words import Tone

# The index stays a page that a browser opens at once; each cap is said where it bites.
MAX_ROWS = 2000
MAX_FAILURES = 500
MAX_SKIPPED = 100

GroupKey = Literal["incident", "unknown", "fine"]
# A verdict's tone says where its capture is listed; what nobody can tell is not among what is fine.
_GROUP: dict[Tone, GroupKey] = {"bad": "incident", "warn": "incident", "grey": "unknown", "good": "fine"}
_GRADES = ("severe", "major", "minor", "unknown", "none")


@dataclass(frozen=True, slots=True)
class Row:
    """One capture. `retracted` counts requests, `pool` is (smallest, largest) in tokens."""

    name: str
    href: str
    cause: Cause
    short: str
    tone: Tone
    confidence: str
    confidence_rank: int
    grade: Grade
    grade_rank: int
    headline: str
    window: Window
    covers: Window
    severity: Severity
    waiting: int | None
    running: int | None
    kv_usage: float | None
    retracted: int | None
    pool: tuple[int, int] | None
    engine: str
    instance: str
    instances: int
    cut: bool
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Captures that are listed together, the worst first."""

    key: GroupKey
    rows: Capped[Row]


@dataclass(frozen=True, slots=True)
class CauseCount:
    """How many captures have a cause for their verdict; `share` is of the most frequent one."""

    cause: Cause
    short: str
    tone: Tone
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class IndexData:
    """The whole page. `undrawn` counts captures with an incident whose time is not known."""

    total: int
    counts: dict[GroupKey, int]
    causes: tuple[CauseCount, ...]
    groups: tuple[Group, ...]
    periods: tuple[Period, ...]
    lanes: int
    lanes_total: int
    undrawn: int
    failures: Capped[Failure]
    skipped: Capped[Skipped]
    cut: int
    thresholds: tuple[tuple[str, float, float], ...]


def build_index(fleet: Fleet) -> IndexData:
    """What the index of a batch shows, in the language of the moment."""
    rows = sorted((_row(r) for r in fleet.captures), key=_worst_first)
    records = {r.name: r for r in fleet.captures}
    hit = [records[row.name] for row in rows if _GROUP[row.tone] == "incident"]
    drawn = [r for r in hit if r.summary.incidents]
    counts = Counter(_GROUP[row.tone] for row in rows)
    own = changed(thresholds(fleet.thresholds))
    return IndexData(
        total=len(rows) + len(fleet.failures),
        counts={key: counts[key] for key in ("incident", "unknown", "fine")},
        causes=_cause_counts(rows),
        groups=tuple(_group(key, rows) for key in ("incident", "unknown", "fine")),
        periods=periods([(r, href(r)) for r in drawn[:MAX_LANES]]),
        lanes=len(drawn[:MAX_LANES]),
        lanes_total=len(drawn),
        undrawn=len(hit) - len(drawn),
        failures=cap(fleet.failures, MAX_FAILURES),
        skipped=cap(fleet.skipped, MAX_SKIPPED),
        cut=sum(row.cut for row in rows),
        thresholds=tuple((name, now, shipped) for name, (now, shipped) in sorted(own.items())),
    )


def href(record: Record) -> str:
    """The address of a report as the index has it."""
    return f"{REPORTS}/{quote(record.report)}"


def _row(record: Record) -> Row:
    s = record.summary
    _title, short, _meaning, tone = words.cause_words(s.cause)
    graded = grade(s.cause, tone, s.severity)
    return Row(
        name=record.name,
        href=href(record),
        cause=s.cause,
        short=short,
        tone=tone,
        confidence=words.confidence_word(s.confidence),
        confidence_rank=LEVELS.index(s.confidence),
        grade=graded,
        grade_rank=len(_GRADES) - _GRADES.index(graded.level),
        headline=fmt.headline(s.sentence)[0],
        window=s.window,
        covers=s.covers,
        severity=s.severity,
        waiting=s.waiting,
        running=s.running,
        kv_usage=s.kv_usage,
        retracted=s.retracted,
        pool=s.pool_tokens,
        engine=s.engine,
        instance=s.instance,
        instances=s.instances,
        cut=s.cut,
        missing=s.missing,
    )


def _worst_first(row: Row) -> tuple[int, int, int, float, float, str]:
    tones = {"bad": 0, "warn": 1, "grey": 2, "good": 3}
    s = row.severity
    slow = s.ttft_p99_peak_s if s.ttft_p99_peak_s is not None else s.wait_est_peak_s
    return (tones[row.tone], -row.grade_rank, -row.confidence_rank, -(slow or 0.0), -(s.duration_s or 0.0), row.name)


def _group(key: GroupKey, rows: Sequence[Row]) -> Group:
    return Group(key, cap((row for row in rows if _GROUP[row.tone] == key), MAX_ROWS))


def _cause_counts(rows: Sequence[Row]) -> tuple[CauseCount, ...]:
    """Causes by how often they are a verdict; what is fine and what cannot be told come last."""
    found = Counter(row.cause for row in rows)
    most = max(found.values(), default=1)
    by = {row.cause: row for row in rows}
    last: list[Tone] = ["grey", "good"]
    order = sorted(found, key=lambda c: (by[c].tone in last, -found[c], _place(c)))
    return tuple(CauseCount(c, by[c].short, by[c].tone, found[c], found[c] / most) for c in order)


def _place(cause: Cause) -> int:
    return PRECEDENCE.index(cause) if cause in PRECEDENCE else len(PRECEDENCE)


def pool_text(pool: tuple[int, int] | None) -> str:
    """The KV pool in tokens; a range where ranks or runs differ."""
    if pool is None:
        return fmt.not_reported()
    low, high = (fmt.number(size) for size in pool)
    return low if low == high else _("{low} to {high}", low=low, high=high)


def sort_time(moment: datetime | None) -> str:
    """A time as a table sorts it."""
    return "" if moment is None else str(round(moment.timestamp()))
