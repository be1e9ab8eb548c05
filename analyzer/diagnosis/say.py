"""How numbers and times are said in sentences, in the language of the moment."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from analyzer import language
from analyzer.language import N_, _
from analyzer.units import counted

# What stands between two sentences, and between two clauses, in languages that do not write a blank and a comma.
_BETWEEN_SENTENCES = {"zh": ""}
_BETWEEN_CLAUSES = {"zh": "，"}
# The pools of a model with more than one kind of attention, as the views name them.
_POOLS = {"full attention": N_("full attention"), "sliding window": N_("sliding window"), "mamba": N_("mamba")}


def share(value: float | None) -> str:
    """0.968 as `96.8 %`."""
    if value is None:
        return _("unknown")
    text = f"{value * 100:.1f}".removesuffix(".0")
    return f"{text} %"


def seconds(value: float | None) -> str:
    """Seconds for people: `3 ms`, `0.4 s`, `35 s`, `2 min 13 s`, `1 h 5 min`."""
    if value is None:
        return _("unknown")
    if 0 < value < 0.1:
        return f"{value * 1000:.0f} ms" if value >= 0.001 else _("under 1 ms")
    if value < 10:
        return f"{value:.1f} s".replace(".0 s", " s")
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s".replace(" 0 s", "")
    return f"{whole // 3600} h {whole % 3600 // 60} min".replace(" 0 min", "")


def count(value: float | None, unit: str = "", plural: str = "") -> str:
    """`1 request`, `1,234 requests`; the unit is given in English, `plural` where it is irregular."""
    many = plural or f"{unit}s"
    if value is None:
        return counted(2, _("an unknown number of"), unit, many) if unit else _("an unknown number")
    number = f"{round(value):,}"
    return counted(round(value), number, unit, many) if unit else number


def clock(moment: datetime | None) -> str:
    """Time of day in UTC, `09:08:02`."""
    return _("an unknown time") if moment is None else moment.strftime("%H:%M:%S")


def span(start: datetime | None, end: datetime | None) -> str:
    """`from 09:08:02 to 09:17:45 UTC`, with the date when it matters."""
    if start is None or end is None:
        return _("over the capture")
    pattern = "%H:%M:%S" if start.date() == end.date() else "%Y-%m-%d %H:%M:%S"
    return _("from {start} to {end} UTC", start=start.strftime(pattern), end=end.strftime(pattern))


def pool(name: str | None) -> str | None:
    """Which of several KV pools: `sliding window`; None where there is one."""
    return None if name is None else _(_POOLS[name])


def sentences(parts: Iterable[str]) -> str:
    """Whole sentences one after the other; empty ones are left out."""
    return _BETWEEN_SENTENCES.get(language.current(), " ").join(p for p in parts if p)


def clauses(parts: Iterable[str]) -> str:
    """Parts of one statement: `one thing, another thing`; empty ones are left out."""
    return _BETWEEN_CLAUSES.get(language.current(), ", ").join(p for p in parts if p)


def listed(parts: Iterable[str]) -> str:
    """Things in a row: `one, two, three`; empty ones are left out."""
    return _(", ").join(p for p in parts if p)
