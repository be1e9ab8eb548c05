"""Made-up but plausible replays for the tests of their section: of the incident `report_fakes.l1_incident`."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from analyzer.replay.model import (
    Calibration,
    Case,
    Change,
    FittedStepTime,
    GoalAnswer,
    Measure,
    Observed,
    ObservedCurve,
    Outcome,
    SettingRow,
    Study,
    Trust,
    WhatIf,
)
from analyzer.replay.result import Curves, Replayed
from analyzer.replay.settings import L2, Sglang, Vllm
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.workload import Distinct, Request, Workload

T0 = datetime(2026, 11, 30, 7, 0, tzinfo=UTC)
END_S = 1200.0
L1_TOKENS = 196_608
L2_TOKENS = 400_000


def outcome(p99_s: float | None, **values: Any) -> Outcome:
    """What a replay came to, given its P99 TTFT."""
    plain = {
        "ttft_p50_s": None if p99_s is None else min(p99_s, 60.0) / 8,
        "ttft_p99_s": p99_s,
        "max_waiting": 128 if p99_s is None else min(400, round(3 * min(p99_s, 200))),
        "mean_kv_usage": 0.7,
        "max_kv_usage": 1.0,
        "retractions": 106 if p99_s is None else round(min(p99_s, 200) * 2.5),
        "finished": 1200,
        "open": 0,
        "never": 0,
        "l2_load_s": 1.5,
    }
    return Outcome(**{**plain, **values})


def what_if(knob: str, value: float, p99_s: float | None, *, times: bool = True, why_not: str = "", **values: Any) -> WhatIf:
    """One change alone, with a band of a fifth around its P99 TTFT."""
    known = p99_s is not None and math.isfinite(p99_s)
    low, high = (0.8 * p99_s, 1.2 * p99_s) if known and p99_s is not None else (None, None)
    return WhatIf((Change(knob, value, times),), outcome(p99_s, **values), low, high, not why_not, why_not)


def observed(step_s: float = 10.0) -> Observed:
    """Gauges that rise between 300 s and 800 s; nothing was told for a minute."""
    at = tuple(i * step_s for i in range(int(END_S / step_s)) if not 540 <= i * step_s < 600)
    waiting = tuple(120.0 if 300 <= t < 800 else 0.0 for t in at)
    usage = tuple(0.98 if 300 <= t < 800 else 0.5 for t in at)
    source = "logs/pod-a/server.log"
    return Observed(
        running=None,
        waiting=ObservedCurve(at, waiting, source),
        kv_usage=ObservedCurve(at, usage, source),
        retractions=106,
        ttft_s={"r1": 2.0},
        open_s={},
        ttft_source="client",
        ttft_p50_s=6.0,
        ttft_p99_s=40.2,
    )


def replayed() -> Replayed:
    """Three stretches of steps: little load, a queue with the pool full, little load."""
    curves = Curves(
        start_s=[0.0, 310.0, 810.0],
        end_s=[310.0, 810.0, 1150.0],
        steps=[5000, 9000, 5000],
        running=[14, 42, 14],
        waiting=[0, 112, 0],
        used_tokens_start=[0.4 * L1_TOKENS, 0.95 * L1_TOKENS, 0.5 * L1_TOKENS],
        used_tokens_end=[0.5 * L1_TOKENS, 1.0 * L1_TOKENS, 0.4 * L1_TOKENS],
        evictable_tokens=[0.0, 0.0, 0.0],
        retracted=[0, 100, 0],
        prefill_tokens=[10, 20, 10],
        decode_tokens=[10, 20, 10],
    )
    return Replayed([], curves, 1150.0, L1_TOKENS, retractions=100)


def measures() -> tuple[Measure, ...]:
    """All six things, one of them without an observation and one that does not fit."""
    return (
        Measure("running", "requests", None, 25.7, None, None, 0.15, None),
        Measure("waiting", "requests", 50.4, 46.9, 0.09, -0.0694, 0.25, True),
        Measure("kv_usage", "share", 0.71, 0.72, 0.03, 0.014, 0.1, True),
        Measure("retractions", "requests", 106.0, 100.0, 0.0566, -0.0566, 0.3, True),
        Measure("ttft_p50", "s", 6.0, 9.0, 0.5, 0.5, 0.25, False),
        Measure("ttft_p99", "s", 40.2, 38.9, 0.032, -0.032, 0.25, True),
    )


WHAT_IFS = (
    what_if("l1_tokens", 0.5, math.inf, why_not="below what the fit has seen", never=3),
    what_if("l1_tokens", 0.75, 95.0),
    what_if("l1_tokens", 0.9, 60.0),
    what_if("l1_tokens", 1.1, 21.0),
    what_if("l1_tokens", 1.25, 3.1),
    what_if("l1_tokens", 1.5, 2.2),
    what_if("l1_tokens", 2.0, 2.1),
    what_if("l2_tokens", 0.0, 41.0),
    what_if("l2_tokens", 2.0, 38.9),
    what_if("max_running", 2.0, 44.0, why_not="more requests at once than were ever seen running"),
    what_if("conservativeness", 0.3, 52.0, times=False, open=2),
    what_if("arrival_rate", 0.5, 1.4),
)


def study(trust: Trust = "good", what_ifs: tuple[WhatIf, ...] = WHAT_IFS, **values: Any) -> Study:
    """A replay of pod-a; `values` replace fields of the study, and of its case where they are a case's."""
    requests = tuple(Request(f"r{i}", i * 1.0, 500, 100, 200) for i in range(20))
    case = Case(
        instance="pod-a",
        engine="sglang",
        engine_version="0.5.6",
        workload=Workload(requests, Distinct(requests), T0, notes=("Output lengths are those of the client.",)),
        settings=Sglang(L1_TOKENS, 64, l2=L2(L2_TOKENS, 2e5, 64)),
        setting_rows=(
            SettingRow("l1_tokens", "196608", "read", "logs/pod-a/server.log:118"),
            SettingRow("max_running", "64", "read", "logs/pod-a/server.log:3"),
            SettingRow("load_tokens_per_s", "200000", "measured"),
            SettingRow("init_ratio", "0.7", "assumed"),
        ),
        fitted=FittedStepTime(StepTime(0.01, 1e-5, 1e-4), Pace(), 0.08, 412, "Fitted to decode steps of the log."),
        observed=observed(),
        start=T0,
        end_s=END_S,
    )
    reasons = (
        ("TTFT P50 is 50 % too long.",) if trust == "good" else ("TTFT P99 is 3 times as long as observed.", "No prefixes were recorded.")
    )
    calibration = Calibration(measures(), trust, reasons, False, replayed())
    own = {k: v for k, v in values.items() if k in set(Case.__dataclass_fields__)}
    rest = {k: v for k, v in values.items() if k not in own}
    if trust in ("low", "none"):
        what_ifs = tuple(replace(w, trusted=False, why_not="the unchanged replay does not fit") for w in what_ifs)
    plain: dict[str, Any] = {
        "case": replace(case, **own),
        "calibration": calibration,
        "unchanged": outcome(38.9, retractions=100),
        "what_ifs": what_ifs,
        "skipped": ("step_tokens: SGLang has no such setting",),
    }
    return Study(**{**plain, **rest})


def vllm_study() -> Study:
    """The same of a vLLM server without L2."""
    return study(
        engine="vllm", settings=Vllm(L1_TOKENS // 16 + 1, 256), what_ifs=tuple(w for w in WHAT_IFS if w.changes[0].knob == "l1_tokens")
    )


def goal() -> GoalAnswer:
    """The least L1 for a P99 TTFT of 2 s."""
    tried = (what_if("l1_tokens", 1.5, 2.2), what_if("l1_tokens", 2.0, 1.9))
    return GoalAnswer(
        "ttft_p99<2s", "l1_tokens", tried[1].changes[0], 2.0 * L1_TOKENS, tried[1].outcome, tried, "Twice the L1 is the least."
    )
