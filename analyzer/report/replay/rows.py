"""The rows of the what-if table: what each change came to, against the unchanged replay."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzer.language import _, ngettext
from analyzer.replay import words
from analyzer.replay.model import Outcome, Study, WhatIf
from analyzer.replay.what_if import band
from analyzer.report import fmt
from analyzer.report.replay.model import WhatIfRow


def unchanged_of(study: Study) -> WhatIf:
    """The unchanged replay, with the same error as all others."""
    low, high = band(study.calibration, study.unchanged.ttft_p99_s)
    return WhatIf((), study.unchanged, low, high, study.calibration.trust in ("good", "fair"), "")


def rows(study: Study, what_ifs: Sequence[WhatIf]) -> list[WhatIfRow]:
    """The unchanged replay, then the trusted rows by P99 TTFT, the shortest first, then the others."""

    def rank(what_if: WhatIf) -> tuple[bool, float]:
        p99 = what_if.outcome.ttft_p99_s
        return not what_if.trusted, math.inf if p99 is None else p99

    return [_row(w, study) for w in (unchanged_of(study), *sorted(what_ifs, key=rank))]


def _row(what_if: WhatIf, study: Study) -> WhatIfRow:
    outcome = what_if.outcome
    changed = bool(what_if.changes)
    return WhatIfRow(
        change=words.setting(what_if.changes, study.case) if changed else _("Unchanged, replayed"),
        command=fmt.clean("--set " + ",".join(c.text for c in what_if.changes), 200) if changed else "",
        p99=_wait(outcome.ttft_p99_s),
        p99_s=outcome.ttft_p99_s,
        low_s=what_if.low_s,
        high_s=what_if.high_s,
        band=words.band(what_if),
        p50=_wait(outcome.ttft_p50_s),
        p50_s=outcome.ttft_p50_s,
        retractions=outcome.retractions,
        max_waiting=outcome.max_waiting,
        against=words.against(outcome, study.unchanged) if changed else "",
        trusted=what_if.trusted,
        doubt="" if what_if.trusted else fmt.prose(what_if.why_not, 300),
        notes=tuple(_notes(what_if, study)),
    )


def _wait(value: float | None) -> str:
    return "" if value is None else words.seconds(value)


def _notes(what_if: WhatIf, study: Study) -> list[str]:
    outcome, said = what_if.outcome, []
    observed = next((m.observed for m in study.calibration.measures if m.key == "ttft_p99"), None)
    if not what_if.changes and observed is not None:
        said.append(_("{wait} was observed", wait=words.seconds(observed)))
    if what_if.changes and outcome.ttft_p99_s is not None and _shown(outcome) == _shown(study.unchanged):
        said.append(_("changes nothing"))
    if outcome.never:
        n = outcome.never
        said.append(ngettext("{n} request can never be served", "{n} requests can never be served", n, n=fmt.number(n)))
    if outcome.open:
        n = outcome.open
        said.append(ngettext("{n} request without a first token", "{n} requests without a first token", n, n=fmt.number(n)))
    return said


def _shown(outcome: Outcome) -> tuple[object, ...]:
    """What the row of a replay tells, as it is written."""
    waits = _wait(outcome.ttft_p99_s), _wait(outcome.ttft_p50_s)
    return (*waits, outcome.max_waiting, outcome.retractions, outcome.open, outcome.never)
