"""`forecast`: whether the pool is filling while nothing waits, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sql_case import database, fact, report, row_of


def usage(told: Callable[[int], float], end: int = 1200, **columns: Any) -> list[dict[str, Any]]:
    return [report(t, running=8, waiting=0, kv_usage=told(t), **columns) for t in range(0, end, 10)]


def test_a_steady_rise_is_told_with_the_time_left() -> None:
    """From 0.10 at 0 s to 0.70 at 1200 s: 0.0005 a second, so 0.9 is 400 s after the end."""
    row = row_of(database(scheduler=usage(lambda t: 0.1 + t / 2000), facts=[fact("kv_capacity_tokens", 100_000)]), "forecast")
    assert row["steady"]
    assert row["rate_share_per_s"] == pytest.approx(0.0005, rel=0.01)
    assert row["rate_tokens_per_s"] == pytest.approx(50, rel=0.01)
    assert row["time_left_s"] == pytest.approx(400, rel=0.05)
    assert row["time_left_low_s"] <= row["time_left_s"] <= row["time_left_high_s"]


def test_a_few_odd_reports_do_not_move_the_rate() -> None:
    def told(t: int) -> float:
        return 0.1 + t / 2000 + (0.15 if t % 200 == 0 else 0.0)

    row = row_of(database(scheduler=usage(told)), "forecast")
    assert row["steady"]
    assert row["rate_share_per_s"] == pytest.approx(0.0005, rel=0.05)
    assert row["rate_tokens_per_s"] is None


@pytest.mark.parametrize(
    "told",
    [
        lambda t: 0.4,
        lambda t: 0.7 - t / 2000,
        lambda t: 0.4 + 0.2 * ((t // 100) % 2),
        # flattens out: it has reached its level
        lambda t: min(0.6, 0.1 + t / 1800),
        # rises by less than a rounded usage can tell
        lambda t: 0.4 + t / 100_000,
        # full by now
        lambda t: min(0.97, 0.1 + t / 1200),
    ],
    ids=["level", "falls", "oscillates", "flattens", "by hundredths", "full"],
)
def test_anything_else_is_no_steady_rise(told: Callable[[int], float]) -> None:
    assert not row_of(database(scheduler=usage(told)), "forecast")["steady"]


def test_a_queue_is_an_incident_and_no_forecast() -> None:
    waiting = [{**row, "waiting": 3 if n > 110 else 0} for n, row in enumerate(usage(lambda t: 0.1 + t / 2000))]
    assert not row_of(database(scheduler=waiting), "forecast")["steady"]


def test_a_short_capture_tells_nothing() -> None:
    assert not row_of(database(scheduler=usage(lambda t: 0.1 + t / 400, end=200)), "forecast")["steady"]
    assert not row_of(database(scheduler=[report(0, running=1, kv_usage=0.1)]), "forecast")["steady"]
