"""From the findings of each family of causes to those of one instance, ranked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from analyzer.diagnosis.case import Case
from analyzer.diagnosis.causes.decode import decoded_slowly
from analyzer.diagnosis.causes.disaggregation import disaggregated_queues, transfers_waited_for
from analyzer.diagnosis.causes.finding import PRECEDENCE, at_most
from analyzer.diagnosis.causes.frontend import outside_scheduler
from analyzer.diagnosis.causes.l2 import l2_bound, l2_in_part
from analyzer.diagnosis.causes.overflow import overflowed
from analyzer.diagnosis.causes.process import crashes, hangs, restarts
from analyzer.diagnosis.causes.queue import queue_held
from analyzer.diagnosis.causes.quiet import nothing_broke
from analyzer.diagnosis.causes.skew import skewed
from analyzer.diagnosis.causes.stall import ends_without_a_token, stood_still
from analyzer.diagnosis.causes.unknown import nothing_known
from analyzer.diagnosis.causes.unschedulable import held_by_nothing_known, never_fits, nothing_runs
from analyzer.diagnosis.model import Finding

Family = Callable[[Case], list[Finding]]

# What can be wrong although the ordinary queue did not break.
_WITHOUT_QUEUE: tuple[Family, ...] = (overflowed, decoded_slowly, disaggregated_queues, l2_bound, outside_scheduler)
# What goes before the states of a queue, because it explains them: the first that finds something.
_BEFORE_QUEUE: tuple[Family, ...] = (skewed, l2_bound, held_by_nothing_known)


def findings(cases: Sequence[Case], covered: bool) -> tuple[tuple[Finding, ...], tuple[tuple[Finding, ...], ...]]:
    """All findings of one instance, the verdict first, never empty; and those of each of its incidents.

    `cases` are those of its incidents, the worst first.
    """
    main = cases[0]
    process = sorted(
        [*crashes(main), *(hangs(main) or stood_still(main)), *restarts(main)],
        key=lambda f: (f.window.start or datetime.max.replace(tzinfo=UTC), PRECEDENCE.index(f.cause)),
    )
    if not main.enough:
        found = _unexplained(main, process)
        return _as_sure_as_can_be(found, covered), (_as_sure_as_can_be(found, covered),)
    each = [incident_findings(case) for case in cases]
    if any(f.cause == "unschedulable" for found in each for f in found):
        # what stands behind a request that never fits looks like a hang
        process = [f for f in process if f.cause != "hang"]
    if any(f.cause == "hang" for f in process):
        each = [[_beside_a_hang(f, process) for f in found if f.cause != "hang"] for found in each]
    if process:
        each = [[f for f in found if f.cause != "none"] for found in each]
    elif each[0][0].cause == "none":
        each[0] = ends_without_a_token(main) or each[0]
    first, later = _by_consequence(process, cases)
    found = [*first, *(f for found in each for f in found), *later]
    return _as_sure_as_can_be(found, covered), tuple(_as_sure_as_can_be(found, covered) for found in each)


def incident_findings(case: Case) -> list[Finding]:
    """Why one incident happened, the likeliest first; without an incident, what else is wrong, or an all-clear."""
    stuck = never_fits(case) or nothing_runs(case)
    if stuck:
        return stuck
    if case.queue_broke:
        held = queue_held(case)
        if held and held[0].cause == "hang":
            # not one token: whatever else was short, nobody could have had it
            return held
        before = next((found for family in _BEFORE_QUEUE if (found := family(case))), _fetched_slowly(case))
        if not before and held[0].cause == "insufficient_data":
            return [*l2_in_part(case), *held]
        # they are its consequences, or what it was taken for
        return [*before, *(replace(f, confidence="low") for f in held if f.cause != "insufficient_data")] if before else held
    found = [f for family in _WITHOUT_QUEUE for f in family(case)]
    return found or nothing_broke(case)


def _fetched_slowly(case: Case) -> list[Finding]:
    """vLLM counts requests whose KV comes from another server as waiting: that queue is the transfer's where they are most of it."""
    r = case.row("l2_bottleneck")
    share = (r["fetch_request_s"] or 0.0) / r["waiting_request_s"] if r["waiting_request_s"] else 0.0
    return transfers_waited_for(case) if share >= case.limits["dominant_share"] else []


def _beside_a_hang(f: Finding, process: list[Finding]) -> Finding:
    """What a queue looked like while the scheduler stood still says little of its cause."""
    hung = [p.window for p in process if p.cause == "hang"]
    start, end = f.window.start, f.window.end
    within = start is not None and end is not None and any(w.start and w.end and start <= w.end and w.start <= end for w in hung)
    return replace(f, confidence="low") if within else f


def _by_consequence(process: list[Finding], cases: Sequence[Case]) -> tuple[list[Finding], list[Finding]]:
    """A planned restart far from every incident explains none of them; all else that befell the process comes first."""
    gap = timedelta(seconds=cases[0].limits["spell_gap_s"])
    windows = [c.window for c in cases]
    known = [(w.start, w.end) for w in windows if w.start is not None and w.end is not None]

    def near(f: Finding) -> bool:
        start, end = f.window.start, f.window.end or f.window.start
        return start is None or end is None or any(start <= e + gap and s <= end + gap for s, e in known)

    first = [f for f in process if f.cause != "restart" or not known or near(f)]
    return first, [f for f in process if f not in first]


def _unexplained(case: Case, process: list[Finding]) -> list[Finding]:
    """Without reports: a planned restart proves itself, but not that it was the incident."""
    nothing = nothing_known(case, [f.cause for f in process])
    found = [*(f for f in process if f.cause != "restart"), nothing, *(f for f in process if f.cause == "restart")]
    if any(f.cause in ("crash", "hang") for f in found):
        found.remove(nothing)
    return found


def _as_sure_as_can_be(found: list[Finding], covered: bool) -> tuple[Finding, ...]:
    """A version that no recording and no engine's own scheduler confirms is at most `medium`."""
    if covered:
        return tuple(found)
    return tuple(replace(f, confidence=at_most(f.confidence, "medium")) for f in found)
