"""From what was measured of both sides to the rows of the table: which sources are compared, and which way each row went."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from analyzer.comparison.measure import Measured
from analyzer.comparison.model import Delta, Direction, Measurement, Unit, Wish
from analyzer.comparison.noise import counts_differ
from analyzer.language import N_, _

# A difference below this share of the higher value is none, and neither is one below the row's floor.
MOVED = 0.10
# Sources that tell of the same thing in the same way.
_ALIKE = (frozenset(("log", "metrics")), frozenset(("counter", "log")))


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table. Differences below `floor` (in the row's unit) are none."""

    id: str
    group: str
    title: str
    unit: Unit
    wish: Wish
    floor: float


GROUPS = {
    "ttft": N_("Time to first token"),
    "queue": N_("Queue and incidents"),
    "load": N_("Load"),
    "l1": N_("KV pool in HBM (L1)"),
    "speed": N_("Throughput and tokens"),
    "cache": N_("Prefix cache and L2"),
}
ROWS = (
    Row("ttft_p50", "ttft", N_("TTFT P50"), "s", "lower", 0.005),
    Row("ttft_p95", "ttft", N_("TTFT P95"), "s", "lower", 0.005),
    Row("ttft_p99", "ttft", N_("TTFT P99"), "s", "lower", 0.005),
    Row("ttft_p50_incident", "ttft", N_("TTFT P50, in the worst incident"), "s", "lower", 0.005),
    Row("ttft_p95_incident", "ttft", N_("TTFT P95, in the worst incident"), "s", "lower", 0.005),
    Row("ttft_p99_incident", "ttft", N_("TTFT P99, in the worst incident"), "s", "lower", 0.005),
    Row("unanswered_share", "ttft", N_("Requests without a first token at the end"), "share", "lower", 0.001),
    Row("error_share", "ttft", N_("Failed requests"), "share", "lower", 0.001),
    Row("incident_s", "queue", N_("Time in incidents"), "s", "lower", 2.0),
    Row("incident_share", "queue", N_("Time in incidents, of the capture"), "share", "lower", 0.01),
    Row("incidents", "queue", N_("Incidents"), "incidents", "lower", 0.5),
    Row("queue_wait", "queue", N_("Queue wait, mean"), "s", "lower", 0.005),
    Row("waiting_peak", "queue", N_("Waiting, peak"), "requests", "lower", 2.0),
    Row("waiting_mean", "queue", N_("Waiting, mean"), "requests", "lower", 0.5),
    Row("arrival_rate", "load", N_("Requests per second, over the capture"), "requests/s", "none", 0.01),
    Row("arrival_rate_busy", "load", N_("Requests per second, in a request's own minute"), "requests/s", "none", 0.01),
    Row("prompt_tokens", "load", N_("Prompt tokens, mean"), "tokens", "none", 1.0),
    Row("prompt_tokens_p95", "load", N_("Prompt tokens, P95"), "tokens", "none", 1.0),
    Row("output_tokens", "load", N_("Output tokens, mean"), "tokens", "none", 1.0),
    Row("running_peak", "load", N_("Running, peak"), "requests", "none", 1.0),
    Row("running_mean", "load", N_("Running, mean"), "requests", "none", 0.5),
    Row("l1_capacity", "l1", N_("Capacity of L1, per rank"), "tokens", "none", 1.0),
    Row("kv_usage_peak", "l1", N_("KV usage, peak"), "share", "none", 0.02),
    Row("kv_usage_mean", "l1", N_("KV usage, mean"), "share", "none", 0.02),
    Row("thrown_out", "l1", N_("Retracted or preempted requests"), "events", "lower", 0.5),
    Row("thrown_out_per_1000", "l1", N_("Retracted or preempted, per 1,000 requests"), "per 1000 requests", "lower", 0.05),
    Row("thrown_out_per_hour", "l1", N_("Retracted or preempted, per hour"), "per hour", "lower", 0.05),
    Row("recompute_share", "l1", N_("Recomputed, of the prompt tokens of the incident"), "share", "lower", 0.01),
    Row("prefill_tps", "speed", N_("Prefill, while requests ran"), "tokens/s", "none", 1.0),
    Row("decode_tps", "speed", N_("Decode, while requests ran"), "tokens/s", "none", 1.0),
    Row("itl", "speed", N_("Time between tokens, mean"), "s", "lower", 0.001),
    Row("hit_share", "cache", N_("Prefix cache hits, of prompt tokens"), "share", "higher", 0.02),
    Row("l2_hit_share", "cache", N_("L2 hits, of tokens looked up"), "share", "higher", 0.02),
    Row("l2_loaded_per_request", "cache", N_("Loaded from L2, per request"), "tokens", "none", 1.0),
    Row("l2_used_share", "cache", N_("L2 used, peak"), "share", "none", 0.02),
)
# Counts and seconds of captures of different lengths say nothing beside each other: the rates do.
_ABSOLUTE = ("incident_s", "incidents", "thrown_out")
# Rates whose events are counted one by one.
_COUNTED = ("thrown_out", "thrown_out_per_1000", "thrown_out_per_hour", "error_share", "unanswered_share")
_SAME_LENGTH = 0.10


