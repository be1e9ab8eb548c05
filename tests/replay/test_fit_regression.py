"""Coefficients of a step from rows of sums: recovered, not moved by stalls, and no more of them than the rows tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from analyzer.replay.fit.prefill import with_prefill
from analyzer.replay.fit.regression import fit
from analyzer.replay.fit.work import Work
from analyzer.replay.step_time import StepTime

TRUE = np.array([0.007, 0.00002, 0.0002])


def _rows(seed: int, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    steps = rng.integers(50, 200, n).astype(float)
    requests = steps * rng.integers(1, 9, n)
    terms = np.stack([steps, requests + rng.integers(0, 20_000, n), requests], axis=1)
    return terms, terms @ TRUE


def test_exact_rows_give_the_coefficients() -> None:
    terms, seconds = _rows(1)
    found = fit(terms, seconds, 0, (2, 1))
    assert found is not None
    assert found.coefficients == pytest.approx(TRUE, rel=1e-6)
    assert found.residual_share < 1e-9


def test_noise_and_stalls_move_them_little() -> None:
    terms, seconds = _rows(2, 200)
    rng = np.random.default_rng(3)
    seconds = seconds * np.exp(rng.normal(0, 0.03, len(seconds)))
    seconds[::7] *= 20
    found = fit(terms, seconds, 0, (2, 1))
    assert found is not None
    assert found.coefficients[0] == pytest.approx(TRUE[0], rel=0.05)
    assert found.coefficients[1] == pytest.approx(TRUE[1], rel=0.1)
    assert 0.01 < found.residual_share < 0.1


def test_a_term_that_the_rows_do_not_tell_apart_is_left_out() -> None:
    steps = np.arange(50.0, 90.0)
    # two requests in every step: what a step costs and what a request costs is one number
    terms = np.stack([steps, 2 * steps, 2 * steps], axis=1)
    found = fit(terms, terms @ TRUE, 0, (2, 1))
    assert found is not None
    assert np.count_nonzero(found.coefficients) == 1
    assert found.coefficients[0] == pytest.approx(TRUE[0] + 2 * (TRUE[1] + TRUE[2]))


def test_a_negative_coefficient_is_no_answer() -> None:
    steps = np.arange(10.0, 60.0)
    other = np.linspace(100.0, 10.0, 50)
    terms = np.stack([steps, other, other], axis=1)
    found = fit(terms, 0.02 * steps - 0.001 * other + 0.2, 0, (1,))
    assert found is not None
    assert np.all(found.coefficients >= 0)


def test_rows_without_the_first_term_fit_nothing() -> None:
    terms = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 2.0]])
    assert fit(terms, np.ones(3), 0, ()) is None


def _felt(tokens: float, seconds: float) -> Work:
    return Work(0.0, seconds, seconds, 100.0, 100.0 + tokens, 100.0, 1.0)


def test_what_prefill_costs_is_read_off_requests_that_others_held_up() -> None:
    plain = StepTime(0.02, 0.0, 0.0003)
    each = 0.0001
    held_up = [_felt(t, 100 * 0.02 + 100 * 0.0003 + t * each) for t in range(100, 2100, 100)]
    found = with_prefill(plain, held_up)
    assert found.token_s == pytest.approx(each)
    # a decoding request is a token as well
    assert found.request_s == pytest.approx(0.0002)
    assert with_prefill(plain, held_up[:5]) == plain
    rng = np.random.default_rng(4)
    assert with_prefill(plain, [_felt(50.0, 2.03 + rng.normal(0, 0.2)) for _ in range(40)]) == plain
