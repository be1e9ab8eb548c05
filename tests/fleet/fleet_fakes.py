"""Batches made by hand, for tests that do not read captures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from analyzer.diagnosis.model import Cause, Confidence, Window
from analyzer.fleet.model import Failure, Fleet, Incident, Record, Skipped, Stamp, Summary
from analyzer.report.severity import Severity

START = datetime(2026, 11, 30, 7, 0, tzinfo=UTC)


def summary(cause: Cause = "l1_bound", confidence: Confidence = "high", *, at: float = 0.0, lasted: float = 300.0, **given: Any) -> Summary:
    """What one report says; the incident begins `at` seconds after START."""
    begins = START + timedelta(seconds=at)
    window = Window(begins, begins + timedelta(seconds=lasted))
    hit = cause not in ("none", "insufficient_data")
    values: dict[str, Any] = {
        "cause": cause,
        "confidence": confidence,
        "sentence": "The KV pool was full. Requests waited.",
        "instance": "pod-0",
        "instances": 1,
        "engine": "vllm 0.11.2",
        "window": window if hit else Window(None, None),
        "covers": Window(begins - timedelta(seconds=120), begins + timedelta(seconds=lasted + 120)),
        "severity": Severity(duration_s=lasted, ttft_p99_peak_s=41.9, ttft_p99_before_s=0.4) if hit else Severity(),
        "waiting": 128,
        "running": 37,
        "kv_usage": 0.997,
        "retracted": 9,
        "pool_tokens": (57_360, 57_360),
        "findings": ((cause, confidence),),
        "incidents": (Incident(window.start, window.end, cause, "pod-0"),) if hit else (),
    }
    return Summary(**(values | given))


def record(name: str, said: Summary | None = None) -> Record:
    """One capture with a report."""
    return Record(name, f"{name}.html", "", "0" * 16, (Stamp(f"{name}/server.log", 10, "ab" * 32, 1),), said or summary())


def fleet(*records: Record, failures: tuple[Failure, ...] = (), skipped: tuple[Skipped, ...] = (), **given: Any) -> Fleet:
    """A batch of these."""
    return Fleet("en", tuple(sorted(records, key=lambda r: r.name)), failures, skipped, **given)


def mixed() -> Fleet:
    """One of each kind: with an incident, without one, what cannot be told, what failed, and what is no capture."""
    return fleet(
        record("tuesday", summary("l1_bound")),
        record("cap", summary("cap_bound", "medium", at=60, severity=Severity(duration_s=300.0, ttft_p99_peak_s=4.0))),
        record("lost", summary("crash", at=200, lasted=2, retracted=None, waiting=None, pool_tokens=(1000, 2000), instances=3)),
        record("calm", summary("none", "medium")),
        record("dark", summary("insufficient_data", "low", missing=("waiting requests", "KV usage"), kv_usage=None, waiting=None)),
        failures=(Failure("broken", "server.log is binary", "give text", 3),),
        skipped=(Skipped("README.md", "a file beside captures that are folders"),),
    )


HOSTILE = "<img src=x onerror=1>\"'&{{ 7*7 }}</script>"


def hostile() -> Fleet:
    """Text that would like to be something else, wherever a log or a file name can put some."""
    said = summary(sentence=HOSTILE, instance=HOSTILE, engine=HOSTILE, instances=2, incidents=(Incident(START, None, "l1_bound", HOSTILE),))
    return fleet(
        Record(HOSTILE, "img-12345678.html", "", "0", (), said),
        Record("dark", "dark.html", "", "0", (), summary("insufficient_data", "low", missing=(HOSTILE,))),
        failures=(Failure(HOSTILE, HOSTILE, HOSTILE, 3),),
        skipped=(Skipped(HOSTILE, HOSTILE),),
    )


def many(count: int) -> Fleet:
    """A fleet of `count` captures of one outage."""
    causes: list[Cause] = ["l1_bound", "cap_bound", "none", "crash", "prefill_bound", "insufficient_data"]
    return fleet(*(record(f"pod-{n:04d}", summary(causes[n % 6], at=n % 50 * 7.0)) for n in range(count)))
