"""How numbers, times and text from a trace are written in the report: the one place that decides.

Times are UTC; the report says so once, so no function here appends the zone.
"""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, datetime

from analyzer.diagnosis.say import clauses as clauses
from analyzer.diagnosis.say import listed as listed
from analyzer.diagnosis.say import sentences as sentences
from analyzer.language import N_, _
from analyzer.units import counted

MONTHS = (
    N_("Jan"), N_("Feb"), N_("Mar"), N_("Apr"), N_("May"), N_("Jun"), N_("Jul"), N_("Aug"), N_("Sep"), N_("Oct"), N_("Nov"), N_("Dec"),
)  # fmt: skip
# A value and its unit must not be torn apart by a line break.
NBSP = "\u00a0"
_PERCENT = f"{NBSP}%"


def clean(value: object, limit: int = 300) -> str:
    """Text from a trace as one line without control characters, at most `limit` characters.

    Bidirectional overrides go too: they can make a line read as something it does not say. What was
    cut off is counted at the end, so a cut is never silent.
    """
    if value is None:
        return ""
    text = str(value)
    # Far more than is ever shown; keeps a 100 MB "line" from being walked character by character.
    head = text[: limit * 4]
    kept = []
    for char in head:
        category = unicodedata.category(char)
        if char in "\n\r\t\v\f" or category in ("Zl", "Zp"):
            kept.append(" ")
        elif category == "Cs":
            kept.append("\ufffd")
        elif category not in ("Cc", "Cf", "Cn", "Co"):
            kept.append(char)
    line = " ".join("".join(kept).split())
    hidden = max(0, len(line) - limit) + len(text) - len(head)
    if hidden == 0:
        return line
    return f"{line[:limit].rstrip()}… {_more(hidden)}"


def _more(characters: int) -> str:
    return _("[{n} more characters]", n=number(characters))


def name_of(instance: str | None) -> str:
    """An instance's name as the page shows it."""
    return clean(instance, 120) or _("unnamed instance")


_VALUE_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|UTC|tokens?|requests?|GiB|MiB)(?![\w-]))")


def prose(value: object, limit: int) -> str:
    """A sentence with numbers in it: cleaned, and no number parted from its unit by a line break."""
    return _VALUE_UNIT.sub(NBSP, clean(value, limit))


# A sentence ends at a full stop before a blank, not at that of 0.5.9 or of `server.log`; Chinese writes no blank.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z])|(?<=[。！？])")


def headline(text: str) -> tuple[str, str]:
    """The first sentence of a text, and the rest of it."""
    parts = _SENTENCE_END.split(text, maxsplit=1)
    return parts[0], parts[1].strip() if len(parts) > 1 else ""


def clean_block(value: object, limit: int = 3000) -> str:
    """The same for text that keeps its lines (SQL): control characters go, line breaks stay."""
    if value is None:
        return ""
    text = str(value).replace("\r\n", "\n")
    head = text[:limit]
    kept = "".join(
        c if c == "\n" else " " if c == "\t" else "\ufffd" if unicodedata.category(c) == "Cs" else c
        for c in head
        if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cn", "Co")
    ).strip("\n")
    if len(text) > limit:
        kept += f"\n… {_more(len(text) - limit)}"
    return kept


def not_reported() -> str:
    """What is said where no source told a value."""
    return _("not reported")


def number(value: float | int | None) -> str:
    """A plain number: thousands grouped, four significant digits for fractions."""
    if value is None:
        return not_reported()
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return _("not a number") if math.isnan(value) else (_("infinite") if value > 0 else _("minus infinite"))
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"
    if abs(value) < 1e-4:
        return f"{value:.2g}"
    digits = 3 - math.floor(math.log10(abs(value)))
    return f"{value:.{min(max(digits, 0), 6)}f}".rstrip("0").rstrip(".")


