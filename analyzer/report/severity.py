"""How bad it was: the length of the incident, what TTFT did, and a grade that says it in one word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from analyzer.language import N_, _, ngettext
from analyzer.report import fmt
from analyzer.report.buckets import Bucket
from analyzer.report.told import Told
from analyzer.report.ttft_panel import is_open, pending_in, ttft_sources
from analyzer.report.words import Tone

Level = Literal["severe", "major", "minor", "none", "unknown"]
# From these on, P99 TTFT (seconds, and as a multiple of what it was before) makes an incident severe or major. Users leave
# after tens of seconds; three times the usual is more than the usual goes up and down by itself.
SEVERE_S, SEVERE_TIMES = 30.0, 10.0
MAJOR_S, MAJOR_TIMES = 10.0, 3.0
# Causes that lose the requests themselves, however fast the others were.
_LOSES_REQUESTS = frozenset(("crash", "restart", "hang"))
# Two buckets are no "normal" to compare with.
_ENOUGH_BEFORE = 3

_LEVELS: dict[Level, tuple[str, Tone]] = {
    "severe": (N_("Severe"), "bad"),
    "major": (N_("Major"), "bad"),
    "minor": (N_("Minor"), "warn"),
    "none": (N_("No incident"), "good"),
    "unknown": (N_("Severity not known"), "grey"),
}


@dataclass(frozen=True, slots=True)
class Severity:
    """How bad it was, as far as the timeline can say. Seconds; shares 0..1; None where unknown.

    `ttft_*` are of per-bucket P99: the highest within the window, and the median before it. With `ttft_open` some P99 was
    longer than that highest value: beyond a histogram's last bound, or of the `ttft_pending` requests that never got a
    first token. `wait_est_peak_s` estimates queue wait and is not a TTFT.
    """

    duration_s: float | None = None
    capture_share: float | None = None
    ttft_p99_peak_s: float | None = None
    ttft_p99_before_s: float | None = None
    ttft_source: str = ""
    ttft_open: bool = False
    ttft_pending: int = 0
    wait_est_peak_s: float | None = None

    @property
    def times(self) -> float | None:
        """P99 TTFT at its worst as a multiple of what it was before."""
        if self.ttft_p99_peak_s is None or not self.ttft_p99_before_s:
            return None
        return self.ttft_p99_peak_s / self.ttft_p99_before_s


@dataclass(frozen=True, slots=True)
class Grade:
    """A severity in one word, and what it rests on."""

    level: Level
    word: str
    why: str
    tone: Tone


def measure_severity(
    buckets: Sequence[Bucket], told: Told, start: float | None, end: float | None, extent: tuple[float, float] | None
) -> Severity:
    """What the buckets say of an incident from `start` to `end` (epoch seconds) in a capture of `extent`."""
    if start is None and end is None:
        return Severity()
    inside = [b for b in buckets if (start is None or b.end > start) and (end is None or b.start < end)]
    before = [v for b in buckets if start is not None and b.end <= start and (v := b.get("ttft_p99_s")) is not None]
    length = end - start if start is not None and end is not None else None
    whole = extent[1] - extent[0] if extent else None
    return Severity(
        duration_s=length,
        capture_share=min(1.0, length / whole) if length is not None and whole else None,
        ttft_p99_peak_s=max((v for b in inside if (v := b.get("ttft_p99_s")) is not None), default=None),
        ttft_p99_before_s=median(before) if len(before) >= _ENOUGH_BEFORE else None,
        ttft_open=is_open(inside, told),
        ttft_pending=pending_in(inside, told),
        ttft_source=ttft_sources(inside),
        wait_est_peak_s=max((v for b in inside if (v := b.get("wait_est_s")) is not None), default=None),
    )


def grade(cause: str, tone: Tone, severity: Severity) -> Grade:
    """The grade of a verdict. What is not known is never graded as harmless."""
    level, why = _level(cause, tone, severity)
    word, colour = _LEVELS[level]
    return Grade(level, _(word), why, colour)


def _level(cause: str, tone: Tone, s: Severity) -> tuple[Level, str]:
    if tone == "good":
        return "none", ""
    if tone == "grey":
        return "unknown", ""
    if cause in _LOSES_REQUESTS:
        return "severe", _("the process itself was lost")
    times = s.times
    if s.ttft_p99_peak_s is not None and times is not None:
        more = _("P99 TTFT more than {n} times what it was before", n=_times(times))
        said = more if s.ttft_open else _("P99 TTFT {n} times what it was before", n=_times(times))
    elif s.ttft_p99_peak_s is not None:
        peak = fmt.duration(s.ttft_p99_peak_s)
        said = _("P99 TTFT longer than {peak}", peak=peak) if s.ttft_open else _("P99 TTFT up to {peak}", peak=peak)
    elif s.ttft_pending:
        n = fmt.number(s.ttft_pending)
        return "severe", ngettext("{n} request never got a first token", "{n} requests never got a first token", s.ttft_pending, n=n)
    elif s.wait_est_peak_s is not None:
        said = _("an estimated {wait} in the queue", wait=fmt.duration(s.wait_est_peak_s))
    else:
        return "unknown", _("neither TTFT nor the wait in the queue is known")
    return _by_seconds(s.ttft_p99_peak_s if s.ttft_p99_peak_s is not None else s.wait_est_peak_s, times), said


def _by_seconds(seconds: float | None, times: float | None) -> Level:
    seconds, times = seconds or 0.0, times or 0.0
    if seconds >= SEVERE_S or times >= SEVERE_TIMES:
        return "severe"
    if seconds >= MAJOR_S or times >= MAJOR_TIMES:
        return "major"
    return "minor"


def _times(times: float) -> str:
    return fmt.number(round(times)) if times >= 10 else fmt.number(round(times, 1))
