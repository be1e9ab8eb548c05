"""P99 TTFT against the size of L1 and of L2: two curves on the same y axis, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzer.language import _
from analyzer.replay import knobs, words
from analyzer.replay.model import Study, WhatIf
from analyzer.report import fmt
from analyzer.report.charts import nice_ticks
from analyzer.report.replay.model import Ladder, Rung
from analyzer.report.replay.rows import unchanged_of

# From this proportion of the longest to the shortest wait on, the axis is logarithmic: else the short ones are all 0.
_LOGARITHMIC = 20.0
_LEAST_S = 0.001


def ladders(study: Study) -> tuple[Ladder, ...]:
    """The curve of each pool that was tried in another size, L1 first."""
    l2 = study.case.settings.l2
    found = [("l1", "L1", _rungs(study, "l1_tokens", study.case.settings.l1_tokens))]
    found.append(("l2", "L2", _rungs(study, "l2_tokens", l2.capacity_tokens if l2 else 0)))
    found = [(key, name, rungs) for key, name, rungs in found if len(rungs) > 1]
    floor, top = _ends([r for _key, _name, rungs in found for r in rungs])
    return tuple(
        Ladder("l1" if key == "l1" else "l2", _("P99 TTFT against the size of {pool}", pool=name), tuple(rungs), floor, top)
        for key, name, rungs in found
    )


def _rungs(study: Study, knob: str, now: int) -> list[Rung]:
    """One per size, the smallest first; the unchanged replay stands for the size of now."""
    size = _("now, {tokens}", tokens=fmt.measure(now, "tokens")) if now else _("now, none")
    by_size = {float(now): _rung(unchanged_of(study), float(now), size, _("now"))}
    for what_if in study.what_ifs:
        if len(what_if.changes) == 1 and what_if.changes[0].knob == knob:
            tokens = knobs.target(what_if.changes[0], study.case.workload, study.case.settings)
            by_size.setdefault(tokens, _rung(what_if, tokens, words.setting(what_if.changes, study.case), _label(what_if, tokens)))
    return [by_size[tokens] for tokens in sorted(by_size)]


def _label(what_if: WhatIf, tokens: float) -> str:
    change = what_if.changes[0]
    return _("off") if not tokens else f"×{change.value:g}" if change.times else ""


def _rung(what_if: WhatIf, tokens: float, size: str, label: str) -> Rung:
    p99_s = what_if.outcome.ttft_p99_s
    wait = words.seconds(p99_s)
    said = _("{size}: P99 TTFT {wait}", size=size, wait=wait)
    if bounds := words.band(what_if):
        said = _("{what} ({bounds})", what=said, bounds=bounds)
    if not what_if.trusted:
        said = fmt.clauses((said, _("not trusted")))
    shown = "" if p99_s is None else wait
    return Rung(tokens, label, shown, p99_s, what_if.low_s, what_if.high_s, what_if.trusted, not what_if.changes, said)


def _ends(rungs: Sequence[Rung]) -> tuple[float, float]:
    """The ends of the axis: from 0, or from 1, 2 or 5 times a power of ten where the waits differ by far."""
    waits = [w for r in rungs for w in (r.p99_s, r.low_s, r.high_s) if w is not None and math.isfinite(w)]
    top = max(waits, default=1.0)
    least = min((w for w in waits if w >= _LEAST_S), default=top)
    if top < _LOGARITHMIC * least:
        return 0.0, nice_ticks(top)[-1]
    return max(t for t in round_times(least / 10, least)), min(t for t in round_times(top, top * 10))


def round_times(first: float, last: float) -> tuple[float, ...]:
    """1, 2 and 5 times each power of ten, from `first` to `last` seconds."""
    powers = range(math.floor(math.log10(first)), math.ceil(math.log10(last)) + 1)
    # the slack is for 0.2, which is not 2 times 0.1
    return tuple(t for p in powers for m in (1, 2, 5) if first * (1 - 1e-9) <= (t := float(f"{m}e{p}")) <= last * (1 + 1e-9))
