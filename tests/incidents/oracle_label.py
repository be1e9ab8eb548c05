"""From what each knob removes to the cause: the rules of oracle_truth.md, applied to the figures in an extract."""

from __future__ import annotations

from typing import Any

from analyzer.diagnosis.model import Cause

MOST = 0.5
SLOW_S = 2.0


def shares(doc: dict[str, Any]) -> dict[str, float]:
    """By knob: the share of the excess P99 TTFT that it removes. Empty where nothing was slow."""
    p99 = doc["p99_ttft_s"]
    excess = p99["base"] - p99["quiet"]
    return {k: 1 - (p99[k] - p99["quiet"]) / excess for k in ("pool", "cap", "compute", "reservation") if k in p99}


def unclear(doc: dict[str, Any]) -> str | None:
    """Why no single cause can be told from the knobs, if so."""
    facts, removed = doc["facts"], shares(doc)
    if doc["p99_ttft_s"]["base"] < SLOW_S:
        return None if facts["longest_queue_s"] < SLOW_S else "TTFT is short and yet a queue lasts"
    strong = {k for k, v in removed.items() if v > MOST}
    if not strong:
        return "no knob removes most of it"
    if strong == {"pool", "reservation"}:
        return None  # a larger pool also holds a larger reservation; which it is, the queue says
    if strong == {"reservation"} and not _kept_back(facts):
        return "half of the reservation removes it, though the pool was full"
    return None if len(strong) == 1 else f"several knobs remove most of it: {', '.join(sorted(strong))}"


def _kept_back(facts: dict[str, Any]) -> bool:
    """The room was there all along: the next prompt fitted, and nobody was thrown out."""
    return bool(facts["head_fitted"] > MOST and not facts["retracted_while_waiting"])


def cause_of(doc: dict[str, Any]) -> Cause:
    """The right verdict."""
    facts, removed = doc["facts"], shares(doc)
    if doc["p99_ttft_s"]["base"] < SLOW_S:
        return "none"
    if removed["cap"] > MOST:
        return "cap_bound"
    if removed["compute"] > MOST and removed["pool"] <= MOST:
        return "prefill_bound"
    if removed["reservation"] > MOST and _kept_back(facts):
        return "reservation_bound"
    assert removed["pool"] > MOST, doc["design"]
    return "l1_bound"


def because(doc: dict[str, Any]) -> str:
    """How the label is known, with figures."""
    p99, facts = doc["p99_ttft_s"], doc["facts"]
    if p99["base"] < SLOW_S:
        return f"P99 TTFT is {p99['base']:.2f} s and no queue lasts longer than {facts['longest_queue_s']:.2f} s"
    removed = shares(doc)
    told = ", ".join(f"{what} {removed[k]:.0%}" for k, what in _TURNED.items())
    sentence = f"of the excess P99 TTFT ({p99['base']:.1f} s against {p99['quiet']:.2f} s in the quiet part) {told}"
    fitted = f"the head of the queue fitted in {facts['head_fitted']:.0%} of the waiting steps"
    return f"{sentence} is removed; {fitted}, {facts['retracted_while_waiting']} retractions while requests waited"


_TURNED = {
    "pool": "by twice the pool",
    "cap": "by twice the cap",
    "compute": "by twice the prefill compute",
    "reservation": "by half of the reservation",
}
