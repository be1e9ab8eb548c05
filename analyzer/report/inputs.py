"""What was read: facts with the line or metric they came from, sources with what they gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from analyzer.diagnosis.model import Diagnosis, Window
from analyzer.language import _
from analyzer.report import fmt, source_words
from analyzer.report.capped import Capped, cap
from analyzer.report.model import (
    MAX_CHARTED_INSTANCES,
    MAX_FACTS_PER_INSTANCE,
    MAX_SOURCE_NOTES,
    MAX_SOURCES,
    FactGroup,
    FactView,
    SourceTotals,
    SourceView,
)


def fact_groups(diagnosis: Diagnosis, order: Sequence[str]) -> Capped[FactGroup]:
    """Facts by instance, in the order of the page; instances without a section come last."""
    paths = {s.get("source_id"): s.get("path") for s in diagnosis.sources if s.get("source_id")}
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for fact in diagnosis.facts:
        groups.setdefault(str(fact.get("instance") or ""), []).append(fact)
    rank = {name: n for n, name in enumerate(order)}
    names = sorted(groups, key=lambda n: (rank.get(n, len(rank)), n))
    return cap(
        (
            FactGroup(
                fmt.name_of(name),
                # Reported capacity before the long list of arguments.
                cap(
                    (_fact_view(f, paths) for f in sorted(groups[name], key=lambda f: str(f.get("key")).startswith("arg."))),
                    MAX_FACTS_PER_INSTANCE,
                ),
            )
            for name in names
        ),
        MAX_CHARTED_INSTANCES,
    )


def _fact_view(fact: Mapping[str, Any], paths: Mapping[Any, Any]) -> FactView:
    key = fmt.clean(fact.get("key"), 120)
    unit = fmt.clean(fact.get("unit"), 40)
    number = fact.get("number")
    if number is None and isinstance(fact.get("value"), int | float):
        number = fact.get("value")
    # Only what has a unit is written as a number: grouping digits would spoil ports and seeds.
    if unit and isinstance(number, int | float) and not isinstance(number, bool):
        value = fmt.measure(number, unit)
    else:
        value = fmt.clean(fact.get("value"), 300)
    run = fmt.clean(fact.get("run_id"), 20)
    if fact.get("dp") is not None:
        run = f"{run} dp{fact['dp']}".strip()
    told_by = fmt.clean(fact.get("read_from"), 120)
    # A line's format is named ENGINE.FORMAT, a metric as it is exported.
    metric = told_by if ":" in told_by else ""
    return FactView(run, key, value or fmt.not_reported(), _read_from(fact, paths), metric)


def _read_from(fact: Mapping[str, Any], paths: Mapping[Any, Any]) -> str:
    source = fact.get("source")
    if not source:
        source = fact.get("path") or paths.get(fact.get("source_id")) or ""
        record = fact.get("record") or fact.get("line")
        if source and record:
            source = f"{source}:{record}"
    return fmt.clean(source or fact.get("read_from"), 240)


def source_views(con: duckdb.DuckDBPyConnection, sources: Sequence[Mapping[str, Any]]) -> Capped[SourceView]:
    """The inputs in the order in which they were given."""
    series = dict(con.execute("SELECT source_id, count(*) FROM series GROUP BY source_id").fetchall())
    return cap((_source_view(s, series.get(s.get("source_id"), 0)) for s in sources), MAX_SOURCES)


def _source_view(source: Mapping[str, Any], series: int) -> SourceView:
    notes = [fmt.clean(n, 300) for n in str(source.get("notes") or "").splitlines() if n.strip()]
    return SourceView(
        path=fmt.clean(source.get("path"), 240) or _("unnamed input"),
        instance=fmt.clean(source.get("instance"), 120),
        read_as=source_words.read_as(source),
        version=source_words.version(source),
        size=source.get("bytes"),
        gave=source_words.gave(source),
        adds_up=source_words.adds_up(source),
        series=series,
        window=Window(fmt.to_utc(source.get("first_ts")), fmt.to_utc(source.get("last_ts"))),
        clock=source_words.clock(source),
        offset=source_words.offset(source),
        nothing=fmt.clean(source.get("nothing"), 300),
        cut=bool(source.get("cut")),
        notes=cap(notes, MAX_SOURCE_NOTES),
    )


def source_totals(sources: Sequence[Mapping[str, Any]]) -> SourceTotals:
    """Counts summed over all inputs; what an input does not tell counts as nothing."""

    def total(name: str, unit: str) -> int:
        return sum(v for s in sources if source_words.unit_of(s) == unit and isinstance(v := s.get(name), int))

    return SourceTotals(
        lines=total("lines", "lines"),
        matched=total("matched_lines", "lines"),
        ignored=total("ignored_lines", "lines"),
        unmatched=total("unmatched_lines", "lines"),
        other=total("other_lines", "lines"),
        samples=total("records", "samples"),
        requests=total("records", "requests"),
    )