def deltas(a: Measured, b: Measured, *, lengths: tuple[float | None, float | None], incident: tuple[bool, bool]) -> tuple[Delta, ...]:
    """All rows in order. `lengths` are the sides' seconds, `incident` says whether each had one that broke something."""
    found = []
    for row in ROWS:
        first, second = paired(a.get(row.id, {}), b.get(row.id, {}))
        if row.id.endswith("_incident"):
            first, second = (
                Measurement(None, note=_("no incident")) if m.value is None and not had else m
                for m, had in zip((first, second), incident, strict=True)
            )
        found.append(_delta(row, first, second, lengths))
    return tuple(found)


def paired(a: Mapping[str, Measurement], b: Mapping[str, Measurement]) -> tuple[Measurement, Measurement]:
    """The two to compare: of the first source that both sides have, else each side's own first."""
    nothing = Measurement(None)
    for source, value in a.items():
        if source in b:
            return value, b[source]
    return next(iter(a.values()), nothing), next(iter(b.values()), nothing)


def comparable(a: Measurement, b: Measurement) -> bool:
    """False where the two are of sources that do not measure the same."""
    return a.source == b.source or any({a.source, b.source} <= alike for alike in _ALIKE)


def _delta(row: Row, a: Measurement, b: Measurement, lengths: tuple[float | None, float | None]) -> Delta:
    difference = ratio = None
    # Of a value that is only known to be longer than something there is no difference, and no ratio.
    if a.value is not None and b.value is not None and not (a.at_least or b.at_least):
        difference = b.value - a.value
        ratio = b.value / a.value if a.value else None
    direction, note = _direction(row, a, b, lengths)
    return Delta(row.id, row.group, _(row.title), row.unit, row.wish, a, b, difference, ratio, direction, note)


def _direction(row: Row, a: Measurement, b: Measurement, lengths: tuple[float | None, float | None]) -> tuple[Direction, str]:
    """Which way a row went, and why that cannot be told, or what to know of it."""
    if a.value is None or b.value is None:
        return "cannot_tell", _("nothing to compare with") if a.note or b.note else ""
    if not comparable(a, b):
        return "cannot_tell", _("different sources")
    note = _("from different sources") if a.source != b.source else ""
    if row.wish == "none":
        return "neither", note
    if a.at_least and b.at_least:
        return "cannot_tell", _("both are longer than can be told")
    higher = max(a.value, b.value)
    small = abs(b.value - a.value) < row.floor or abs(b.value - a.value) <= MOVED * higher
    if small and not (a.at_least or b.at_least):
        return "neither", note
    if row.id in _ABSOLUTE and not _as_long(lengths):
        return "cannot_tell", _("captures of different lengths")
    if chance := _chance(row, a, b):
        return "cannot_tell", chance
    fell = b.value < a.value or a.at_least
    return ("better" if fell == (row.wish == "lower") else "worse"), note


def _chance(row: Row, a: Measurement, b: Measurement) -> str:
    """Why the difference may be chance; empty where it is more, or where a row is of no sample."""
    if row.id in _COUNTED:
        few = not counts_differ(a.n or 0, b.n or 0, a.of or 0.0, b.of or 0.0)
        return _("may be chance: too few events") if few else ""
    if row.id.startswith("ttft_p") and any(m.low is None and m.high is None and not m.at_least for m in (a, b)):
        # Of so few requests no bounds can be given at all.
        return _("may be chance: too few requests for this percentile")
    if not any(m.at_least or m.low is not None or m.high is not None for m in (a, b)) or _apart(a, b):
        return ""
    if any(m.high is None and not m.at_least for m in (a, b)):
        return _("may be chance: too few requests for this percentile")
    return _("may be chance: the 95 % bounds overlap")


def _apart(a: Measurement, b: Measurement) -> bool:
    """True when the bounds of the two do not overlap."""

    def bounds(m: Measurement) -> tuple[float, float]:
        low = m.low if m.low is not None else -math.inf
        return low, m.high if m.high is not None else math.inf

    (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
    return a_high < b_low or b_high < a_low


def _as_long(lengths: tuple[float | None, float | None]) -> bool:
    a, b = lengths
    return a is not None and b is not None and abs(a - b) <= _SAME_LENGTH * max(a, b)
