"""What a replay of one server's incident is told with: the case, how well the model fits, and what would have helped.

Plain frozen dataclasses. Times in seconds of the workload, shares 0..1, None where something is not known. Texts are in
the language of the moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from analyzer.replay.result import Replayed
from analyzer.replay.settings import Engine, Settings
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.workload import Workload

# How far the replay can be leaned on. `none`: there is nothing to hold it against.
Trust = Literal["good", "fair", "low", "none"]
Origin = Literal["read", "measured", "assumed", "changed"]


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting the replay ran with, and where it is from.

    A line or a metric (`read`, with `source`), the data (`measured`), or the engine's default (`assumed`).
    """

    name: str
    value: str
    origin: Origin
    source: str = ""


@dataclass(frozen=True, slots=True)
class FittedStepTime:
    """A step time with how well it fits: `residual_share` is the median of |observed - fitted| / observed over `samples` intervals.

    `basis` says what it was fitted to; `overhead_s` is what a client waits beside the engine (front end, network), part of each TTFT.
    `stalls` are (start_s, seconds) in which no client got a first token though nothing was in the way: the host's or the client's own, not
    the engine's. Like `pace` they are inputs, the same in every what-if.
    """

    step_time: StepTime
    pace: Pace
    residual_share: float | None
    samples: int
    basis: str
    overhead_s: float = 0.0
    stalls: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedCurve:
    """A gauge as it was scraped or printed; `at_s` and `values` of one length."""

    at_s: tuple[float, ...]
    values: tuple[float, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What the capture says the server did.

    `ttft_s` by request id; `open_s` is how long requests without a first token had waited when they were last seen. A percentile that was
    read off a histogram lies anywhere in its band; None where it is exact.
    """

    running: ObservedCurve | None
    waiting: ObservedCurve | None
    kv_usage: ObservedCurve | None
    retractions: int | None
    ttft_s: dict[str, float]
    open_s: dict[str, float]
    ttft_source: str
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    ttft_p50_band_s: tuple[float, float] | None = None
    ttft_p99_band_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """All that a replay of one server starts from. `end_s`: the replay is held against the capture up to there."""

    instance: str
    engine: Engine
    engine_version: str
    workload: Workload
    settings: Settings
    setting_rows: tuple[SettingRow, ...]
    fitted: FittedStepTime
    observed: Observed
    start: datetime | None
    end_s: float
    uncovered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing observed and replayed.

    `error` is a share: |difference| / observed, for curves the mean absolute error over the observed range; `bias` has its sign.
    `bound` is the error up to which it counts as a fit; `fits` is None where nothing was observed. `bucket` are the bounds that a
    percentile read off a histogram lies between: a replayed value inside of them has no error.
    """

    key: Literal["running", "waiting", "kv_usage", "retractions", "ttft_p50", "ttft_p99"]
    unit: str
    observed: float | None
    replayed: float | None
    error: float | None
    bias: float | None
    bound: float
    fits: bool | None
    bucket: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The replay with nothing changed, held against the capture.

    `reasons` say why the trust is not better; `thrash`: retractions feed on themselves. `ttft_spread` is how far single requests are
    off: nine of ten of the slower half within this share of the TTFT recorded; None where no request's TTFT is known.
    """

    measures: tuple[Measure, ...]
    trust: Trust
    reasons: tuple[str, ...]
    thrash: bool
    unchanged: Replayed
    ttft_spread: float | None = None

    @property
    def misses(self) -> bool:
        """Whether the replay is off in anything that was recorded. Trust can be low without: what fits may do so by luck."""
        return any(m.fits is False for m in self.measures)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing set differently: `x1.25`, `x0` or an absolute value. `knob` is a name of `analyzer.replay.knobs`."""

    knob: str
    value: float
    times: bool

    @property
    def text(self) -> str:
        """As it is written on the command line: l1_tokens=x1.25."""
        return f"{self.knob}={'x' if self.times else ''}{self.value:g}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay came to.

    TTFT over all requests, in seconds, with the overhead of the case; one that never got a token is longer than any other (inf).
    `never` are requests that can never be served, `open` those without a first token at the end.
    """

    ttft_p50_s: float | None
    ttft_p99_s: float | None
    max_waiting: int
    mean_kv_usage: float
    max_kv_usage: float
    retractions: int
    finished: int
    open: int
    never: int
    l2_load_s: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One replay with something changed.

    `low_s` and `high_s` bound its P99 TTFT by the calibration's own error; `trusted` is False where the row is only to be looked
    at, and `why_not` says why.
    """

    changes: tuple[Change, ...]
    outcome: Outcome
    low_s: float | None
    high_s: float | None
    trusted: bool
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class GoalAnswer:
    """What a search found: the least change of `knob` that meets `goal`, or None in `change` where none in the range does."""

    goal: str
    knob: str
    change: Change | None
    value: float | None
    outcome: Outcome | None
    tried: tuple[WhatIf, ...]
    said: str


@dataclass(frozen=True, slots=True)
class Study:
    """The whole of `kvpm replay` of one server: fit, what-ifs, and the goal asked for. `skipped` says what the grid left out and why."""

    case: Case
    calibration: Calibration
    unchanged: Outcome
    what_ifs: tuple[WhatIf, ...]
    goals: tuple[GoalAnswer, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoReplay:
    """Why a server cannot be replayed, and what would have to be recorded for it."""

    instance: str
    reason: str
    hint: str = ""
