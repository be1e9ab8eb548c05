"""How far a what-if is to be relied on: its band, and the reasons not to."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from whatif_cases import SGLANG, calibrated, case, requests, with_settings

from analyzer.replay.knobs import parse
from analyzer.replay.model import Calibration, Case, ObservedCurve
from analyzer.replay.settings import L2
from analyzer.replay.step_time import Pace
from analyzer.replay.what_if import Measured, band, judged, measure, run


@pytest.mark.parametrize(
    ("p50", "p99", "low", "high"),
    [
        (0.0, 0.0, 10.0, 10.0),
        # a replay that is a fifth too low may be so here too
        (0.0, -0.2, 10.0, 12.5),
        (0.0, 0.25, 8.0, 10.0),
        # the error of the P50 widens it to both sides
        (0.1, 0.0, 10 / 1.1, 10 / 0.9),
        (-0.1, -0.2, 10.0, 10 / 0.7),
        (0.5, -0.6, 10.0, inf),
    ],
)
def test_the_band_holds_the_bias_and_the_error(p50: float, p99: float, low: float, high: float) -> None:
    assert band(calibrated(case(), p50=p50, p99=p99), 10.0) == (pytest.approx(low), pytest.approx(high))


def test_no_band_where_the_error_is_not_known() -> None:
    calibration = calibrated(case())
    assert band(replace(calibration, measures=()), 10.0) == (None, None)
    assert band(replace(calibration, measures=calibration.measures[:1]), 10.0) == (None, None)
    assert band(calibration, None) == (None, None)
    # one that never came stays so
    assert band(calibrated(case(), p99=-0.2), inf) == (inf, inf)


def _why_not(typed: str, of: Case, calibration: Calibration | None = None) -> str:
    found = run(of, calibration or calibrated(of), parse(typed))
    assert found.trusted == (not found.why_not)
    return found.why_not


def test_a_small_change_of_what_fits_is_trusted() -> None:
    assert _why_not("l1_tokens=x1.25", case()) == ""


@pytest.mark.parametrize(("trust", "found"), [("low", "does not fit"), ("none", "nothing was recorded")])
def test_nothing_is_trusted_where_the_replay_does_not_fit(trust: str, found: str) -> None:
    assert found in _why_not("l1_tokens=x1.25", case(), calibrated(case(), trust))


def test_single_slow_requests_widen_the_band() -> None:
    found = replace(calibrated(case(), p50=0.1), ttft_spread=0.25)
    assert band(found, 10.0) == (pytest.approx(8.0), pytest.approx(10 / 0.75))


@pytest.mark.parametrize(("thrash", "found"), [(True, "retractions fed on themselves"), (False, "not all in the model")])
def test_what_fits_and_is_low_is_not_said_to_miss(thrash: bool, found: str) -> None:
    fitting = replace(calibrated(case()), trust="low", thrash=thrash)
    assert not fitting.misses
    assert found in _why_not("l1_tokens=x1.25", case(), fitting)


def test_batches_larger_than_any_that_was_recorded() -> None:
    of = case()
    most = max(calibrated(of).unchanged.curves.running)
    assert f"{most} take was not recorded" in _why_not("l1_tokens=x4", of)
    # where the server was seen to run as many, the step time holds
    seen = replace(of, observed=replace(of.observed, running=ObservedCurve((0.0,), (30.0,), "a gauge")))
    assert _why_not("l1_tokens=x4", seen) == ""


def test_steps_that_prefill_more_than_any_that_was_recorded() -> None:
    # one prompt of 600 tokens alone: the chunk bounds the step
    of = with_settings(case(given=requests(3, gap_s=5.0, prompt=600)), chunked_prefill_tokens=128)
    assert "how long more than 128 take" in _why_not("chunked_prefill_tokens=x4", of)
    assert _why_not("chunked_prefill_tokens=x2", of) == ""


def test_an_l2_whose_speed_is_assumed() -> None:
    """Requests that share a prefix which L1 cannot keep: what is loaded depends on how fast."""
    sharing = tuple(replace(r, prompt_tokens=900, prefix=((f"p{i % 3}", 800),)) for i, r in enumerate(requests(12, gap_s=3.0)))
    of = with_settings(case(given=sharing), max_running=1)
    assert "is assumed" in _why_not("l2_tokens=16k", of)
    assert "is assumed" not in _why_not("l2_tokens=x2", with_settings(of, l2=L2(16384, 100_000.0, 16)))
    # what is not loaded needs no time
    assert _why_not("l2_tokens=16k", case()) == ""


def test_prefixes_that_nobody_told() -> None:
    off = with_settings(case(), prefix_caching=False)
    assert "share a prefix" in _why_not("prefix_sharing=on", off)
    assert _why_not("prefix_sharing=off", case()) == ""


@pytest.mark.parametrize("pace", [Pace((0.0, 2.0), (1.0, 3.0)), Pace(pauses=((1.0, 0.5),))])
def test_another_rate_meets_the_recorded_pace_elsewhere(pace: Pace) -> None:
    of = replace(case(), fitted=replace(case().fitted, pace=pace))
    assert "speed changed" in _why_not("arrival_rate=x0.9", of)
    assert _why_not("arrival_rate=x0.9", case()) == ""


def test_retractions_that_feed_on_themselves() -> None:
    of = case()
    calm = measure(of, parse("l1_tokens=x1.1"))
    calibration = calibrated(of)
    wild = Measured(calm.outcome, calm.most_running, calm.most_prefill_tokens, thrash=True)
    assert "feed on themselves" in judged(of, calibration, parse("l1_tokens=x1.1"), wild).why_not
    # where the recorded incident did so too, the calibration has told what that is worth
    assert judged(of, replace(calibration, thrash=True), parse("l1_tokens=x1.1"), wild).trusted


def test_a_replay_that_does_not_come_to_an_end_is_stopped() -> None:
    """One at a time, each for minutes, in the eighty minutes that the least load is given."""
    of = replace(
        case(given=requests(30, gap_s=0.5, output=60_000, asks=60_000)), settings=replace(SGLANG, l1_tokens=65536, context_tokens=131072)
    )
    found = measure(of, parse("max_running=1"))
    assert found.outcome.open > 20
    assert found.outcome.ttft_p99_s == inf


def test_requests_that_come_all_at_once_are_served_to_the_end() -> None:
    of = case(given=requests(50, gap_s=0.0, output=200, asks=200))
    found = measure(of, ())
    assert (found.outcome.open, found.outcome.finished) == (0, 50)
