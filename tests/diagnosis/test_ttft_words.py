"""What is said of TTFT: its parts, slow first tokens without a queue, slow tokens, a pool that fills."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from analyzer.diagnosis.answers import q02_ttft_split
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.decode import decoded_slowly
from analyzer.diagnosis.causes.forecast import warnings
from analyzer.diagnosis.causes.quiet import nothing_broke
from analyzer.diagnosis.questions import questions
from analyzer.diagnosis.thresholds import thresholds

T0 = datetime(2026, 3, 10, 12, 0, 0, tzinfo=UTC)
T1 = T0 + timedelta(minutes=5)

BROKE = {
    "start_ts": T0, "end_ts": T1, "broke": True, "queue_broke": False, "ttft_broke": True, "throughput_broke": False, "ttft_n": 100,
    "ttft_p99_s": 9.0, "ttft_p99_at_least_s": 9.0, "ttft_p99_inside_s": 9.0, "ttft_usual_s": 0.3, "slow_n": 40, "errors_n": 0,
    "requests_n": 100, "waiting_peak": 0,
}  # fmt: skip
PARTS = ("queue", "prefill", "transfer", "l2_load", "recompute", "rest")


def split(**told: Any) -> dict[str, Any]:
    """A row of question 2: seconds by part, shares by the mean TTFT."""
    mean = told.get("ttft_mean_s")
    row: dict[str, Any] = {f"{part}_s": None for part in PARTS}
    row |= {
        "split_source": "histograms", "prefill_source": None, "requests_n": 100, "ttft_mean_s": None, "over_s": None,
        "recomputed_tokens": None, "queue_p50_s": None, "queue_p99_s": None,
    }  # fmt: skip
    row |= told
    return row | {f"{part}_share": row[f"{part}_s"] / mean if mean and row[f"{part}_s"] is not None else None for part in PARTS}


def case(row: dict[str, Any], ttft: dict[str, Any] | None = None, slow: dict[str, Any] | None = None) -> Case:
    """Of all views but these two nothing is known."""
    rows: dict[str, dict[str, Any]] = {q.view: defaultdict(lambda: None) for q in questions().values()}
    rows |= {"q01_ttft": ttft or BROKE, "q02_ttft_split": row}
    return Case(
        instance="i", incident=1, engine="vllm", reports=100, waiting_reports=100, running_reports=100, open_ended=False, idle=False,
        has_log=True, rows=rows, ends=(), silences=(), stalls=(), slow_decode=slow, limits=dict(thresholds()),
    )  # fmt: skip


def test_parts_that_account_for_ttft_are_a_full_answer() -> None:
    told = q02_ttft_split.answer(
        case(split(ttft_mean_s=31.0, queue_s=29.0, prefill_s=1.2, prefill_source="histograms", rest_s=0.8, over_s=0.0))
    )
    assert told.answer == "yes"
    assert "Of a mean TTFT of 31 s: 29 s in the queue (94 %), 1.2 s in prefill (4 %), 0.8 s for the rest (3 %)." in told.sentence


def test_a_large_rest_is_a_part_of_an_answer() -> None:
    told = q02_ttft_split.answer(case(split(ttft_mean_s=10.0, queue_s=4.0, rest_s=6.0, over_s=0.0)))
    assert told.answer == "partly"
    assert "6 s for prefill and the rest (60 %)" in told.sentence


def test_without_ttft_an_estimate_of_a_broken_queue_is_a_part_of_an_answer() -> None:
    row = split(split_source="estimate", queue_s=20.0, prefill_s=0.5, prefill_source="estimate")
    told = q02_ttft_split.answer(case(row, {**BROKE, "queue_broke": True}))
    assert told.answer == "partly"
    assert "20 s in the queue, at most 0.5 s in prefill" in told.sentence
    assert "estimate" in told.sentence
    assert q02_ttft_split.answer(case(row)).answer == "cannot_tell"


def test_an_estimate_above_what_was_measured_is_not_believed() -> None:
    told = q02_ttft_split.answer(case(split(split_source="estimate", ttft_mean_s=10.0, queue_s=20.0, rest_s=0.0, over_s=10.0)))
    assert told.answer == "cannot_tell"
    assert "more than the mean TTFT of 10 s" in told.sentence


def test_parts_that_add_up_to_more_are_told_to() -> None:
    told = q02_ttft_split.answer(case(split(ttft_mean_s=10.0, queue_s=12.0, rest_s=0.0, over_s=2.0)))
    assert "2 s more than the mean TTFT" in told.sentence


def test_loads_and_recompute_lie_inside_the_parts() -> None:
    row = split(ttft_mean_s=10.0, queue_s=9.5, rest_s=0.5, over_s=0.0, l2_load_s=0.4, recompute_s=0.3, recomputed_tokens=9000.0)
    told = q02_ttft_split.answer(case(row))
    assert "Loads from L2 took 0.4 s" in told.sentence
    assert "9,000 tokens" in told.sentence


@pytest.mark.parametrize(
    ("row", "cause", "confidence", "words"),
    [
        (split(ttft_mean_s=5.0, queue_s=0.1, prefill_s=4.5, prefill_source="histograms"), "prefill_bound", "medium", "90 % of the mean"),
        (split(ttft_mean_s=5.0, queue_s=0.1, prefill_s=3.5, prefill_source="requests"), "prefill_bound", "low", "into prefill"),
        (split(ttft_mean_s=5.0, queue_s=4.5), "insufficient_data", "low", "too short for the reports"),
        (
            split(ttft_mean_s=5.0, queue_s=0.1, prefill_s=0.2, prefill_source="histograms"),
            "insufficient_data",
            "low",
            "outside the scheduler",
        ),
        (split(ttft_mean_s=5.0, queue_s=0.1, prefill_s=4.5, prefill_source="estimate"), "insufficient_data", "low", "does not tell"),
        (split(split_source=None), "insufficient_data", "low", "does not tell"),
    ],
    ids=["prefill", "mostly prefill", "queue", "neither", "estimate only", "nothing"],
)
def test_slow_first_tokens_without_a_queue(row: dict[str, Any], cause: str, confidence: str, words: str) -> None:
    (found,) = nothing_broke(case(row))
    assert (found.cause, found.confidence) == (cause, confidence)
    assert words in found.sentence
    assert "40 first tokens came late, and the P99 was 30 times the usual 0.3 s" in found.sentence
    assert (found.window.start, found.window.end) == (T0, T1)


def slow(**told: Any) -> dict[str, Any]:
    row = {
        "slow_s": 120.0, "start_ts": T0, "end_ts": T1, "token_slow_s": 0.1, "token_base_s": 0.025, "running_slow": 80.0,
        "running_else": 12.0, "token_alike_s": None, "batch": None, "confirmed_by": None, "denied_by_reports": False,
    }  # fmt: skip
    return row | told


def test_slow_decode_is_surer_by_two_sources() -> None:
    (one,) = decoded_slowly(case(split(), slow=slow()))
    (two,) = decoded_slowly(case(split(), slow=slow(confirmed_by="client")))
    assert (one.confidence, two.confidence) == ("medium", "high")
    assert "as the client saw them" in two.sentence
    assert decoded_slowly(case(split(), slow=slow(slow_s=20.0))) == []


def test_slow_decode_says_what_else_was_different() -> None:
    (grew,) = decoded_slowly(case(split(), slow=slow(batch="grew")))
    (same,) = decoded_slowly(case(split(), slow=slow(batch="same", token_alike_s=0.03)))
    (slower,) = decoded_slowly(case(split(), slow=slow(batch="slower")))
    assert "The batch had grown from 12 requests" in grew.sentence
    assert "made no more tokens than before" in slower.sentence
    assert "Batches of that size took 30 ms per token at other times" in same.sentence


def forecast(**told: Any) -> dict[str, Any]:
    row = {
        "steady": True, "start_ts": T0, "end_ts": T1, "usage_last": 0.7, "rate_share_per_s": 0.0005, "time_left_s": 400.0,
        "time_left_low_s": 350.0, "time_left_high_s": 500.0,
    }  # fmt: skip
    return row | told


def test_a_pool_that_fills_is_a_warning_with_the_time_left() -> None:
    (told,) = warnings(forecast(), thresholds())
    assert "by 3 % of it a minute" in told
    assert "was 70 % used at the end" in told
    assert "full (used to 90 %) 6 min 40 s later (between 5 min 50 s and 8 min 20 s)" in told
    (told,) = warnings(forecast(time_left_high_s=None), thresholds())
    assert "at the soonest 5 min 50 s" in told


@pytest.mark.parametrize("row", [None, forecast(steady=False), forecast(time_left_s=1e6)], ids=["no usage", "not steady", "far away"])
def test_anything_else_is_no_warning(row: dict[str, Any] | None) -> None:
    assert warnings(row, thresholds()) == ()
