"""Pace and pauses: as they were, none where the host was even, and of a pause only what the engine's counters leave room for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analyzer.replay.fit.begun import prefilled_between
from analyzer.replay.fit.pace import pace_of, slowed_share
from analyzer.replay.fit.pauses import Pauses, find_pauses
from analyzer.replay.fit.seen import Seen, Spans
from analyzer.replay.fit.tuned import tuned
from analyzer.replay.fit.work import Work
from analyzer.replay.model import ObservedCurve
from analyzer.replay.result import Replayed
from analyzer.replay.run import replay
from analyzer.replay.settings import Vllm
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.workload import Distinct, Request, Workload

STEP = StepTime(0.01, 0.0, 0.0)
SETTINGS = Vllm(num_blocks=1000, max_running=8)
EMPTY = ObservedCurve(tuple(float(t) for t in range(-1, 40)), (0.0,) * 41, "metrics")


def _row(at: float, steps: float, busy: float = 1.0) -> Work:
    return Work(at, at + 1.0, busy, steps, steps, steps)


def _seen(name: str, arrival: float, ttft: float, length: float = 1.0, gap: float | None = 0.02) -> Seen:
    return Seen(name, arrival, arrival + ttft, arrival + ttft + length, gap, 100, 100, 0, None, "client")


def _pauses(requests: list[Seen], rows: list[Work], waiting: ObservedCurve = EMPTY, *, retracted: bool = False) -> Pauses:
    return find_pauses(requests, lambda r, tokens: 0.01, 0.01, SETTINGS, waiting, EMPTY, rows, retracted, 40.0)


def test_an_even_host_has_no_pace() -> None:
    rng = np.random.default_rng(1)
    rows = [_row(t, 100 * (1 + rng.normal(0, 0.03))) for t in range(30)]
    assert pace_of(STEP, rows, ()) == Pace()


def test_each_slow_stretch_is_as_slow_as_it_was() -> None:
    steps = [100.0] * 10 + [40.0] * 10 + [100.0] * 10
    found = pace_of(STEP, [_row(t, n) for t, n in enumerate(steps)], ())
    factors = {round(at): f for at, f in zip(found.at_s, found.slower, strict=True)}
    assert factors[5] == pytest.approx(1.0)
    assert factors[15] == pytest.approx(2.5)
    assert factors[30] == 1.0
    assert slowed_share(found, 30.0, 1.5) == pytest.approx(1 / 3)


def test_what_was_counted_late_is_one_piece_with_what_made_up_for_it() -> None:
    found = pace_of(STEP, [_row(0, 2), _row(1, 198), *(_row(t, 50) for t in range(2, 12))], ())
    assert found.at_s[:2] == (0.0, 2.0)
    assert found.slower[:2] == pytest.approx((1.0, 2.0))


def test_a_pause_is_kept_as_far_as_the_counters_leave_room() -> None:
    rows = [_row(t, 100) for t in range(10)]
    rows[3] = _row(3, 60)
    # of the 0.8 s at 3.1 the engine stood still for 0.4; at 6.1 it went on all the while
    found = pace_of(STEP, rows, ((3.1, 0.8), (6.1, 0.8)))
    assert [at for at, _ in found.pauses] == [3.1]
    assert found.pauses[0][1] == pytest.approx(0.4)
    assert found.slower == (1.0,)


def test_a_late_first_token_with_nothing_in_the_way_is_a_stall() -> None:
    requests = [_seen(str(n), n, 0.03) for n in range(20)]
    requests[10] = _seen("10", 10.0, 0.73)
    found = _pauses(requests, [])
    assert found.overhead_s == pytest.approx(0.02)
    ((start, length),) = found.stalls
    assert start == pytest.approx(10.0)
    assert length == pytest.approx(0.71)


def test_even_first_tokens_tell_of_no_pause() -> None:
    rng = np.random.default_rng(2)
    requests = [_seen(str(n), n / 2, 0.03 + 0.02 * rng.random(), gap=0.03) for n in range(60)]
    found = _pauses(requests, [_row(t, 100) for t in range(30)])
    assert found.stalls == found.pauses == ()


def test_a_late_first_token_of_a_request_that_queued_is_no_stall() -> None:
    requests = [_seen(str(n), n, 0.03) for n in range(20)]
    requests[10] = _seen("10", 10.0, 0.73)
    queue = ObservedCurve(EMPTY.at_s, tuple(1.0 if 9.5 < t < 12 else 0.0 for t in EMPTY.at_s), "metrics")
    assert _pauses(requests, [], queue).stalls == ()


def test_a_long_gap_lies_where_the_engine_counted_nothing_and_where_all_saw_it() -> None:
    requests = [_seen("a", 2.0, 0.03, length=6.0, gap=0.9), _seen("b", 3.0, 0.03, length=9.0, gap=0.9)]
    rows = [_row(t, 0.0 if t == 5 else 100.0) for t in range(12)]
    ((start, length),) = _pauses(requests, rows).pauses
    assert length == 0.9
    assert 4.9 <= start <= 5.3
    # of a request that was thrown out a gap tells nothing
    assert _pauses(requests, rows, retracted=True).pauses == ()


def test_spans_overlap() -> None:
    spans = Spans([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    assert spans.any(0.0, 10.0) == pytest.approx(4.0)
    assert spans.sum(0.0, 10.0) == pytest.approx(5.0)
    assert spans.any(1.5, 5.5) == pytest.approx(2.0)
    assert Spans([]).any(0.0, 1.0) == 0.0


def test_prompts_that_were_begun_at_a_scrape_count_as_far_as_they_had_come() -> None:
    # 1000 tokens a second, told when prompts of 2000 are done; the pool holds what is begun
    usage = [0.0, 0.1, 0.0, 0.1, 0.0]
    assert prefilled_between([0, 2000, 0, 2000], [0, 1, 2, 3, 4], usage, 10_000, []) == pytest.approx([1000, 1000, 1000, 1000])
    # done just then: neither told yet nor in the pool any more
    assert prefilled_between([0, 0, 2000, 2000], [0, 1, 2, 3, 4], usage, 10_000, []) == pytest.approx([1000, 0, 2000, 1000])


def test_tuning_makes_up_for_what_the_edges_of_pieces_lose() -> None:
    requests = tuple(Request(str(n), 0.0, 512, 1, 1) for n in range(200))
    workload = Workload(requests, Distinct(requests))
    settings = Vllm(num_blocks=4000, max_running=8, step_tokens=128)
    step = StepTime(0.0, 0.02 / 128, 0.0)
    true = Pace(tuple(float(t) for t in range(30)), tuple(2.0 if t % 3 == 1 else 0.6 for t in range(30)))
    made = replay(workload, settings, step, pace=true, until_s=14.0)
    # what a scraper would have counted of it
    edges = range(15)
    ends, tokens = np.array(made.curves.end_s), np.array(made.curves.prefill_tokens)
    done = [float(tokens[ends <= t].sum()) for t in edges]
    rows = [Work(t, t + 1.0, 1.0, (b - a) / 128, b - a, (b - a) / 128) for t, a, b in zip(edges, done, done[1:], strict=False)]
    raw = pace_of(step, rows, ())
    found, _unchanged = tuned(raw, step, workload, settings, rows, 14.0)

    def off(pace: Pace) -> float:
        again = replay(workload, settings, step, pace=pace, until_s=14.0)
        at, work = np.array(again.curves.end_s), np.array(again.curves.prefill_tokens)
        return max(abs(float(work[at <= t].sum()) - d) for t, d in zip(edges, done, strict=True) if t in raw.at_s)

    assert off(found) <= off(raw)
    assert off(found) <= 2 * 128


def _second_by_second(made: Replayed, workload: Workload, seconds: int) -> list[Work]:
    """What a scrape each second tells of a replay: steps, tokens made, and each prompt once, when it is done."""
    c = made.curves
    prompts = {r.id: r.prompt_tokens for r in workload.requests}
    firsts = np.array([(r.first_token_s, prompts[r.id] - r.cached_tokens) for r in made.requests if r.first_token_s is not None])
    ends, steps = np.array(c.end_s), np.array(c.steps, dtype=float)
    tokens, batch = np.array(c.decode_tokens, dtype=float), np.array(c.running) * steps
    out = []
    for t in range(seconds):
        inside = (ends > t) & (ends <= t + 1)
        done = float(firsts[(firsts[:, 0] > t) & (firsts[:, 0] <= t + 1), 1].sum())
        out.append(Work(t, t + 1.0, 1.0, float(steps[inside].sum()), float(tokens[inside].sum()) + done, float(batch[inside].sum())))
    return out


def test_prompts_that_are_computed_again_do_not_slow_the_replay_twice() -> None:
    requests = tuple(Request(str(n), 0.1 * n, 200, 150, 150) for n in range(80))
    workload = Workload(requests, Distinct(requests))
    settings = Vllm(num_blocks=65, max_running=64, block_tokens=16, prefix_caching=False)
    step = StepTime(0.004, 0.0005, 0.0)
    made = replay(workload, settings, step, until_s=40.0)
    assert made.retractions > 20
    rows = _second_by_second(made, workload, 40)
    raw = pace_of(step, rows, ())
    _found, again = tuned(raw, step, workload, settings, rows, 40.0)
    assert again is not None
    finished = sum(r.finish_s is not None for r in made.requests)
    by_raw = replay(workload, settings, step, pace=raw, until_s=40.0)
    assert sum(r.finish_s is not None for r in by_raw.requests) < 0.9 * finished
    assert sum(r.finish_s is not None for r in again.requests) == pytest.approx(finished, rel=0.06)


def test_under_light_load_the_pace_stays_near_what_was_measured() -> None:
    rng = np.random.default_rng(3)
    requests = tuple(Request(str(n), float(at), 500, 60, 60) for n, at in enumerate(np.sort(rng.uniform(0, 50, 30))))
    workload = Workload(requests, Distinct(requests))
    step = StepTime(0.006, 0.0, 0.0)
    # the server's clock is 0.4 s ahead: work that came in one second is counted in another
    late = tuple(replace(r, arrival_s=r.arrival_s + 0.4) for r in requests)
    true = Pace(tuple(float(t) for t in range(50)), tuple(0.7 if t % 4 else 1.6 for t in range(50)))
    made = replay(Workload(late, Distinct(late)), SETTINGS, step, pace=true, until_s=50.0)
    rows = [r for r in _second_by_second(made, workload, 50) if r.steps]
    raw = pace_of(step, rows, ())
    found, _made = tuned(raw, step, workload, SETTINGS, rows, 50.0)
    assert found.at_s == raw.at_s
    assert all(0.5 - 1e-9 <= f / r <= 2.0 + 1e-9 for f, r in zip(found.slower, raw.slower, strict=True))
