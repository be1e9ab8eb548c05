"""P99 TTFT against the size of L1 and of L2: two curves on the same y axis, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzer.language import _
from analyzer.replay import knobs, words
from analyzer.replay.model import Case, Study, WhatIf
from analyzer.report import fmt
from analyzer.report.charts import nice_ticks
from analyzer.report.replay.model import Ladder, Rung

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
    trust = study.calibration.trust in ("good", "fair")
    present = study.unchanged.ttft_p99_s
    hint = _said(_("now, {tokens}", tokens=fmt.measure(now, "tokens")) if now else _("now, none"), present)
    by_size = {float(now): Rung(float(now), _("now"), present, None, None, trust, True, hint)}
    for what_if in study.what_ifs:
        if len(what_if.changes) == 1 and what_if.changes[0].knob == knob:
            tokens = knobs.target(what_if.changes[0], study.case.workload, study.case.settings)
            by_size.setdefault(tokens, _rung(what_if, tokens, study.case))
    return [by_size[tokens] for tokens in sorted(by_size)]


def _rung(what_if: WhatIf, tokens: float, case: Case) -> Rung:
    change = what_if.changes[0]
    said = _said(words.setting(what_if.changes, case), what_if.outcome.ttft_p99_s)
    if bounds := words.band(what_if):
        said = _("{what} ({bounds})", what=said, bounds=bounds)
    if not what_if.trusted:
        said = fmt.clauses((said, _("not trusted")))
    label = f"×{change.value:g}" if change.times else ""
    return Rung(tokens, label, what_if.outcome.ttft_p99_s, what_if.low_s, what_if.high_s, what_if.trusted, False, said)


def _said(size: str, p99_s: float | None) -> str:
    return _("{size}: P99 TTFT {wait}", size=size, wait=words.seconds(p99_s))


def _ends(rungs: Sequence[Rung]) -> tuple[float, float]:
    """The ends of the axis: from 0, or from a power of ten where the waits differ by far."""
    waits = [w for r in rungs for w in (r.p99_s, r.low_s, r.high_s) if w is not None and math.isfinite(w)]
    top = max(waits, default=1.0)
    least = min((w for w in waits if w >= _LEAST_S), default=top)
    if top < _LOGARITHMIC * least:
        return 0.0, nice_ticks(top)[-1]
    return 10.0 ** math.floor(math.log10(least)), 10.0 ** math.ceil(math.log10(top) - 1e-9)