def compact(value: float) -> str:
    """A short number for an axis: `12k`, `1.5M`."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.4g}"


def share(value: float | None) -> str:
    """A share 0..1 as per cent. Rounding never turns "nearly" into 0 % or 100 %."""
    if value is None:
        return not_reported()
    if not math.isfinite(value):
        return number(float(value))
    percent = value * 100
    if 99.95 <= percent < 100:
        return _("over {share}", share="99.9" + _PERCENT)
    if 0 < percent < 0.05:
        return _("under {share}", share="0.1" + _PERCENT)
    text = f"{percent:,.1f}"
    return text.removesuffix(".0") + _PERCENT


def duration(seconds: float | None) -> str:
    """A duration for people: `340 ms`, `41.9 s`, `2 min 13 s`, `3 h 5 min`."""
    if seconds is None:
        return not_reported()
    if not math.isfinite(seconds):
        return number(float(seconds))
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds == 0:
        return f"0{NBSP}s"
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g}{NBSP}µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g}{NBSP}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + f"{NBSP}s"
    whole = round(seconds)
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    minutes = round(whole / 60)
    if minutes < 1440:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = round(whole / 3600)
    return _two(hours // 24, "d", hours % 24, "h")


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    text = f"{big:,}{NBSP}{big_unit}"
    return f"{text}{NBSP}{small}{NBSP}{small_unit}" if small else text


def size(value: float | int | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return not_reported()
    if not math.isfinite(value):
        return number(float(value))
    amount = float(value)
    if abs(amount) < 1024:
        return f"{number(value)}{NBSP}B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if abs(amount) < 1024 or unit == "TiB":
            break
    return f"{amount:,.1f}".removesuffix(".0") + f"{NBSP}{unit}"


def measure(value: object, unit: str = "") -> str:
    """Any evidence or fact value with its unit, the way a person would write it."""
    if value is None:
        return not_reported()
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, datetime):
        return instant(value)
    if not isinstance(value, int | float):
        text = clean(value)
        return f"{text}{NBSP}{unit}" if unit and text else text
    if unit == "s":
        return duration(float(value))
    if unit == "share":
        return share(float(value))
    if unit == "bytes":
        return size(value)
    text = number(value)
    if not unit:
        return text
    # units are plurals; "1 requests" looks careless
    one = unit[:-1] if unit.endswith("s") and unit.isalpha() and len(unit) > 2 else unit
    return counted(value, text, one, unit).replace(" ", NBSP)


def to_utc(value: object) -> datetime | None:
    """A `datetime` or ISO text as an aware UTC time; None when it is neither."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def from_epoch(seconds: float) -> datetime | None:
    """The UTC time of an epoch second; None where the calendar ends."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def epoch_ms(value: datetime) -> int:
    """A UTC time in milliseconds since the epoch, as scripts count."""
    known = to_utc(value)
    assert known is not None
    return round(known.timestamp() * 1000)


def instant(value: datetime | None, *, fraction: bool = False) -> str:
    """A date and time to the second (with `fraction`: to the millisecond, unless it is whole)."""
    if value is None:
        return _("unknown")
    return f"{_date(value)} {clock(value, fraction=fraction)}"


def clock(value: datetime | None, *, fraction: bool = False) -> str:
    """The time of day alone."""
    if value is None:
        return _("unknown")
    value = value.astimezone(UTC) if value.tzinfo else value
    text = value.strftime("%H:%M:%S")
    if fraction and value.microsecond:
        text += f".{value.microsecond // 1000:03d}"
    return text


def _date(value: datetime) -> str:
    value = value.astimezone(UTC) if value.tzinfo else value
    # strftime pads years below 1000 differently from platform to platform.
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"


def span(start: datetime | None, end: datetime | None) -> str:
    """A time range; the date is repeated only when it changes."""
    if start is None and end is None:
        return _("unknown")
    if start is None:
        return _("start unknown, to {end}", end=instant(end))
    if end is None:
        return _("from {start}, end unknown", start=instant(start))
    if start == end:
        return instant(start, fraction=True)
    # Two different times must not read as the same second.
    fine = instant(start) == instant(end)
    second = clock(end, fraction=fine) if _date(start) == _date(end) else instant(end, fraction=fine)
    return _("{start} to {end}", start=instant(start, fraction=fine), end=second)


def clock_span(start: datetime | None, end: datetime | None) -> str:
    """A time range within one page: times of day, with the dates where it goes over midnight."""
    if start is None or end is None or _date(start) != _date(end):
        return span(start, end)
    return clock(start) if clock(start) == clock(end) else _("{start} to {end}", start=clock(start), end=clock(end))


def signed_duration(seconds: float) -> str:
    """A shift of a clock, always with its sign: `+7 h`, `-90 s`."""
    return "+" + duration(seconds) if seconds > 0 else duration(seconds)


def plural(count: int, word: str, many: str = "") -> str:
    """`1 row`, `2 rows`; the word is given in English, with `many` for irregular plurals."""
    return counted(count, number(count), word, many or f"{word}s")


def utc_offset(seconds: float) -> str:
    """`UTC+02:00` from an offset in seconds."""
    sign = "-" if seconds < 0 else "+"
    minutes = round(abs(seconds) / 60)
    return "UTC" if minutes == 0 else f"UTC{sign}{minutes // 60:02d}:{minutes % 60:02d}"
