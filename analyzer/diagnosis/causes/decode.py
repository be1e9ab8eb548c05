"""Tokens that took long while nothing waited."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import finding
from analyzer.diagnosis.model import Confidence, Finding, Window
from analyzer.language import N_, _

# By who measured the times between tokens.
_TOLD_BY = {
    "histogram": N_("The histogram of the time between tokens shows it too."),
    "reports": N_("The throughput of the reports shows it too."),
    "client": N_("The requests' own times between tokens, as the client saw them, show it too."),
    "frontend": N_("The requests' own times between tokens, as the front end saw them, show it too."),
    "engine": N_("The requests' own times between tokens, as the engine saw them, show it too."),
}


def decoded_slowly(case: Case) -> list[Finding]:
    """Slow decode with an empty queue and room in the pool."""
    slow = case.slow_decode
    if slow is None or (slow["slow_s"] or 0) < case.limits["decode_min_s"]:
        return []
    confidence: Confidence = "high" if slow["confirmed_by"] else "medium"
    start = _(
        "Nothing waited and the pool had room, but {when} each token took {slow} against {base} at best, with {running} running.",
        when=say.span(slow["start_ts"], slow["end_ts"]), slow=say.seconds(slow["token_slow_s"]), base=say.seconds(slow["token_base_s"]),
        running=say.count(slow["running_slow"], "request"),
    )  # fmt: skip
    if slow["denied_by_reports"]:
        denied = _("The throughput that the server reported in that time is not slow: look at the front end, the network and the client.")
        window = Window(slow["start_ts"], slow["end_ts"])
        return [finding(case, "insufficient_data", "low", say.sentences([start, denied]), window, ("outside_scheduler", "queue_on_l1"))]
    return [
        finding(
            case, "decode_bound", confidence, say.sentences([start, *_batch(slow), *_sources(slow)]),
            Window(slow["start_ts"], slow["end_ts"]), ("queue_on_l1", "l1_full"),
        )
    ]  # fmt: skip


def _batch(slow: Row) -> list[str]:
    """Whether the batch grew, or the steps of the same batch took longer."""
    if slow["batch"] == "same":
        return [
            _(
                "Batches of that size took {alike} per token at other times, so each step was slower: look at the host and what else ran.",
                alike=say.seconds(slow["token_alike_s"]),
            )
        ]
    if slow["batch"] == "slower":
        return [
            _(
                "All running ones together made no more tokens than before, so each step was slower, and requests stayed longer for it: "
                "look at the host and what else ran."
            )
        ]
    if slow["batch"] == "grew":
        return [
            _(
                "The batch had grown from {before}, and more requests share a step: a lower cap would make each token faster.",
                before=say.count(slow["running_else"], "request"),
            )
        ]
    return []


def _sources(slow: Row) -> list[str]:
    """What else shows it."""
    told = slow["confirmed_by"]
    return [_(_TOLD_BY[told])] if told else []
