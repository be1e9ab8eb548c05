"""One input in words: what it was read as, what it gave, whose clock, and why nothing where it gave nothing.

Takes rows of the table `sources`; the report and the terminal summary say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from analyzer.report import fmt, words

Source = Mapping[str, Any]
_FATES = (("matched_lines", "matched"), ("ignored_lines", "known"), ("unmatched_lines", "unmatched"), ("other_lines", "other"))
_FOLDER = re.compile(r"(?<=against ).*/(?=[^/]+, agreement)")


def read_as(source: Source) -> str:
    """`engine log, sglang, in kubectl`."""
    name = fmt.clean(source.get("format"), 60)
    kind = words.FORMATS.get(name, (name, ""))[0]
    wrapper = fmt.clean(source.get("wrapper"), 40)
    parts = (kind, fmt.clean(source.get("engines"), 60).replace(",", ", "))
    return ", ".join(p for p in parts if p) + (f", in {wrapper}" if wrapper else "")


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
    text = fmt.plural(count, unit.removesuffix("s"))
    if unit == "lines":
        known = [(word, value) for column, word in _FATES if isinstance(value := source.get(column), int)]
        return f"{text} = " + " + ".join(f"{fmt.number(value)} {word}" for word, value in known) if known else text
    left = [
        f"{fmt.number(value)} {what}"
        for column, what in (("unmatched_lines", "not understood"), ("other_lines", "of no model server"))
        if isinstance(value := source.get(column), int) and value
    ]
    return ", ".join([text, *left])


def adds_up(source: Source) -> bool | None:
    """False when the fates of the lines do not sum to the lines, None when a count is not known."""
    fates = [source.get(column) for column, _ in _FATES]
    counts = [f for f in fates if isinstance(f, int)]
    lines = source.get("lines")
    return sum(counts) == lines if isinstance(lines, int) and len(counts) == len(_FATES) else None


def clock(source: Source) -> str:
    """Which stamps were believed, and what zone they were taken for."""
    name = source.get("clock")
    offset = source.get("utc_offset_s")
    if not name and offset is None:
        return "no time stamps" if source.get("first_ts") is None else "not said"
    zone = f", taken as {fmt.utc_offset(float(offset))}" if offset is not None else ""
    own = "the log's own stamps" if unit_of(source) == "lines" else "the records' own times"
    which = {
        "inner": own,
        "outer": "the collector's stamps",
        "samples": "the samples' times",
        "given": "the time given with --at",
        "file": "the file's time, since its scrapes carry none",
    }.get(str(name or "inner"), fmt.clean(name, 40))
    return which if name == "outer" else which + zone


def offset(source: Source) -> str:
    """What was added to its times and why, or what the signals say where nothing was; empty where nobody can tell."""
    added = source.get("offset_s")
    estimate = source.get("offset_estimate_s")
    # Which input it was compared with is told by its name alone: its path stands in the same list.
    basis = _FOLDER.sub("", fmt.clean(source.get("offset_basis"), 300))
    if added:
        text = f"{fmt.signed_duration(added)} added, "
        if source.get("offset_from") == "given":
            told = f"; signals tell {fmt.signed_duration(estimate)} ({basis})" if estimate is not None else ""
            return f"{text}as given with --offset{told}"
        return f"{text}estimated by {basis}" if basis else f"{text}estimated"
    if estimate is not None:
        return f"no offset added ({fmt.signed_duration(estimate)} by {basis})"
    return f"offset {basis}" if basis else ""


def version(source: Source) -> str:
    """`0.5.4 to 0.5.9 (inferred)`; empty when not known."""
    ends = [fmt.clean(source.get(f"version_{end}"), 40) for end in ("min", "max")]
    text = " to ".join(dict.fromkeys(e for e in ends if e))
    told = fmt.clean(source.get("version_from"), 20)
    return f"{text} ({told})" if text and told else text
