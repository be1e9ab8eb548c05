"""One input in words: what it was read as, what it gave, whose clock, and why nothing where it gave nothing.

Takes rows of the table `sources`; the report and the terminal summary say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analyzer.language import N_, _
from analyzer.report import fmt, words

# What a terminal is told needs nothing of a report.
if TYPE_CHECKING:
    from analyzer.report.model import SourceTotals

Source = Mapping[str, Any]
# What became of the lines of a log, by column.
_FATES = {
    "matched_lines": N_("{n} matched"),
    "ignored_lines": N_("{n} known"),
    "unmatched_lines": N_("{n} unmatched"),
    "other_lines": N_("{n} other"),
}
_LEFT = {"unmatched_lines": N_("{n} not understood"), "other_lines": N_("{n} of no model server")}
_VERSION_FROM = {"stated": N_("stated"), "inferred": N_("inferred")}
# What an offset rests on, as the table `sources` has it.
_BASIS = re.compile(
    r"(?P<unsure>cannot be told from )?(?P<signals>.+?) against (?P<other>.+), agreement (?P<agreement>[\d.]+) over (?P<overlap>\d+ s)"
)


def read_as(source: Source) -> str:
    """`engine log, sglang, in kubectl`."""
    name = fmt.clean(source.get("format"), 60)
    kind = _(words.FORMATS.get(name, (name, ""))[0])
    wrapper = fmt.clean(source.get("wrapper"), 40)
    parts = (kind, fmt.clean(source.get("engines"), 60).replace(",", ", "), _("in {wrapper}", wrapper=wrapper) if wrapper else "")
    return fmt.clauses(parts)


def unit_of(source: Source) -> str:
    """What the input is made of: lines, samples or requests."""
    return words.FORMATS.get(str(source.get("format")), ("", "requests"))[1]


def gave(source: Source) -> str:
    """How much it gave, in what it is made of; for a log, what became of its lines. Empty where that is not known.

    Lines are counted of logs only: of a table or of JSON they say nothing.
    """
    unit = unit_of(source)
    count = source.get("lines" if unit == "lines" else "records")
    if not isinstance(count, int):
        return ""
    if unit == "lines":
        return _lines(count, {column: value for column in _FATES if isinstance(value := source.get(column), int)})
    left = [_(text, n=fmt.number(value)) for column, text in _LEFT.items() if isinstance(value := source.get(column), int) and value]
    return fmt.clauses([fmt.plural(count, unit.removesuffix("s")), *left])


def _lines(count: int, fates: Mapping[str, int]) -> str:
    parts = [_(_FATES[column], n=fmt.number(value)) for column, value in fates.items()]
    return " = ".join(p for p in (fmt.plural(count, "line"), " + ".join(parts)) if p)


def totals(total: SourceTotals) -> str:
    """What all inputs gave together: lines and what became of them, samples, requests."""
    parts = []
    if total.lines:
        fates = (total.matched, total.ignored, total.unmatched, total.other)
        parts.append(_lines(total.lines, dict(zip(_FATES, fates, strict=True))))
    if total.samples:
        parts.append(fmt.plural(total.samples, "sample"))
    if total.requests:
        parts.append(fmt.plural(total.requests, "request"))
    return _("; ").join(parts) or _("nothing")


def adds_up(source: Source) -> bool | None:
    """False when the fates of the lines do not sum to the lines, None when a count is not known."""
    fates = [source.get(column) for column in _FATES]
    counts = [f for f in fates if isinstance(f, int)]
    lines = source.get("lines")
    return sum(counts) == lines if isinstance(lines, int) and len(counts) == len(_FATES) else None


def clock(source: Source) -> str:
    """Which stamps were believed, and what zone they were taken for."""
    name = source.get("clock")
    offset = source.get("utc_offset_s")
    if not name and offset is None:
        return _("no time stamps") if source.get("first_ts") is None else _("not said")
    which = {
        "inner": _("the log's own stamps") if unit_of(source) == "lines" else _("the records' own times"),
        "outer": _("the collector's stamps"),
        "samples": _("the samples' times"),
        "given": _("the time given with --at"),
        "file": _("the file's time, since its scrapes carry none"),
    }.get(str(name or "inner"), fmt.clean(name, 40))
    if name == "outer" or offset is None:
        return which
    return _("{stamps}, taken as {zone}", stamps=which, zone=fmt.utc_offset(float(offset)))


def offset(source: Source) -> str:
    """What was added to its times and why, or what the signals say where nothing was; empty where nobody can tell."""
    added = source.get("offset_s")
    estimate = source.get("offset_estimate_s")
    basis = _basis(fmt.clean(source.get("offset_basis"), 300))
    if added:
        time = fmt.signed_duration(added)
        if source.get("offset_from") == "given":
            if estimate is None:
                return _("{time} added, as given with --offset", time=time)
            return _(
                "{time} added, as given with --offset; signals tell {estimate} ({basis})",
                time=time, estimate=fmt.signed_duration(estimate), basis=basis,
            )  # fmt: skip
        return _("{time} added, estimated by {basis}", time=time, basis=basis) if basis else _("{time} added, estimated", time=time)
    if estimate is not None:
        return _("no offset added ({estimate} by {basis})", estimate=fmt.signed_duration(estimate), basis=basis)
    return _("offset {basis}", basis=basis) if basis else ""


def _basis(text: str) -> str:
    """The stored basis of an offset in the language of the moment; one of another shape is left as it is."""
    told = _BASIS.fullmatch(text)
    if not told:
        return text
    # Which input it was compared with is told by its name alone: its path stands in the same list.
    fields = {**told.groupdict(), "other": told["other"].rpartition("/")[2]}
    if fields.pop("unsure"):
        return _("cannot be told from {signals} against {other}, agreement {agreement} over {overlap}", **fields)
    return _("{signals} against {other}, agreement {agreement} over {overlap}", **fields)


def version(source: Source) -> str:
    """`0.5.4 to 0.5.9 (inferred)`; empty when not known."""
    ends = list(dict.fromkeys(e for end in ("min", "max") if (e := fmt.clean(source.get(f"version_{end}"), 40))))
    text = _("{start} to {end}", start=ends[0], end=ends[1]) if len(ends) == 2 else "".join(ends)
    told = fmt.clean(source.get("version_from"), 20)
    return _("{version} ({told})", version=text, told=_(_VERSION_FROM.get(told, told))) if text and told else text
