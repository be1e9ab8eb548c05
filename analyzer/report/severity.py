"""How bad it was, and a grade that says it in one word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analyzer.language import N_, _, ngettext
from analyzer.report import fmt
from analyzer.report.fmt import clauses
from analyzer.report.words import Tone

Level = Literal["severe", "major", "minor", "none", "unknown"]
# From these on, P99 TTFT (seconds, and as a multiple of that of other times) makes an incident severe or major. Users leave
# after tens of seconds; three times the usual is more than the usual goes up and down by itself.
SEVERE_S, SEVERE_TIMES = 30.0, 10.0
MAJOR_S, MAJOR_TIMES = 10.0, 3.0
_LEVELS: dict[Level, tuple[str, Tone]] = {
    "severe": (N_("Severe"), "bad"),
    "major": (N_("Major"), "bad"),
    "minor": (N_("Minor"), "warn"),
    "none": (N_("No incident"), "good"),
    "unknown": (N_("Severity not known"), "grey"),
}


@dataclass(frozen=True, slots=True)
class Severity:
    """How bad it was, as far as the capture tells. Seconds; shares 0..1; None where unknown.

    `ttft_p99_peak_s` is the P99 of the requests of the incident (without one, of the capture), as question 1 has it, and
    `ttft_p99_before_s` that of the others. With `ttft_open` it is longer than that: beyond a histogram's last bound, or
    among requests without a first token. `ttft_never` counts these where single requests are known: failed, refused, or
    still pending at the end. `wait_est_peak_s` estimates queue wait and is not a TTFT. `token_times` is how many times as
    long as at best each token took; `served_again_s` how long after a process was lost the next first token came, or
    the next process was ready.
    """

    duration_s: float | None = None
    capture_share: float | None = None
    ttft_p99_peak_s: float | None = None
    ttft_p99_before_s: float | None = None
    ttft_source: str = ""
    ttft_open: bool = False
    ttft_never: int = 0
    whole_capture: bool = False
    wait_est_peak_s: float | None = None
    token_times: float | None = None
    served_again_s: float | None = None

    @property
    def times(self) -> float | None:
        """P99 TTFT as a multiple of what it was outside the incident."""
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


def grade(cause: str, tone: Tone, severity: Severity) -> Grade:
    """The grade of a verdict. What is not known is never graded as harmless."""
    level, why = _level(cause, tone, severity)
    word, colour = _LEVELS[level]
    return Grade(level, _(word), why, colour)


def _level(cause: str, tone: Tone, s: Severity) -> tuple[Level, str]:
    if tone == "good":
        return "none", ""
    if cause in ("crash", "restart"):
        return "severe", clauses((_("the process itself was lost"), never(s)))
    if cause == "hang":
        return "severe", clauses((_("no progress was made"), never(s)))
    if cause == "decode_bound" and s.token_times is not None:
        return _by_seconds(None, s.token_times), _("each token took {n} times as long as at best", n=_times(s.token_times))
    times = s.times
    if s.ttft_p99_peak_s is not None and times is not None:
        more = _("P99 TTFT more than {n} times that of other times", n=_times(times))
        said = more if s.ttft_open else _("P99 TTFT {n} times that of other times", n=_times(times))
    elif s.ttft_p99_peak_s is not None:
        peak = fmt.duration(s.ttft_p99_peak_s)
        said = _("P99 TTFT longer than {peak}", peak=peak) if s.ttft_open else _("P99 TTFT {peak}", peak=peak)
    elif s.ttft_never and tone == "bad":
        return "severe", never(s)
    elif s.wait_est_peak_s is not None and tone == "bad":
        said = _("an estimated {wait} in the queue", wait=fmt.duration(s.wait_est_peak_s))
    else:
        return "unknown", _("neither TTFT nor the wait in the queue is known") if tone == "bad" else ""
    if tone == "grey" and s.whole_capture:
        # Nothing says that this was an incident.
        return "unknown", said
    return _by_seconds(s.ttft_p99_peak_s if s.ttft_p99_peak_s is not None else s.wait_est_peak_s, times), said


def never(s: Severity) -> str:
    """Who is not in the percentiles; empty where nobody is missing."""
    if not s.ttft_never:
        return ""
    n = fmt.number(s.ttft_never)
    return ngettext("{n} request never got a first token", "{n} requests never got a first token", s.ttft_never, n=n)


def _by_seconds(seconds: float | None, times: float | None) -> Level:
    seconds, times = seconds or 0.0, times or 0.0
    if seconds >= SEVERE_S or times >= SEVERE_TIMES:
        return "severe"
    if seconds >= MAJOR_S or times >= MAJOR_TIMES:
        return "major"
    return "minor"


def _times(times: float) -> str:
    return fmt.number(round(times)) if times >= 10 else fmt.number(round(times, 1))
