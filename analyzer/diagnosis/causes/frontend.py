"""First tokens that were slow before or behind the scheduler."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.causes.words import worst_ttft
from analyzer.diagnosis.model import Finding
from analyzer.language import _


def outside_scheduler(case: Case) -> list[Finding]:
    """TTFT broke, while the engine's own queue was short by its histograms or records, and no queue broke."""
    worst, split = worst_ttft(case.row("ttft_broke")), case.row("ttft_split")
    if not case.ttft_broke or case.queue_broke or worst is None or split["split_source"] not in ("requests", "histograms"):
        return []
    if split["queue_s"] is None or split["queue_s"] + (split["prefill_s"] or 0.0) > 0.25 * worst[0]:
        return []
    sentence = _(
        "P99 TTFT was {took} {when}, of which the engine's own queue took {queue} on average: it was the front end or the network, not the "
        "scheduler, and the capture does not tell which.",
        took=worst[1], when=case.when(), queue=say.seconds(split["queue_s"]),
    )  # fmt: skip
    return [finding(case, "insufficient_data", "low", sentence, case.window, ("ttft_broke", "ttft_split", "outside_scheduler"))]
