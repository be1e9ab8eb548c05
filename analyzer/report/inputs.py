"""What was read: facts with the line they came from, sources with what became of their lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analyzer.diagnosis.model import Diagnosis, Window
from analyzer.report import fmt
from analyzer.report.model import (
    MAX_CHARTED_INSTANCES,
    MAX_FACTS_PER_INSTANCE,
    MAX_SOURCE_NOTES,
    MAX_SOURCES,
    Capped,
    FactGroup,
    FactView,
    LineTotals,
    SourceView,
    cap,
)


def name_of(instance: str | None) -> str:
    """An instance's name as the page shows it."""
    return fmt.clean(instance, 120) or "unnamed instance"


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
                name_of(name),
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
    return FactView(run, key, value or fmt.NOT_REPORTED, _read_from(fact, paths))


def _read_from(fact: Mapping[str, Any], paths: Mapping[Any, Any]) -> str:
    source = fact.get("source")
    if not source:
        source = fact.get("path") or paths.get(fact.get("source_id")) or ""
        record = fact.get("record") or fact.get("line")
        if source and record:
            source = f"{source}:{record}"
    return fmt.clean(source or fact.get("read_from"), 240)


def source_views(sources: Sequence[Mapping[str, Any]]) -> Capped[SourceView]:
    """The inputs in the order in which they were given."""
    return cap(map(_source_view, sources), MAX_SOURCES)


def _source_view(source: Mapping[str, Any]) -> SourceView:
    counts = {name: _count(source, name) for name in ("matched", "ignored", "unmatched", "other")}
    lines = source.get("lines")
    known = [c for c in counts.values() if c is not None]
    versions = [fmt.clean(source.get(f"version_{end}"), 40) for end in ("min", "max")]
    version = " to ".join(dict.fromkeys(v for v in versions if v))
    if version and source.get("version_from"):
        version += f" ({fmt.clean(source['version_from'], 20)})"
    read_as = [fmt.clean(source.get("format"), 60), fmt.clean(source.get("engines"), 60)]
    wrapper = fmt.clean(source.get("wrapper"), 40)
    notes = [fmt.clean(n, 300) for n in str(source.get("notes") or "").splitlines() if n.strip()]
    return SourceView(
        path=fmt.clean(source.get("path"), 240) or "unnamed input",
        instance=fmt.clean(source.get("instance"), 120),
        read_as=", ".join(p for p in read_as if p) + (f", in {wrapper}" if wrapper else ""),
        version=version,
        size=source.get("bytes"),
        lines=lines,
        **counts,
        adds_up=sum(known) == lines if lines is not None and len(known) == 4 else None,
        window=Window(fmt.to_utc(source.get("first_ts")), fmt.to_utc(source.get("last_ts"))),
        clock=_clock_words(source),
        cut=bool(source.get("cut")),
        notes=cap(notes, MAX_SOURCE_NOTES),
    )


def _count(source: Mapping[str, Any], name: str) -> int | None:
    value = source.get(f"{name}_lines")
    return value if isinstance(value, int) else None


def _clock_words(source: Mapping[str, Any]) -> str:
    """Which stamps were believed, and what zone they were taken for."""
    clock = source.get("clock")
    offset = source.get("utc_offset_s")
    if not clock and offset is None:
        return "no time stamps" if source.get("first_ts") is None else "not said"
    if clock == "outer":
        return "the collector's stamps"
    which = "the log's own stamps" if clock in (None, "inner") else fmt.clean(clock, 40)
    return which + (f", taken as {fmt.utc_offset(float(offset))}" if offset is not None else "")


def line_totals(sources: Sequence[Mapping[str, Any]]) -> LineTotals:
    """Line counts summed over all inputs; what an input does not tell counts as nothing."""

    def total(name: str) -> int:
        return sum(v for s in sources if isinstance(v := s.get(name), int))

    return LineTotals(
        lines=total("lines"),
        matched=total("matched_lines"),
        ignored=total("ignored_lines"),
        unmatched=total("unmatched_lines"),
        other=total("other_lines"),
    )
