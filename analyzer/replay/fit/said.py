"""How a fit is told in words."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.language import _, ngettext
from analyzer.replay.fit.pace import slowed_share
from analyzer.replay.settings import Settings, Sglang
from analyzer.replay.step_time import Pace


def pace_said(pace: Pace, stalls: Sequence[tuple[float, float]], end_s: float) -> list[str]:
    """Sentences on what of the host was taken over from the capture."""
    said = []
    if len(pace.slower) > 1:
        share = slowed_share(pace, end_s, 1.5)
        said.append(
            _("The host's speed moved: {share:.0%} of the time steps took more than 1.5 times as long as the model says.", share=share)
        )
    if pace.pauses:
        said.append(
            ngettext(
                "The engine stood still {n} time, {seconds:.1f} s in all; this is taken over from the capture.",
                "The engine stood still {n} times, {seconds:.1f} s in all; this is taken over from the capture.",
                len(pace.pauses),
                n=len(pace.pauses),
                seconds=sum(s for _at, s in pace.pauses),
            )
        )
    if stalls:
        said.append(
            ngettext(
                "{n} time clients got no first token for {seconds:.1f} s with nothing in the way; this is taken over too.",
                "{n} times clients got no first token, for {seconds:.1f} s in all, with nothing in the way; this is taken over too.",
                len(stalls),
                n=len(stalls),
                seconds=sum(s for _at, s in stalls),
            )
        )
    return said


def hint(settings: Settings) -> str:
    """What to record for a fit."""
    if isinstance(settings, Sglang):
        return _("keep the log's Decode batch lines, or client records with first token and end, or give --step-time FILE")
    return _("scrape the metrics endpoint every few seconds, or keep client records with first token and end, or give --step-time FILE")
