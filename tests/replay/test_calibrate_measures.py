"""A replay held against a capture: errors of curves and TTFT by hand, and what keeps the trust down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from analyzer.replay.calibrate import calibrate
from analyzer.replay.compared import curve_measure, retraction_measure, sampled, ttft_measures, ttft_spread, waits
from analyzer.replay.model import Calibration, Case, FittedStepTime, Observed, ObservedCurve, SettingRow
from analyzer.replay.outcome import outcome, percentile, ttft_s
from analyzer.replay.result import Curves, Replayed, Served
from analyzer.replay.run import replay
from analyzer.replay.settings import Vllm
from analyzer.replay.step_time import Pace, StepTime
from analyzer.replay.workload import Distinct, Request, Workload

STEP = StepTime(0.01, 0.0, 0.0)
SETTINGS = Vllm(num_blocks=101, max_running=2, block_tokens=10)


def _served(name: str, arrival: float, first: float | None, finish: float | None = None) -> Served:
    return Served(name, arrival, first_token_s=first, finish_s=finish)


def _replayed(
    requests: Sequence[Served] = (), *, runs: Sequence[tuple[float, float, int, int, float, float]] = (), retractions: int = 0
) -> Replayed:
    """`runs` are (start_s, end_s, running, waiting, used at start, at end) of ten steps without tokens."""
    curves = Curves()
    for start, end, running, waiting, begin, last in runs:
        for column, value in (
            ("start_s", start), ("end_s", end), ("steps", 10), ("running", running), ("waiting", waiting), ("used_tokens_start", begin),
            ("used_tokens_end", last), ("evictable_tokens", 0.0), ("retracted", 0), ("prefill_tokens", 0), ("decode_tokens", 0),
        ):  # fmt: skip
            getattr(curves, column).append(value)
    return Replayed(list(requests), curves, 10.0, 1000, retractions=retractions)


def _case(requests: Sequence[Request], observed: Observed, end_s: float = 10.0, **more: object) -> Case:
    case = Case(
        instance="s", engine="vllm", engine_version="0.32.0", workload=Workload(tuple(requests), Distinct(requests)), settings=SETTINGS,
        setting_rows=(), fitted=FittedStepTime(STEP, Pace(), 0.0, 10, ""), observed=observed, start=None, end_s=end_s,
    )  # fmt: skip
    return replace(case, **more)


def _observed(ttft: dict[str, float] | None = None, still: dict[str, float] | None = None, **more: object) -> Observed:
    return replace(Observed(None, None, None, None, ttft or {}, still or {}, "client", None, None), **more)


def test_a_curve_is_read_at_the_moments_it_was_observed_at() -> None:
    made = _replayed(
        [_served("a", 1.0, 1.5, 4.0), _served("b", 6.0, 6.5, 8.0)],
        runs=[(1.0, 2.0, 1, 0, 100.0, 200.0), (2.0, 4.0, 2, 3, 200.0, 400.0), (6.0, 8.0, 1, 0, 0.0, 100.0)],
    )
    at = np.array([0.5, 1.5, 3.0, 5.0, 7.0, 9.0])
    assert sampled("running", made, at).tolist() == [0, 1, 2, 0, 1, 0]
    assert sampled("waiting", made, at).tolist() == [0, 0, 3, 0, 0, 0]
    assert sampled("kv_usage", made, at).tolist() == pytest.approx([0, 0.15, 0.3, 0, 0.05, 0])


def test_between_two_steps_with_requests_in_hand_a_curve_stays_as_the_last_step_left_it() -> None:
    made = _replayed([_served("a", 0.0, 0.5, 9.0)], runs=[(0.0, 2.0, 1, 4, 0.0, 100.0), (5.0, 9.0, 1, 4, 100.0, 100.0)])
    assert sampled("waiting", made, np.array([3.0])).tolist() == [4]
    assert sampled("kv_usage", made, np.array([3.0])).tolist() == pytest.approx([0.1])


def test_the_error_of_a_curve_is_the_mean_one_over_the_observed_range() -> None:
    seen = ObservedCurve((0.5, 1.5, 2.5, 3.5, 4.5), (0.0, 10.0, 20.0, 10.0, 0.0), "metrics")
    made = _replayed(
        [_served("a", 0.0, 0.5, 10.0)], runs=[(t, t + 1.0, 1, w, 0.0, 0.0) for t, w in ((0.0, 0), (1.0, 12), (2.0, 20), (3.0, 9), (4.0, 3))]
    )
    found = curve_measure("waiting", seen, made)
    assert found.error == pytest.approx((2 + 1 + 3) / 5 / 20)
    assert found.bias == pytest.approx((2 - 1 + 3) / 5 / 20)
    assert found.fits


def test_a_flat_curve_is_measured_against_a_least_range() -> None:
    flat = ObservedCurve((0.5, 1.5, 2.5, 3.5, 4.5), (0.0,) * 5, "metrics")
    assert curve_measure("waiting", flat, _replayed()).error == 0
    one_too_many = _replayed([_served("a", 0.0, 0.5, 10.0)], runs=[(0.0, 1.0, 1, 1, 0.0, 0.0)])
    assert curve_measure("running", flat, one_too_many).error == pytest.approx(0.5)


def test_a_curve_of_few_points_tells_nothing() -> None:
    found = curve_measure("waiting", ObservedCurve((1.0, 2.0), (5.0, 5.0), "metrics"), _replayed())
    assert (found.error, found.fits, found.observed) == (None, None, None)


def test_retractions_are_a_share_of_the_observed_ones() -> None:
    assert retraction_measure(100, _replayed(retractions=81)).fits
    assert not retraction_measure(100, _replayed(retractions=79)).fits
    assert retraction_measure(0, _replayed(retractions=2)).fits
    assert retraction_measure(None, _replayed(retractions=2)).fits is None


def test_a_request_without_a_first_token_counts_with_its_wait_so_far_on_both_sides() -> None:
    requests = [Request(n, float(a), 10, 10, 10) for n, a in (("a", 0), ("b", 1), ("c", 2), ("d", 3))]
    case = _case(requests, _observed({"a": 1.0, "b": 4.0}, {"c": 8.0, "d": 7.0}))
    # the replay is late with b, and never comes to d
    made = _replayed([_served("a", 0.0, 1.0), _served("b", 1.0, 12.0), _served("c", 2.0, 9.5), _served("d", 3.0, None)])
    both = waits(case, made)
    assert both.observed == (1.0, 4.0, 8.0, 7.0)
    assert both.replayed == (1.0, 9.0, 7.5, 7.0)
    assert both.open == 3


def test_a_histogram_leaves_the_width_of_its_bucket_open() -> None:
    requests = [Request(str(n), 0.0, 10, 10, 10) for n in range(3)]
    seen = _observed(ttft_p50_s=1.5, ttft_p50_band_s=(1.0, 2.0), ttft_p99_s=1.5, ttft_p99_band_s=(1.0, 2.0))
    p50, p99 = ttft_measures(_case(requests, seen), _replayed([_served("0", 0.0, 1.0), _served("1", 0.0, 1.9), _served("2", 0.0, 4.0)]))
    assert (p50.error, p50.fits) == (0.0, True)
    assert p99.error == pytest.approx(1.0)


def test_in_a_stall_no_client_gets_a_first_token() -> None:
    fitted = FittedStepTime(STEP, Pace(), 0.0, 10, "", overhead_s=0.1, stalls=((2.0, 3.0),))
    assert ttft_s(_served("a", 1.0, 1.5), fitted) == pytest.approx(0.6)
    assert ttft_s(_served("a", 1.0, 2.5), fitted) == pytest.approx(4.1)
    assert ttft_s(_served("a", 1.0, 5.5), fitted) == pytest.approx(4.6)
    assert math.isinf(ttft_s(_served("a", 1.0, None), fitted))


def test_an_outcome_takes_all_requests() -> None:
    requests = [Request(str(n), 0.0, 10, 10, 10) for n in range(4)]
    made = _replayed(
        [_served("0", 0.0, 1.0, 2.0), _served("1", 0.0, 2.0, 3.0), _served("2", 0.0, None), Served("3", 0.0, refused="too long")],
        runs=[(0.0, 5.0, 2, 7, 0.0, 500.0)],
        retractions=3,
    )
    found = outcome(made, _case(requests, _observed()))
    assert (found.ttft_p50_s, found.max_waiting, found.retractions, found.finished, found.open, found.never) == (math.inf, 7, 3, 2, 1, 1)
    assert found.mean_kv_usage == pytest.approx(0.25 * 5 / 10)
    assert found.max_kv_usage == pytest.approx(0.5)
    assert percentile([], 0.5) is None


# -- trust


def _recorded() -> Case:
    """A capped server, observed as it is replayed."""
    requests = [Request(str(n), 0.3 * n, 40, 100, 100) for n in range(120)]
    case = _case(requests, _observed(), end_s=40.0)
    truth = replay(case.workload, SETTINGS, STEP, until_s=40.0)
    at = tuple(float(t) for t in range(1, 40))
    curves = {
        key: ObservedCurve(at, tuple(float(v) for v in sampled(key, truth, np.array(at))), "metrics")
        for key in ("running", "waiting", "kv_usage")
    }
    ttft = {r.id: r.first_token_s - r.arrival_s for r in truth.requests if r.first_token_s is not None}
    still = {r.id: 40.0 - r.arrival_s for r in truth.requests if r.first_token_s is None}
    return replace(case, observed=_observed(ttft, still, retractions=0, **curves))


@pytest.fixture(scope="module")
def recorded() -> Case:
    return _recorded()


def _slower(case: Case, times: float) -> Calibration:
    # two requests of one length fill and empty the pool in step: of that only the phase would be measured
    case = replace(case, observed=replace(case.observed, kv_usage=None))
    return calibrate(replace(case, fitted=replace(case.fitted, step_time=StepTime(STEP.base_s * times, 0.0, 0.0))))


def test_what_fits_in_all_is_good(recorded: Case) -> None:
    found = calibrate(recorded)
    assert found.trust == "good"
    assert all(m.error == pytest.approx(0.0) and m.fits for m in found.measures)
    assert any("without" not in r and "first token at the end" in r for r in found.reasons)


def test_errors_lower_the_trust(recorded: Case) -> None:
    assert _slower(recorded, 1.03).trust == "good"
    fair = _slower(recorded, 1.2)
    assert fair.trust == "fair"
    assert "TTFT P99 by" in fair.reasons[0]
    wrong = _slower(recorded, 2.0)
    assert wrong.trust == "low"
    assert "requests waiting by" in wrong.reasons[0]


def test_what_was_assumed_caps_the_trust_where_it_may_have_bound(recorded: Case) -> None:
    assert calibrate(replace(recorded, setting_rows=(SettingRow("max_running", "2", "assumed"),))).trust == "fair"
    assert calibrate(replace(recorded, setting_rows=(SettingRow("step_tokens", "2048", "assumed"),))).trust == "good"
    assert calibrate(replace(recorded, workload=replace(recorded.workload, approximate=True))).trust == "fair"
    found = calibrate(replace(recorded, uncovered=("speculative decoding",)))
    assert found.trust == "low"
    assert "not in the model: speculative decoding" in found.reasons


def test_nothing_observed_is_no_trust(recorded: Case) -> None:
    found = calibrate(replace(recorded, observed=_observed()))
    assert found.trust == "none"
    assert all(m.fits is None for m in found.measures)


def test_without_ttft_the_trust_is_at_most_fair(recorded: Case) -> None:
    assert calibrate(replace(recorded, observed=replace(recorded.observed, ttft_s={}, open_s={}))).trust == "fair"


def test_what_was_taken_over_from_the_capture_is_said(recorded: Case) -> None:
    fitted = replace(recorded.fitted, pace=Pace((0.0, 10.0, 20.0), (1.0, 3.0, 1.0)))
    assert any("25\u00a0% of the time" in r and "no prediction" in r for r in calibrate(replace(recorded, fitted=fitted)).reasons)


def test_a_server_that_thrashes_is_low() -> None:
    requests = [Request(str(n), 0.2 * n, 40, 160, 160) for n in range(60)]
    settings = replace(SETTINGS, max_running=64, num_blocks=41)
    case = _case(requests, _observed(), end_s=60.0, settings=settings)
    truth = replay(case.workload, settings, STEP, until_s=60.0)
    assert truth.retractions > 30
    found = calibrate(replace(case, observed=_observed(retractions=truth.retractions)))
    assert (found.trust, found.thrash) == ("low", True)
    assert any("fed on themselves" in r for r in found.reasons)


def test_the_spread_is_of_the_slower_requests_one_by_one() -> None:
    # the quicker half is far off, of the slower one nine of ten are within a fifth
    seen = {f"q{n}": 0.1 for n in range(10)} | {f"s{n}": 10.0 + n for n in range(10)}
    made = {f"q{n}": 1.0 for n in range(10)} | {f"s{n}": (10.0 + n) * (0.8 if n == 3 else 1.05) for n in range(10)}
    case = _case([Request(i, 0.0, 10, 10, 10) for i in seen], _observed(seen), end_s=30.0)
    replayed = _replayed([_served(i, 0.0, t) for i, t in made.items()])
    assert ttft_spread(case, replayed) == pytest.approx(0.2)
    assert ttft_spread(case, _replayed([_served("s1", 0.0, 11.0)])) is None


def test_against_a_histogram_the_spread_is_what_its_bucket_leaves_open() -> None:
    case = _case([Request("a", 0.0, 10, 10, 10)], _observed(ttft_p99_s=3.0, ttft_p99_band_s=(2.0, 8.0)), end_s=30.0)
    assert ttft_spread(case, _replayed([_served("a", 0.0, 4.0)])) == pytest.approx(1.0)
    assert ttft_spread(case, _replayed([_served("a", 0.0, 2.0)])) == pytest.approx(0.75)
