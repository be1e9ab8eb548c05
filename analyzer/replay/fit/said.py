"""How a fit is told in words."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.language import _, ngettext
from analyzer.replay.fit.pace import slowed_share
from analyzer.replay.model import NoReplay
from analyzer.replay.settings import Settings, Sglang
from analyzer.replay.step_time import Pace
from analyzer.report import fmt


def pace_said(pace: Pace, stalls: Sequence[tuple[float, float]], end_s: float) -> list[str]:
    """Sentences on what of the host was taken over from the capture."""
    said = []
    if len(pace.slower) > 1:
        share = fmt.share(round(slowed_share(pace, end_s, 1.5), 2))
        said.append(_("The host's speed moved: {share} of the time steps took more than 1.5 times as long as the model says.", share=share))
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


def batches_said(least: float, most: float) -> str:
    """The sizes of batches that a fit saw."""
    low, high = max(1, round(least)), max(1, round(most))
    if low == high:
        return ngettext("All batches were of {n} request.", "All batches were of {n} requests.", low, n=low)
    return _("Batches were of {low} to {high} requests.", low=low, high=high)


def untold(instance: str, settings: Settings, *, scraped: bool) -> NoReplay:
    """Why nothing can be fitted. `scraped`: the engine's counters are there, and do not tell its steps."""
    if scraped and not isinstance(settings, Sglang):
        return NoReplay(
            instance,
            _("how long a step takes cannot be told: vLLM counts no step that ends no prompt, and most took part of a prompt only"),
            _("keep the log's start-up lines (max_num_batched_tokens): they tell how many steps a prompt takes; or give --step-time FILE"),
        )
    return NoReplay(instance, _("nothing in the capture tells how long a step takes"), _hint(settings))


def _hint(settings: Settings) -> str:
    """What to record for a fit."""
    if isinstance(settings, Sglang):
        return _("keep the log's Decode batch lines, or client records with first token and end, or give --step-time FILE")
    return _("scrape the metrics endpoint every few seconds, or keep client records with first token and end, or give --step-time FILE")
