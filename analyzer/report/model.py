"""What the page shows, as plain frozen dataclasses, and the caps that keep the page small.

Shares are 0..1, durations in seconds, times aware UTC; None where something is not known. Text is
already cleaned (`fmt.clean`), not yet escaped: the templates do that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from analyzer.diagnosis.model import MissingSignal, Peaks, Window
from analyzer.report.capped import Capped
from analyzer.report.charts import Timeline
from analyzer.report.explore.whole import Explore
from analyzer.report.parts import Parts
from analyzer.report.replay.model import ReplayView
from analyzer.report.severity import Grade, Severity
from analyzer.report.words import Tone

# The report stays small whatever the trace holds; each of these is said on the page where it bites.
MAX_CHARTED_INSTANCES = 12
MAX_INSTANCE_ROWS = 200
# Points of a static curve of every instance but the worst.
MAX_POINTS_OF_OTHERS = 160
MAX_EVENT_ROWS = 40
MAX_TABLE_ROWS = 48
MAX_EVIDENCE = 20
MAX_REASONS = 12
MAX_ADVICE = 4
MAX_FINDINGS = 12
MAX_INCIDENTS = 12
MAX_FACTS_PER_INSTANCE = 120
MAX_SOURCES = 100
MAX_SOURCE_NOTES = 8
MAX_MISSING = 40
MAX_NOTES = 50


@dataclass(frozen=True, slots=True)
class Link:
    """Text, and the anchor on the page it leads to (empty when there is none)."""

    text: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class AdviceView:
    """One thing to change; `current` is empty where the present value is not known, as are the parts there is nothing to say of."""

    action: str
    flag: str
    current: str
    moves: str
    cost: str
    versions: str


@dataclass(frozen=True, slots=True)
class FindingView:
    """One finding in words. `sentence` begins with `headline`, and `details` is the rest of it."""

    cause: str
    title: str
    short: str
    meaning: str
    tone: Tone
    confidence: str
    sentence: str
    headline: str
    details: str
    instance: str
    window: Window
    rests_on: tuple[Link, ...]
    reasons: Capped[str]
    advice: Capped[AdviceView]
    leave_alone: Capped[str]


@dataclass(frozen=True, slots=True)
class PeakView:
    """One peak; `value` is None when no source reported it, and `note` says why where that is known."""

    key: str
    label: str
    value: float | int | None
    unit: str
    note: str


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """One of the numbers that matter; `value` is empty where it is not known, `detail` says what it rests on."""

    key: str
    label: str
    value: str
    detail: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the page begins with, and each instance's section too."""

    finding: FindingView
    window: Window
    severity: Severity
    grade: Grade
    numbers: tuple[KeyNumber, ...]
    peaks: tuple[PeakView, ...]
    missing: tuple[MissingSignal, ...]


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One row of the timeline as a table: highest values in the interval; counts are sums.

    With `ttft_open` a P99 in the interval was longer than `ttft_p99_s`, or than anything measured where that is None.
    """

    at: datetime | None
    waiting: float | None
    running: float | None
    kv_usage: float | None
    retracted: float | None
    preempted: float | None
    prompt_tps: float | None
    gen_tps: float | None
    ttft_p99_s: float | None
    ttft_open: bool
    wait_est_s: float | None


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event in the list."""

    at: datetime | None
    run: str
    kind: str
    requests: int | None
    tokens: int | None
    ratio: str
    reports: str
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """One number behind an answer."""

    name: str
    value: str
    window: Window
    source: str


@dataclass(frozen=True, slots=True)
class QuestionView:
    """One checklist question. `expanded` shows its evidence at once; `unreported` names the evidence that nothing told."""

    anchor: str
    number: int
    title: str
    chip: str
    tone: Tone
    sentence: str
    expanded: bool
    basis: bool
    evidence: Capped[EvidenceView]
    unreported: tuple[str, ...]
    missing: tuple[MissingSignal, ...]
    chart: Timeline | None
    parts: Parts | None
    moment: Window
    read: str
    why: str
    advice: str
    sql: str
    sql_at: str


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """One of several incidents of an instance; number 1 is the worst."""

    number: int
    window: Window
    finding: FindingView


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One instance with its charts and its checklist."""

    anchor: str
    name: str
    engine: str
    runs: int
    verdict: Verdict
    story: Timeline | None
    closeup: Timeline | None
    timeline: Timeline | None
    table: tuple[TimelineRow, ...]
    table_step_s: float | None
    events: Capped[EventRow]
    questions: tuple[QuestionView, ...]
    incidents: Capped[IncidentRow]
    findings: Capped[FindingView]


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """One row of the table of instances; `anchor` is empty when the instance has no section."""

    anchor: str
    name: str
    engine: str
    runs: int
    finding: FindingView
    window: Window
    peaks: Peaks


@dataclass(frozen=True, slots=True)
class FactView:
    """One fact and where it was read; `metric` is the metric that told it, empty for a line of a log."""

    run: str
    key: str
    value: str
    source: str
    metric: str


@dataclass(frozen=True, slots=True)
class FactGroup:
    """One instance's facts: what the engine reported, and the arguments it was started with."""

    instance: str
    facts: Capped[FactView]


@dataclass(frozen=True, slots=True)
class SourceView:
    """One input and what it gave, in words. `adds_up` is None when a count of lines is unknown; `nothing` says what an
    input held that gave nothing, and `offset` what was added to its times.
    """

    path: str
    instance: str
    read_as: str
    version: str
    size: int | None
    gave: str
    adds_up: bool | None
    series: int
    window: Window
    clock: str
    offset: str
    nothing: str
    cut: bool
    notes: Capped[str]


@dataclass(frozen=True, slots=True)
class SourceTotals:
    """Counts over all inputs, those not listed included: lines of logs and their fates, samples, requests."""

    lines: int
    matched: int
    ignored: int
    unmatched: int
    other: int
    samples: int
    requests: int


@dataclass(frozen=True, slots=True)
class MissingView:
    """A missing signal, how to record it, and the questions that wanted it."""

    signal: str
    flag: str
    questions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReportData:
    """The whole report. Instances come worst first."""

    trace: str
    tool_version: str
    schema_version: int
    cut: bool
    cut_sources: Capped[str]
    verdict: Verdict
    engine: str
    instance_rows: Capped[InstanceRow]
    instances: Capped[InstanceView]
    findings: Capped[FindingView]
    missing: Capped[MissingView]
    facts: Capped[FactGroup]
    sources: Capped[SourceView]
    totals: SourceTotals
    notes: Capped[str]
    explore: Explore | None = field(default=None, compare=False)
    replay: ReplayView | None = None
