"""What the section shows, as plain frozen dataclasses.

Durations in seconds, shares 0..1, sizes in tokens, None where something is not known; a wait without end is infinite. Text is
cleaned, not yet escaped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from analyzer.replay.model import Trust
from analyzer.report.capped import Capped
from analyzer.report.charts import Timeline
from analyzer.report.words import Tone

MAX_ROWS = 48
MAX_SETTINGS = 60
MAX_LINES = 16
MAX_TRIED = 24

# `studied`: there is a replay. `not_possible`: the capture does not hold what one needs. `left_out`: too much work to be done
# unasked. `failed`: it went wrong.
State = Literal["studied", "not_possible", "left_out", "failed"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A replay that was not made because nobody asked for one of that size: requests, and tokens they made; 0 where none was recorded."""

    instance: str
    requests: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A replay that went wrong, and how, in one line."""

    instance: str
    reason: str


@dataclass(frozen=True, slots=True)
class FitRow:
    """One thing observed and replayed, with units, and how far apart they are. `fits` is None where nothing was observed."""

    title: str
    observed: str
    replayed: str
    error: str
    bias: str
    bound: str
    fits: bool | None


@dataclass(frozen=True, slots=True)
class Rung:
    """P99 TTFT at one size of a pool; `p99` is how it is written. `p99_s` is infinite where requests never get a first token; `now`
    marks the size it ran with.
    """

    tokens: float
    label: str
    p99: str
    p99_s: float | None
    low_s: float | None
    high_s: float | None
    trusted: bool
    now: bool
    hint: str


@dataclass(frozen=True, slots=True)
class Ladder:
    """P99 TTFT against the size of one pool, the smallest first. `floor_s` and `top_s` are the ends of the y axis, the same for all
    ladders of a page; it is logarithmic unless `floor_s` is 0.
    """

    key: Literal["l1", "l2"]
    title: str
    rungs: tuple[Rung, ...]
    floor_s: float
    top_s: float


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """One replay with something changed; the row of the unchanged one has no `command` and no `against`.

    `p99` and `p50` are the waits as they are written, empty where they are not known. `band` is the range of P99 TTFT in words,
    `against` its change against the unchanged replay, `notes` what else is to be known, `doubt` why it is not trusted.
    """

    change: str
    command: str
    p99: str
    p99_s: float | None
    low_s: float | None
    high_s: float | None
    band: str
    p50: str
    p50_s: float | None
    retractions: int
    max_waiting: int
    against: str
    trusted: bool
    doubt: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GoalView:
    """A goal that was searched for, the answer in words, and what was tried for it."""

    goal: str
    said: str
    tried: Capped[WhatIfRow]


@dataclass(frozen=True, slots=True)
class SettingView:
    """One setting the replay ran with; `origin` is a word, `source` where it was read."""

    name: str
    value: str
    origin: str
    source: str


@dataclass(frozen=True, slots=True)
class StudyView:
    """A replay in full.

    `doubt` is said once where no row is trusted, instead of in each. `fit_notes` say what the errors are of,
    `unserved` which requests nothing serves under which setting.
    """

    trust: Trust
    trust_word: str
    tone: Tone
    reasons: Capped[str]
    fits: tuple[FitRow, ...]
    fit_notes: tuple[str, ...]
    unserved: Capped[str]
    step_time: str
    chart: Timeline | None
    ladders: tuple[Ladder, ...]
    thrown: str
    rows: Capped[WhatIfRow]
    doubt: str
    goals: tuple[GoalView, ...]
    settings: Capped[SettingView]
    assumed: Capped[str]
    skipped: Capped[str]

    @property
    def endless(self) -> bool:
        """True where a mark of the curves is a wait without end."""
        return any(r.p99_s is not None and math.isinf(r.p99_s) for ladder in self.ladders for r in ladder.rungs)

    @property
    def doubts(self) -> bool:
        """True where a mark of the curves is not trusted."""
        return any(not r.trusted for ladder in self.ladders for r in ladder.rungs)


@dataclass(frozen=True, slots=True)
class ReplayView:
    """The section. `sentence` is what it comes to, and stands on the first screen too if there is a `study`; `commands` do more."""

    state: State
    instance: str
    sentence: str
    hint: str
    commands: tuple[str, ...]
    study: StudyView | None = None
