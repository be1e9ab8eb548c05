"""The checklist's answers, one module per question: each reads one row of its view and says what it means.

A module is named after its view; `answer(case)` gives `yes`, `no`, `partly`, or `cannot_tell` with what is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from analyzer.diagnosis.answers import (
    q01_ttft,
    q02_ttft_split,
    q03_l1_full,
    q04_queue_on_l1,
    q05_cap,
    q06_retraction,
    q07_demand,
    q08_l2,
    q09_cache,
    q10_prefill,
    q11_skew,
    q12_pd,
    q13_outside,
    q14_config,
)
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.model import Answered
from analyzer.diagnosis.questions import questions

_ANSWERS: dict[str, Callable[[Case], Answered]] = {
    "ttft_broke": q01_ttft.answer,
    "ttft_split": q02_ttft_split.answer,
    "l1_full": q03_l1_full.answer,
    "queue_on_l1": q04_queue_on_l1.answer,
    "queue_on_cap": q05_cap.answer,
    "retracted": q06_retraction.answer,
    "demand_over_ceiling": q07_demand.answer,
    "l2_bottleneck": q08_l2.answer,
    "cache_stopped_helping": q09_cache.answer,
    "prefill_bottleneck": q10_prefill.answer,
    "load_skewed": q11_skew.answer,
    "pd_queues": q12_pd.answer,
    "outside_scheduler": q13_outside.answer,
    "config_asked_for_it": q14_config.answer,
}


def answer_all(case: Case) -> tuple[Answered, ...]:
    """All fourteen questions in order."""
    return tuple(_ANSWERS[name](case) for name in questions())
