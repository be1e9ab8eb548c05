"""Queues that only a disaggregated server has."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.finding import PRECEDENCE, finding
from analyzer.diagnosis.model import Cause, Confidence, Finding, Window


def disaggregated_queues(case: Case) -> list[Finding]:
    """Queues that only a disaggregated server has, and that its ordinary one does not show."""
    r = case.row("pd_queues")
    full = (r["usage_prealloc_p50"] or 0) >= case.limits["full_usage"]
    known: tuple[tuple[str, Cause, Confidence, str], ...] = (
        ("prealloc", "l1_bound", "medium", "waited on the decode side for room in its KV pool (L1), which was used to "
         f"{say.share(r['usage_prealloc_p50'])} at the median")
        if full
        else ("prealloc", "insufficient_data", "low", "waited on the decode side for KV space, though its pool was not full"),
        ("transfer", "transfer_bound", "low", "had their KV in transfer to the decode side"),
        ("inflight", "transfer_bound", "low", "were done with prefill, and their KV was still being sent"),
        ("kv_fetch", "transfer_bound", "low", "waited for their KV to be fetched"),
        ("bootstrap", "insufficient_data", "low", "waited for the two sides' handshake; the other side's log is needed"),
    )  # fmt: skip
    found = [
        finding(
            case, cause, confidence, f"No ordinary queue broke, but up to {say.count(r[f'{name}_max'], 'request')} {why}.",
            Window(None, None), ("pd_queues", "l1_full"),
        )
        for name, cause, confidence, why in known
        if (r[f"{name}_max"] or 0) >= case.limits["pd_queue"] and (r[f"{name}_request_s"] or 0) >= 2 * case.limits["queue_request_s"]
    ]  # fmt: skip
    return sorted(found, key=lambda f: PRECEDENCE.index(f.cause))
