"""Queues that only a disaggregated server has."""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case, Row
from analyzer.diagnosis.causes.finding import PRECEDENCE, finding
from analyzer.diagnosis.model import Confidence, Finding, Window
from analyzer.language import N_, _

# Queues of requests whose KV is on its way from one server to the other.
_ON_THE_WAY = {
    "transfer": N_(
        "Up to {requests} had their KV in transfer to the decode side {when}, while the pool was used to {usage} at the median."
    ),
    "inflight": N_(
        "Up to {requests} had finished prefill, with their KV still being sent, {when}, while the pool was used to {usage} at the median."
    ),
    "kv_fetch": N_(
        "Up to {requests} waited for their KV to be fetched from another server {when}, while the pool was used to {usage} at the median."
    ),
}
# What the other side held, by its role and whether its pool was full.
_OTHER_SIDE = {
    ("prefill", False): N_("The prefill side's pool was used to at most {usage}."),
    ("prefill", True): N_("The prefill side's pool was used to at most {usage}: it was full."),
    ("decode", False): N_("The decode side's pool was used to at most {usage}."),
    ("decode", True): N_("The decode side's pool was used to at most {usage}: it was full."),
}


def disaggregated_queues(case: Case) -> list[Finding]:
    """Queues that only a disaggregated server has, and that its ordinary one does not show."""
    return sorted([*transfers_waited_for(case), *_prealloc(case), *_bootstrap(case)], key=lambda f: PRECEDENCE.index(f.cause))


def transfers_waited_for(case: Case) -> list[Finding]:
    """Requests that waited for KV from the other side; surer where the queue grew and transfers were seen to take longer."""
    r = case.row("pd_queues")
    found = []
    for queue, template in _ON_THE_WAY.items():
        if not _long(case, queue) or (queue == "kv_fetch" and _from_l2(case)):
            continue
        grew = (r[f"{queue}_peak_ts"] - r[f"{queue}_from_ts"]).total_seconds() >= 10
        slower = r["transfer_held_s"] is not None and r["transfer_held_s"] >= case.limits["load_factor"] * (r["transfer_usual_s"] or 0.0)
        room = (r["usage_transfer_p50"] or 0.0) < case.limits["full_usage"]
        confidence: Confidence = "medium" if grew and room and slower else "low"
        waited = _(
            template, requests=say.count(r[f"{queue}_max"], "request"), when=say.span(r[f"{queue}_from_ts"], r[f"{queue}_until_ts"]),
            usage=say.share(r["usage_transfer_p50"]),
        )  # fmt: skip
        sentence = say.sentences([waited, _took(r), _other(case, r)])
        found.append(finding(case, "transfer_bound", confidence, sentence, _window(r, queue), ("pd_queues", "l1_full")))
    return found


def _from_l2(case: Case) -> bool:
    """True when what vLLM fetches comes from a tier below L1, as far as the capture shows one at work."""
    r = case.row("l2_bottleneck")
    return bool(r["l2_moved_by"] or r["operations"]) and not case.row("pd_queues")["transfers"]


def _prealloc(case: Case) -> list[Finding]:
    r = case.row("pd_queues")
    if not _long(case, "prealloc"):
        return []
    n = say.count(r["prealloc_max"], "request")
    used = say.share(r["usage_prealloc_p50"])
    if (r["usage_prealloc_p50"] or 0) >= case.limits["full_usage"]:
        sentence = _(
            "Up to {requests} waited on the decode side for room in its KV pool (L1), which was used to {usage} at the median.",
            requests=n, usage=used,
        )  # fmt: skip
        return [finding(case, "l1_bound", "medium", sentence, _window(r, "prealloc"), ("pd_queues", "l1_full"))]
    sentence = _(
        "Up to {requests} waited on the decode side for KV space, though its pool was not full (used to {usage} at the median).",
        requests=n, usage=used,
    )  # fmt: skip
    return [finding(case, "insufficient_data", "low", sentence, _window(r, "prealloc"), ("pd_queues", "l1_full"))]


def _bootstrap(case: Case) -> list[Finding]:
    r = case.row("pd_queues")
    if not _long(case, "bootstrap"):
        return []
    waited = _("Up to {requests} waited for the two sides' handshake.", requests=say.count(r["bootstrap_max"], "request"))
    sentence = say.sentences([waited, _other(case, r) if r["other_instance"] else _("The other side's log is needed.")])
    return [finding(case, "insufficient_data", "low", sentence, _window(r, "bootstrap"), ("pd_queues", "l1_full"))]


def _long(case: Case, queue: str) -> bool:
    r = case.row("pd_queues")
    return (r[f"{queue}_max"] or 0) >= case.limits["pd_queue"] and (r[f"{queue}_request_s"] or 0) >= 2 * case.limits["queue_request_s"]


def _window(r: Row, queue: str) -> Window:
    return Window(r[f"{queue}_from_ts"], r[f"{queue}_until_ts"])


def _took(r: Row) -> str:
    if r["transfer_held_s"] is None or r["transfer_usual_s"] is None:
        return ""
    return _(
        "A transfer took {held} on average, {usual} at its fastest.",
        held=say.seconds(r["transfer_held_s"]), usual=say.seconds(r["transfer_usual_s"]),
    )  # fmt: skip


def _other(case: Case, r: Row) -> str:
    """What the other side held, where it is in the capture too."""
    if r["other_instance"] is None:
        return ""
    full = (r["other_usage_max"] or 0) >= case.limits["full_usage"]
    return _(_OTHER_SIDE[r["other_role"], full], usage=say.share(r["other_usage_max"]))
