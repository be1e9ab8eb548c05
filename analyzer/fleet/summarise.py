"""From a diagnosis to what the index says of it."""

from __future__ import annotations

from dataclasses import replace

from analyzer.diagnosis.model import Diagnosis, InstanceDiagnosis, Window
from analyzer.fleet.model import Incident, Summary
from analyzer.report import fmt
from analyzer.report.severity import Severity

MAX_INCIDENTS = 40
MAX_MISSING = 6
_NO_INCIDENT = ("none", "insufficient_data")
_CAPACITY = "kv_capacity_tokens"


def summarise(diagnosis: Diagnosis, severity: Severity, *, cut: bool) -> Summary:
    """The summary of a capture; `severity` is the verdict's, `cut` whether reading it ended early."""
    verdict, peaks = diagnosis.verdict, diagnosis.peaks
    worst = next((i for i in diagnosis.instances if i.instance == verdict.instance), None)
    return Summary(
        cause=verdict.cause,
        confidence=verdict.confidence,
        sentence=fmt.prose(verdict.sentence, 600),
        instance=fmt.clean(verdict.instance, 120),
        instances=len(diagnosis.instances),
        engine=_engine(worst or next(iter(diagnosis.instances), None)),
        window=_known(diagnosis.window, verdict.window),
        covers=_covers(diagnosis),
        severity=severity,
        waiting=peaks.waiting,
        running=peaks.running,
        kv_usage=peaks.kv_usage,
        retracted=peaks.retracted_requests if peaks.retracted_requests is not None else peaks.preemptions,
        pool_tokens=_pool(diagnosis, verdict.instance),
        cut=cut or diagnosis.cut,
        findings=tuple(dict.fromkeys((f.cause, f.confidence) for f in (verdict, *diagnosis.findings))),
        incidents=_longest(incidents_of(diagnosis)),
        missing=_missing(diagnosis) if verdict.cause == "insufficient_data" else (),
    )


def _engine(instance: InstanceDiagnosis | None) -> str:
    if instance is None:
        return ""
    return " ".join(p for p in (fmt.clean(instance.engine, 40), fmt.clean(instance.versions, 120)) if p)


def _known(*windows: Window) -> Window:
    return next((w for w in windows if w.start or w.end), Window(None, None))


def _covers(diagnosis: Diagnosis) -> Window:
    """From the first to the last time of any source."""
    times = [t for s in diagnosis.sources for key in ("first_ts", "last_ts") if (t := fmt.to_utc(s.get(key))) is not None]
    return Window(min(times, default=None), max(times, default=None))


def _pool(diagnosis: Diagnosis, instance: str | None) -> tuple[int, int] | None:
    """The smallest and the largest pool that runs and ranks of the instance told; of any instance where it told none."""
    told = [(f.get("instance"), str(f.get("value") or "")) for f in diagnosis.facts if f.get("key") == _CAPACITY]
    sizes = [(who, int(text)) for who, text in told if text.isascii() and text.isdigit() and len(text) < 16]
    own = [size for who, size in sizes if who == instance] or [size for _who, size in sizes]
    return (min(own), max(own)) if own else None


def incidents_of(diagnosis: Diagnosis) -> tuple[Incident, ...]:
    """All incidents of all instances in the order of their time."""
    found = [
        Incident(i.window.start, i.window.end, i.findings[0].cause, each.instance, i.findings[0].confidence)
        for each in diagnosis.instances
        for i in each.incidents
        if i.findings and (i.window.start or i.window.end)
    ]
    verdicts = [(i.instance, i.verdict) for i in diagnosis.instances] or [(diagnosis.verdict.instance or "", diagnosis.verdict)]
    for instance, verdict in verdicts:
        who, window = instance, verdict.window
        told = any(i.cause == verdict.cause and i.instance == who for i in found)
        if told or verdict.cause in _NO_INCIDENT or not (window.start or window.end):
            continue
        # what takes a server away is a verdict with a time of its own, and the queue that it left belongs to it
        found = [i for i in found if i.instance != who or not _overlap(Window(i.start, i.end), window)]
        found.append(Incident(window.start, window.end, verdict.cause, who, verdict.confidence))
    return tuple(sorted(found, key=_place))


def _longest(incidents: tuple[Incident, ...]) -> tuple[Incident, ...]:
    """Of more than MAX_INCIDENTS, those that lasted longest, in the same order."""
    longest = sorted(incidents, key=lambda i: -(i.end - i.start).total_seconds() if i.start and i.end else 0.0)[:MAX_INCIDENTS]
    return tuple(replace(i, instance=fmt.clean(i.instance, 120)) for i in sorted(longest, key=_place))


def _overlap(one: Window, other: Window) -> bool:
    """True when the two share a moment; an end that is not known is anywhere."""
    return not (one.end and other.start and one.end < other.start) and not (other.end and one.start and other.end < one.start)


def _place(incident: Incident) -> tuple[str, str, str]:
    at = incident.start or incident.end
    return (at.isoformat() if at else "", incident.instance, incident.cause)


def _missing(diagnosis: Diagnosis) -> tuple[str, ...]:
    basis = [a for a in diagnosis.checklist if a.id in diagnosis.verdict.rests_on and a.missing] or list(diagnosis.checklist)
    signals = dict.fromkeys(fmt.clean(m.signal, 200) for a in basis for m in a.missing)
    return tuple(signals)[:MAX_MISSING]
