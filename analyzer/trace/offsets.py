"""How far each source's clock is off, found from signals that two sources of one server both have.

Metric samples carry epoch times and are taken as they are; client records likewise; a log's stamps may lack
zone and year. So the clocks of logs are compared with metrics or else client records, those of client records
with metrics. `--offset` goes before any estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from analyzer.trace.alignment import Estimate, Signal, estimate_offset, should_apply
from analyzer.trace.identity import Identity, matches
from analyzer.trace.offset_rules import OffsetRule
from analyzer.trace.source_rows import SourceRows

_HALF_YEAR_S = 183 * 86400.0


_Signals = Callable[[SourceRows, str], tuple[Signal, ...]]


@dataclass(frozen=True, slots=True)
class Offset:
    """What is added to a source's times, and what was estimated."""

    applied_s: float = 0.0
    given: bool = False
    estimate: Estimate | None = None
    against: str = ""

    def columns(self) -> dict[str, Any]:
        """Columns of the `sources` table."""
        e = self.estimate
        basis = None
        if e is not None:
            basis = f"{' and '.join(e.signals)} against {self.against}, agreement {e.agreement:.2f} over {e.overlap_s:.0f} s"
            if not e.sure:
                basis = f"cannot be told from {basis}"
        return {
            "offset_s": self.applied_s or None,
            "offset_from": "given" if self.given else "estimated" if self.applied_s else None,
            "offset_estimate_s": round(e.offset_s, 3) if e is not None and e.sure else None,
            "offset_basis": basis,
        }


def find_offsets(sources: Sequence[SourceRows], identity: Identity, rules: Sequence[OffsetRule]) -> dict[str, Offset]:
    """The offset of every source, by source id."""
    found: dict[str, Offset] = {}
    by_instance: dict[str, list[SourceRows]] = {}
    for s in sources:
        for name in sorted({identity.instance[s.source.source_id, d["origin"]] for d in s.source.streams}):
            by_instance.setdefault(name, []).append(s)
    cache: dict[tuple[str, str], tuple[Signal, ...]] = {}

    def signals(s: SourceRows, instance: str) -> tuple[Signal, ...]:
        # what it works with takes long to load, and one source alone has no clock to be compared with
        from analyzer.trace.clock_signals import signals_of

        key = (s.source.source_id, instance)
        if key not in cache:
            origins = {d["origin"] for d in s.source.streams if identity.instance[s.source.source_id, d["origin"]] == instance}
            cache[key] = tuple(signals_of(s, origins))
        return cache[key]

    # the best clocks first: what they turn out to be off by is known when others are compared with them
    for s in sorted(sources, key=lambda s: (-_trust(s), s.source.path, s.source.source_id)):
        rule = next((r for r in rules if matches(r.pattern, s.source.path)), None)
        estimate, against = _estimate(s, by_instance, signals, found)
        applied = rule.seconds if rule else 0.0
        if rule is None and estimate is not None:
            applied = should_apply(estimate, zone_was_assumed=s.source.clock_assumed) or 0.0
        found[s.source.source_id] = Offset(applied, rule is not None, estimate, against)
    return found


def _trust(s: SourceRows) -> int:
    """How far a source's clock is to be believed; 0 for one that has none."""
    kinds = {d.get("kind", "log") for d in s.source.streams}
    if "metrics" in kinds:
        return 3 if s.source.row["clock"] == "samples" else 0
    if "requests" in kinds:
        return 0 if s.source.clock_assumed else 2
    return 0 if s.source.clock_assumed else 1


def _estimate(
    s: SourceRows, by_instance: Mapping[str, Sequence[SourceRows]], signals: _Signals, found: Mapping[str, Offset]
) -> tuple[Estimate | None, str]:
    """The estimate against the best clock of the same server that tells one for sure, else the best unsure one.

    `found` are the offsets of better clocks, which have been moved by then.
    """
    best: tuple[Estimate | None, str] = (None, "")
    rank: tuple[bool, int, float] | None = None
    if not s.source.streams:
        return best
    for name, members in by_instance.items():
        if s not in members:
            continue
        for other in members:
            if _trust(other) <= _trust(s) or other is s:
                continue
            reference, own = signals(other, name), signals(s, name)
            if not reference or not own:
                continue
            years = _years(reference, own) if s.source.year_assumed else 0.0
            moved = found[other.source.source_id].applied_s
            estimate = estimate_offset([_later(x, moved) for x in reference], [_later(x, years) for x in own])
            if estimate is None:
                continue
            if years:
                estimate = replace(estimate, offset_s=estimate.offset_s + years, agreement_at_zero=None)
            this = (estimate.sure, _trust(other), estimate.overlap_s)
            if rank is None or this > rank:
                best, rank = (estimate, other.source.path), this
    return best


def _years(reference: Sequence[Signal], own: Sequence[Signal]) -> float:
    """Seconds to add so that a log whose year was guessed falls into the reference's year, if it is that far away."""
    middle = float(np.median(np.concatenate([x.ts for x in reference])))
    mine = float(np.median(np.concatenate([x.ts for x in own])))
    if abs(middle - mine) < _HALF_YEAR_S:
        return 0.0
    moment = datetime.fromtimestamp(mine, UTC)
    days = [
        datetime(datetime.fromtimestamp(middle, UTC).year + n, moment.month, min(moment.day, 28), tzinfo=UTC).timestamp()
        - datetime(moment.year, moment.month, min(moment.day, 28), tzinfo=UTC).timestamp()
        for n in (-1, 0, 1)
    ]
    return min(days, key=lambda d: abs(mine + d - middle))


def _later(signal: Signal, seconds: float) -> Signal:
    return Signal(signal.name, signal.ts + seconds, signal.value, signal.hold_s) if seconds else signal
