"""How numbers and times are said in sentences."""

from __future__ import annotations

from datetime import datetime


def share(value: float | None) -> str:
    """0.968 as `96.8 %`."""
    if value is None:
        return "unknown"
    text = f"{value * 100:.1f}".removesuffix(".0")
    return f"{text} %"


def seconds(value: float | None) -> str:
    """Seconds for people: `3 ms`, `0.4 s`, `35 s`, `2 min 13 s`, `1 h 5 min`."""
    if value is None:
        return "unknown"
    if 0 < value < 0.1:
        return f"{value * 1000:.0f} ms" if value >= 0.001 else "under 1 ms"
    if value < 10:
        return f"{value:.1f} s".replace(".0 s", " s")
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s".replace(" 0 s", "")
    return f"{whole // 3600} h {whole % 3600 // 60} min".replace(" 0 min", "")


def count(value: float | None, unit: str = "", plural: str = "") -> str:
    """`1 request`, `1,234 requests`."""
    if value is None:
        return "an unknown number" + (f" of {plural or unit + 's'}" if unit else "")
    number = f"{round(value):,}"
    if not unit:
        return number
    return f"{number} {unit if round(value) == 1 else plural or unit + 's'}"


def clock(moment: datetime | None) -> str:
    """Time of day in UTC, `09:08:02`."""
    return "an unknown time" if moment is None else moment.strftime("%H:%M:%S")


def span(start: datetime | None, end: datetime | None) -> str:
    """`from 09:08:02 to 09:17:45 UTC`, with the date when it matters."""
    if start is None or end is None:
        return "over the capture"
    if start.date() != end.date():
        return f"from {start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"
    return f"from {clock(start)} to {clock(end)} UTC"
