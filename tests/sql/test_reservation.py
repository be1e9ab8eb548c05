"""`reservation`: what admission can have set aside, as bounds."""

from __future__ import annotations

from typing import Any

import pytest
from sql_case import database, event, fact, metrics, report, request, row_of, series, stats

POOL = [fact("kv_capacity_tokens", 10_000), fact("arg.schedule_conservativeness", 1.0)]


def decode(t: float, **columns: Any) -> dict[str, Any]:
    return report(t, **{"running": 10, "waiting": 0, "kv_usage": 0.3, "gen_tps": 100.0, **columns})


def last(lines: list[dict[str, Any]], **tables: Any) -> dict[str, Any]:
    """The bounds at the last report, the only one with requests waiting."""
    return row_of(database(scheduler=[*lines[:-1], {**lines[-1], "waiting": 5}], **{"facts": POOL, **tables}), "reservation")


def asked(max_new: int, output: int) -> list[dict[str, Any]]:
    return [request(n, prompt_tokens=100, output_tokens=output, max_new_tokens=max_new, ttft_s=1.0) for n in range(5)]


def test_without_recorded_requests_a_running_one_may_still_generate_nothing_or_the_most() -> None:
    row = last([decode(t) for t in range(3)])
    assert (row["free_tokens"], row["reserved_low_tokens"], row["left_high_tokens"]) == (7000, 0, 7000)
    # ten at 4096 tokens and a ratio of 0.7, less two decode lines of forty steps
    assert 0.58 < row["ratio_high"] < 0.7
    assert row["reserved_high_tokens"] == pytest.approx(10 * row["ratio_high"] * 4096, rel=1e-3)
    assert row["refused"] is None


def test_recorded_requests_bound_what_is_left_to_generate() -> None:
    row = last([decode(t) for t in range(60)], requests=asked(2000, 500))
    # 60 lines are 2,400 steps: the ratio is at its floor
    assert (row["ratio_low"], row["ratio_high"]) == (0.098, 0.098)
    assert (row["reserved_low_tokens"], row["reserved_high_tokens"]) == (1470, 1960)
    assert (row["left_low_tokens"], row["left_high_tokens"]) == (5040, 5530)


def test_a_retraction_sets_the_ratio_anew() -> None:
    lines = [decode(t) for t in range(60)]
    row = last(lines, events=[event(58.5, "retraction", requests=1, ratio_before=0.1, ratio_after=0.9)], requests=asked(2000, 500))
    assert 0.75 < row["ratio_low"] < row["ratio_high"] == 0.9
    assert row["refused"] is True  # 13,500 and more were set aside, of 7,000


def test_the_ratio_of_the_metrics_is_taken_as_it_is() -> None:
    told = metrics(
        series("new_token_ratio", [(0, 0.4), (10, 0.4)]),
        series("running_requests", [(0, 10), (10, 10)]),
        series("waiting_requests", [(0, 0), (10, 5)]),
        series("kv_usage", [(0, 0.3), (10, 0.3)]),
    )
    row = row_of(database(facts=POOL, **told), "reservation")
    assert (row["ratio_low"], row["ratio_high"]) == (0.4, 0.4)


def test_admission_that_could_have_taken_all_that_wait_was_not_refused_by_the_budget() -> None:
    lines = [decode(t, running=1, kv_usage=0.01) for t in range(60)]
    prefills = [report(-60 + t, kind="prefill", running=1, waiting=0, new_seqs=1, new_tokens=100, kv_usage=0.01) for t in range(30)]
    assert last([*prefills, *lines], requests=asked(200, 100))["refused"] is False
    assert last([*prefills, *lines], requests=asked(4000, 100))["refused"] is None


def test_conservativeness_moves_the_start_and_the_floor() -> None:
    facts = [fact("kv_capacity_tokens", 10_000), fact("arg.schedule_conservativeness", 0.5)]
    assert last([decode(t) for t in range(60)], facts=facts)["ratio_high"] == 0.049


def test_of_vllm_it_is_the_watermark() -> None:
    pool = [fact("num_gpu_blocks", 100, engine="vllm"), fact("arg.watermark", 0.25, engine="vllm")]
    row = row_of(database(scheduler=[stats(0, running=4, waiting=5, kv_usage=0.5)], facts=pool), "reservation")
    assert (row["reserved_low_tokens"], row["reserved_high_tokens"], row["left_low_tokens"], row["ratio_low"]) == (400, 400, 400, None)
    v0 = row_of(database(scheduler=[stats(0, running=4, waiting=5, swapped=0, kv_usage=0.5)], facts=pool[:1]), "reservation")
    assert v0["reserved_low_tokens"] == 16
