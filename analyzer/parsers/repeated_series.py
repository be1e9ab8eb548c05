"""Which series of a dump say again what another one says: they are kept, and not counted."""

from __future__ import annotations

from typing import Any

from analyzer.parsers.one_series import RANK_LABELS, Series


def leave_repeated(all_series: list[Series]) -> None:
    """Mark series that say again what another of this source says: an old spelling, a part of a sum, a further rank."""
    spellings: dict[tuple[Any, ...], list[Series]] = {}
    for series in all_series:
        if series.known:
            spellings.setdefault((series.engine, series.name, series.part, series.sorted_labels), []).append(series)
    for group in spellings.values():
        best = min(group, key=_spelling)
        for series in group:
            if series is not best:
                series.counted, series.why_not = False, f"another spelling of {best.raw_name}"
    classes: dict[tuple[Any, ...], list[Series]] = {}
    for series in all_series:
        if "priority" in series.labels and series.counted:
            rest = tuple((k, v) for k, v in series.labels.items() if k != "priority")
            classes.setdefault((series.raw_name, rest), []).append(series)
    for group in classes.values():
        if any(s.labels["priority"] == "" for s in group):
            for series in group:
                if series.labels["priority"] != "":
                    series.counted, series.why_not = False, "a part of the series over all priorities"
    ranks: dict[tuple[Any, ...], list[Series]] = {}
    for series in all_series:
        if series.counted and series.engine != "lmcache" and {"tp", "pp", "ep"} & series.ranks.keys():
            rest = tuple((k, v) for k, v in series.labels.items() if RANK_LABELS.get(k) not in ("tp", "pp", "ep"))
            ranks.setdefault((series.raw_name, rest), []).append(series)
    for group in ranks.values():
        first = min(group, key=lambda s: [s.ranks.get(r, 0) for r in ("tp", "pp", "ep")])
        for series in group:
            if series is not first:
                series.counted, series.why_not = False, "a further rank of the same scheduler"


def _spelling(series: Series) -> int:
    assert series.known is not None
    return series.known.spelling
