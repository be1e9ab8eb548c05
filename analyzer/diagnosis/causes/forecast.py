"""A pool that fills while nothing waits yet: no cause of anything so far, but a warning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analyzer.diagnosis import say
from analyzer.language import _


def warnings(forecast: Mapping[str, Any] | None, limits: Mapping[str, float]) -> tuple[str, ...]:
    """What is about to go wrong at the end of a capture, from the instance's row of the view `forecast`; mostly nothing."""
    if forecast is None or not forecast["steady"] or forecast["time_left_s"] > limits["forecast_left_s"]:
        return ()
    latest = forecast["time_left_high_s"]
    fields = {
        "since": say.span(forecast["start_ts"], forecast["end_ts"]),
        "used": say.share(forecast["usage_last"]),
        "rate": say.share(forecast["rate_share_per_s"] * 60),
        "left": say.seconds(forecast["time_left_s"]),
        "low": say.seconds(forecast["time_left_low_s"]),
        "high": say.seconds(latest),
        "full": say.share(limits["full_usage"]),
    }
    if latest is None:
        return (
            _(
                "The KV pool was filling steadily {since}, by {rate} of it a minute, and was {used} used at the end, with nothing waiting "
                "yet. Going on like that it is full (used to {full}) {left} later, at the soonest {low}.",
                **fields,
            ),
        )
    if fields["low"] == fields["high"]:
        return (
            _(
                "The KV pool was filling steadily {since}, by {rate} of it a minute, and was {used} used at the end, with nothing waiting "
                "yet. Going on like that it is full (used to {full}) {left} later.",
                **fields,
            ),
        )
    return (
        _(
            "The KV pool was filling steadily {since}, by {rate} of it a minute, and was {used} used at the end, with nothing waiting yet. "
            "Going on like that it is full (used to {full}) {left} later (between {low} and {high}).",
            **fields,
        ),
    )
