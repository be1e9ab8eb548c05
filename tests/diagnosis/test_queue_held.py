"""What held a queue: the words and the confidence that go with pool, reservation, cap and prefill."""

from __future__ import annotations

from diagnosing import answer, causes, diagnosis_of
from hard_cases import decode, prefill, retract, sg_start, stats, vl_start


def test_a_batch_that_stays_one_below_the_cap_is_at_it() -> None:
    found = diagnosis_of(sg_start(-80, cap=8) + "".join(decode(t, 7, 0.1, 20, 400) for t in range(0, 150, 3)))
    assert (found.verdict.cause, found.verdict.confidence) == ("cap_bound", "medium")  # the version is not known
    assert "stood at the cap of 8" in found.verdict.sentence


def test_metrics_of_a_cap_do_not_look_like_prefill() -> None:
    """More prompt than generated tokens, but far fewer than a step takes."""
    log = "".join(stats(t, 12 + t // 10 % 4, 30, 0.1, 900, 300) for t in range(0, 200, 10))
    assert "prefill_bound" not in causes(diagnosis_of(log))


def test_steps_full_of_prompt_tokens_are_prefill() -> None:
    log = vl_start(-80, cap=256, budget=2048) + "".join(stats(t, 30 + t // 10 % 9, 40, 0.2, 9000, 100) for t in range(0, 200, 10))
    found = diagnosis_of(log)
    assert (found.verdict.cause, found.verdict.confidence) == ("prefill_bound", "medium")  # the queue is still there at the end
    assert answer(found, "prefill_bottleneck") == "yes"


def test_the_reservation_is_told_as_an_estimate_with_bounds() -> None:
    log = sg_start(-80, capacity=100_000, cap=64, schedule_conservativeness=1.0)
    log += "".join(prefill(t, 1, 300, 0.02, 1, 0) for t in range(-20, 0))
    log += "".join(decode(t, 20 + t // 3 % 6, 0.2, 30, 400) for t in range(0, 150, 3)) + decode(153, 20, 0.2, 0, 400)
    found = diagnosis_of(log)
    assert found.verdict.cause == "reservation_bound"
    assert "between 0 and" in found.verdict.sentence
    assert "(estimate)" in found.verdict.sentence
    told = next(a for a in found.checklist if a.id == "queue_on_l1")
    assert {e.name for e in told.evidence} >= {"reserved tokens, at least (estimate)", "reserved tokens, at most (estimate)"}


def test_retractions_that_go_round_in_circles_are_named() -> None:
    log = sg_start(-80, cap=64)
    for t in range(0, 200, 10):
        log += "".join(decode(t + k, 20 - t // 10 % 3, 0.97, 20, 400) for k in (0, 3, 6))
        log += retract(t + 7, before=0.1, after=0.2 + t / 1000) + prefill(t + 8, 1, 3000, 0.93, 19, 20)
    found = diagnosis_of(log)
    assert found.verdict.cause == "l1_bound"
    assert "by turns" in found.verdict.sentence
    assert "were computed again because of that" in found.verdict.sentence


def test_tokens_that_are_slow_at_a_full_pool_without_a_queue() -> None:
    roomy = "".join(decode(t, 4, 0.5, 0, 400) for t in range(0, 60, 3))
    slow = "".join(decode(t, 4, 0.98, 0, 40) for t in range(60, 200, 3))
    found = diagnosis_of(sg_start(-80) + roomy + slow)
    assert (found.verdict.cause, found.verdict.confidence) == ("l1_bound", "low")
    quick = "".join(decode(t, 4, 0.98, 0, 400) for t in range(60, 200, 3))
    assert causes(diagnosis_of(sg_start(-80) + roomy + quick)) == ["none"]
