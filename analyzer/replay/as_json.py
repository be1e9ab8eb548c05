"""A study as JSON: what `kvpm replay --json` prints."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from analyzer.diagnosis.model import plain
from analyzer.replay import knobs, words
from analyzer.replay.model import Calibration, Case, GoalAnswer, NoReplay, ObservedCurve, Outcome, Study, WhatIf
from analyzer.replay.result import Curves

SCHEMA_VERSION = 1
_POINTS = 500


def document(studies: Sequence[Study | NoReplay]) -> dict[str, Any]:
    """All servers of one command, the worst first."""
    return {"schema_version": SCHEMA_VERSION, "servers": [to_dict(s) for s in studies]}


def to_dict(study: Study | NoReplay) -> dict[str, Any]:
    """One server. What is not known is None; a TTFT that never came is None too, with `..._unbounded` beside it."""
    if isinstance(study, NoReplay):
        return {"instance": study.instance, "replayed": False, "reason": study.reason, "hint": study.hint}
    case = study.case
    return {
        "instance": case.instance,
        "replayed": True,
        "engine": case.engine,
        "engine_version": case.engine_version,
        "sentence": words.sentence(study),
        "trust": study.calibration.trust,
        "reasons": list(study.calibration.reasons),
        "workload": _workload(case),
        "settings": [asdict(row) for row in case.setting_rows],
        "step_time": _step_time(case),
        "fit": _fit(study.calibration),
        "curves": _curves(study.calibration, case),
        "unchanged": _outcome(study.unchanged),
        "what_ifs": [_what_if(w, case, study.unchanged) for w in study.what_ifs],
        "goals": [_goal(g, case, study.unchanged) for g in study.goals],
        "skipped": list(study.skipped),
    }


def _workload(case: Case) -> dict[str, Any]:
    w = case.workload
    return {
        "requests": len(w.requests),
        "duration_s": w.duration_s,
        "start": plain(case.start),
        "held_against_until_s": case.end_s,
        "prompt_tokens": sum(r.prompt_tokens for r in w.requests),
        "output_tokens": sum(r.output_tokens for r in w.requests),
        "approximate": w.approximate,
        "notes": list(w.notes),
    }


def _step_time(case: Case) -> dict[str, Any]:
    fitted = case.fitted
    return {
        **asdict(fitted.step_time),
        "residual_share": fitted.residual_share,
        "samples": fitted.samples,
        "basis": fitted.basis,
        "overhead_s": fitted.overhead_s,
        "paused_s": sum(seconds for _at, seconds in fitted.pace.pauses),
        "pauses": [{"at_s": at, "seconds": seconds} for at, seconds in fitted.pace.pauses],
        "stalled_s": sum(seconds for _at, seconds in fitted.stalls),
        "stalls": [{"at_s": at, "seconds": seconds} for at, seconds in fitted.stalls],
        "slowest": max(fitted.pace.slower),
    }


def _fit(calibration: Calibration) -> list[dict[str, Any]]:
    made = []
    for m in calibration.measures:
        row = asdict(m)
        low, high = row.pop("bucket") or (None, None)
        made.append(finite(row | {"bucket_low": low, "bucket_high": high}))
    return made


def _curves(calibration: Calibration, case: Case) -> dict[str, Any]:
    """Observed gauges as they were, and the replayed load at up to 500 instants, evenly spread."""
    observed, replayed = case.observed, calibration.unchanged
    return {
        "observed": {name: _gauge(getattr(observed, name)) for name in ("running", "waiting", "kv_usage")},
        "replayed": _sampled(replayed.curves, replayed.end_s, replayed.l1_tokens),
    }


def _gauge(curve: ObservedCurve | None) -> dict[str, Any] | None:
    return None if curve is None else {"source": curve.source, "at_s": list(curve.at_s), "values": list(curve.values)}


def _sampled(curves: Curves, end_s: float, l1_tokens: int) -> dict[str, list[float]]:
    at = [end_s * i / (_POINTS - 1) for i in range(_POINTS)] if curves.start_s else []
    made: dict[str, list[float]] = {"at_s": at, "running": [], "waiting": [], "kv_usage": []}
    for moment in at:
        index = bisect_right(curves.start_s, moment) - 1
        idle = index < 0 or moment > curves.end_s[index]
        made["running"].append(0 if idle else curves.running[index])
        made["waiting"].append(0 if idle else curves.waiting[index])
        made["kv_usage"].append(0.0 if idle else _used(curves, index, moment) / l1_tokens)
    return made


def _used(curves: Curves, index: int, moment: float) -> float:
    start, end = curves.start_s[index], curves.end_s[index]
    share = (moment - start) / (end - start) if end > start else 0.0
    return curves.used_tokens_start[index] + share * (curves.used_tokens_end[index] - curves.used_tokens_start[index])


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return finite(asdict(outcome))


def _what_if(w: WhatIf, case: Case, unchanged: Outcome) -> dict[str, Any]:
    return {
        "set": ",".join(c.text for c in w.changes),
        "changes": _changes(w, case),
        "words": words.setting(w.changes, case),
        **_outcome(w.outcome),
        **finite({"ttft_p99_low_s": w.low_s, "ttft_p99_high_s": w.high_s}),
        "ttft_p99_ratio": _ratio(w.outcome.ttft_p99_s, unchanged.ttft_p99_s),
        "trusted": w.trusted,
        "why_not": w.why_not,
    }


def _changes(w: WhatIf, case: Case) -> list[dict[str, Any]]:
    made = []
    workload, settings = case.workload, case.settings
    for change in w.changes:
        knob = knobs.named(change.knob)
        made.append(
            {
                "knob": knob.name,
                "flag": knob.flags[case.engine],
                "unit": knob.unit,
                "from": knob.now(workload, settings),
                "to": knobs.target(change, workload, settings),
            }
        )
        workload, settings = knobs.applied((change,), workload, settings)
    return made


def _goal(answer: GoalAnswer, case: Case, unchanged: Outcome) -> dict[str, Any]:
    return {
        "goal": answer.goal,
        "by": answer.knob,
        "set": None if answer.change is None else answer.change.text,
        "value": answer.value,
        "outcome": None if answer.outcome is None else _outcome(answer.outcome),
        "said": answer.said,
        "tried": [_what_if(w, case, unchanged) for w in answer.tried],
    }


def _ratio(then: float | None, now: float | None) -> float | None:
    return then / now if then is not None and now and isfinite(then) and isfinite(now) else None


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """The same without infinities, which JSON does not know: None, and a field of that name and `_unbounded` beside it."""
    made: dict[str, Any] = {}
    for key, value in row.items():
        endless = isinstance(value, float) and not isfinite(value)
        made[key] = None if endless else value
        if endless:
            made[f"{key}_unbounded"] = True
    return made
