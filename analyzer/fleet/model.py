"""A batch as data: captures to read, what each report says, and what gave none. All of it goes to batch.json and back.

Times are aware UTC, durations seconds, shares 0..1; None where something is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast, get_args

from analyzer.diagnosis.model import Cause, Confidence, Window
from analyzer.report import fmt
from analyzer.report.severity import Severity


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read one capture and what to look at in it: the options of the same names of `kvpm report`."""

    tz: str | None = None
    year: int | None = None
    instance: tuple[str, ...] = ()
    offset: tuple[str, ...] = ()
    at: str | None = None
    map: tuple[str, ...] = ()
    keep_text: bool = False
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture to make a report of. `inputs` are files, folders, globs or one stored trace, all relative to `base`, or
    URLs. Of a capture that was found behind a URL, `listed` are the stamps of its objects.

    `name` is unique in a batch and clean. `loose` is a file that a folder happened to hold: if nothing in it is of a
    model server, it is no capture at all.
    """

    name: str
    base: Path
    inputs: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)
    loose: bool = False
    listed: tuple[Stamp, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something in a folder that is not taken for a capture, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A capture without a report: what went wrong, what to do, and the exit code `kvpm report` has for it."""

    name: str
    reason: str
    hint: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident of one instance, with the cause that ranks first."""

    start: datetime | None
    end: datetime | None
    cause: Cause
    instance: str
    confidence: Confidence = "low"


@dataclass(frozen=True, slots=True)
class Summary:
    """What the report of one capture says, without its sentences except the verdict's.

    The verdict, `window`, `severity` and the peaks are of the worst of `instances`. `covers` is from the first to the last
    time read. `findings` are (cause, confidence) of everything found anywhere. `retracted` counts requests that lost
    their KV cache: retracted (SGLang) or preempted (vLLM). `pool_tokens` are the smallest and the largest KV pool that
    the engine told. `missing` are signals that a "cannot tell" lacks. With `cut` an input could not be read to its end.
    """

    cause: Cause
    confidence: Confidence
    sentence: str
    instance: str
    instances: int
    engine: str
    window: Window
    covers: Window
    severity: Severity
    waiting: int | None = None
    running: int | None = None
    kv_usage: float | None = None
    retracted: int | None = None
    pool_tokens: tuple[int, int] | None = None
    cut: bool = False
    findings: tuple[tuple[Cause, Confidence], ...] = ()
    incidents: tuple[Incident, ...] = ()
    missing: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For batch.json."""
        s = self.severity
        return {
            "cause": self.cause, "confidence": self.confidence, "sentence": self.sentence,
            "instance": self.instance, "instances": self.instances, "engine": self.engine,
            "window": _window_json(self.window), "covers": _window_json(self.covers),
            "severity": {name: getattr(s, name) for name in _SEVERITY},
            "waiting": self.waiting, "running": self.running, "kv_usage": self.kv_usage, "retracted": self.retracted,
            "pool_tokens": self.pool_tokens, "cut": self.cut, "findings": self.findings,
            "incidents": [
                {**_window_json(Window(i.start, i.end)), "cause": i.cause, "confidence": i.confidence, "instance": i.instance}
                for i in self.incidents
            ],
            "missing": self.missing,
        }  # fmt: skip

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Summary:
        """The same from batch.json. Raises KeyError, TypeError or ValueError for what `to_json` did not write."""
        pool = stored["pool_tokens"]
        return cls(
            cause=_cause(stored["cause"]), confidence=_confidence(stored["confidence"]), sentence=str(stored["sentence"]),
            instance=str(stored["instance"]), instances=int(stored["instances"]), engine=str(stored["engine"]),
            window=_window(stored["window"]), covers=_window(stored["covers"]),
            severity=Severity(**{name: stored["severity"][name] for name in _SEVERITY}),
            waiting=stored["waiting"], running=stored["running"], kv_usage=stored["kv_usage"], retracted=stored["retracted"],
            pool_tokens=None if pool is None else (int(pool[0]), int(pool[1])), cut=bool(stored["cut"]),
            findings=tuple((_cause(cause), _confidence(confidence)) for cause, confidence in stored["findings"]),
            incidents=tuple(
                Incident(
                    fmt.to_utc(i["start"]), fmt.to_utc(i["end"]), _cause(i["cause"]), str(i["instance"]), _confidence(i["confidence"])
                )
                for i in stored["incidents"]
            ),
            missing=tuple(map(str, stored["missing"])),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stamp:
    """One file of a capture: its path below the capture's base, size, content hash, and time of change (ns).

    Of an object behind a URL, which is not read for its hash, the path is what is shown of the URL, and `version` is its
    store's mark of the content, empty where it gives none.
    """

    path: str
    size: int
    sha256: str = ""
    mtime_ns: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One capture that has its report. `report` and `trace` are names in the folders of those; `trace` is empty when none
    was kept. `made_with` stands for everything but the inputs that the report depends on."""

    name: str
    report: str
    trace: str
    made_with: str
    inputs: tuple[Stamp, ...]
    summary: Summary


@dataclass(frozen=True, slots=True)
class Fleet:
    """The whole batch, in the order of the names."""

    lang: str
    captures: tuple[Record, ...] = ()
    failures: tuple[Failure, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    assets: tuple[str, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)


_SEVERITY = (
    "duration_s", "capture_share", "ttft_p99_peak_s", "ttft_p99_before_s", "ttft_source", "ttft_open", "ttft_never",
    "wait_est_peak_s",
)  # fmt: skip


def _window_json(window: Window) -> dict[str, str | None]:
    return {"start": _iso(window.start), "end": _iso(window.end)}


def _window(stored: Mapping[str, Any]) -> Window:
    return Window(fmt.to_utc(stored["start"]), fmt.to_utc(stored["end"]))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _cause(text: Any) -> Cause:
    if text not in get_args(Cause):
        raise ValueError(f"{text!r} is no cause")
    return cast(Cause, text)


def _confidence(text: Any) -> Confidence:
    if text not in get_args(Confidence):
        raise ValueError(f"{text!r} is no confidence")
    return cast(Confidence, text)
