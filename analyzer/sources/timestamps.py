"""Reads time stamps, and decides what a clock without a zone or a year means.

Every decision is kept as a sentence for the manifest and the report.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from analyzer.errors import KvpmError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY_US = 86_400_000_000

_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?")
_SHORT = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
MONTHS = {m: i for i, m in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)}
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")

# Years before the first engine, or far ahead, are not a log's time but a damaged stamp.
SANE_YEARS = range(2015, 2101)
# A year-less stamp that jumps back by more than this has passed New Year.
_NEW_YEAR_US = 300 * DAY_US
# Collectors stamp within minutes; zones differ by quarters of an hour.
_ZONE_STEP_S = 900


@lru_cache(maxsize=8192)
def parse_iso(text: str) -> datetime | None:
    """`2026-01-02 03:04:05[.123][zone]`, with T or a blank; naive without a zone. None when damaged.

    syslog's `Jan  2 03:04:05` comes back without its year too (see `parse_short`).
    """
    match = _ISO.fullmatch(text)
    if match is None:
        return _parse_syslog(text)
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    micro = int((match[7] or "0")[:6].ljust(6, "0"))
    if year not in SANE_YEARS:
        return None
    try:
        return datetime(year, month, day, hour, minute, second, micro, tzinfo=_zone(match[8]))
    except ValueError:
        return None


def _parse_syslog(text: str) -> datetime | None:
    match = _SYSLOG.fullmatch(text)
    if match is None or match[1] not in MONTHS:
        return None
    day, hour, minute, second = (int(match[i]) for i in range(2, 6))
    return _yearless((MONTHS[match[1]], day, hour, minute, second), match[6])


@lru_cache(maxsize=8192)
def parse_short(text: str) -> datetime | None:
    """`11-30 05:55:58`, which has no year: comes back in the year 1904 (a leap year)."""
    match = _SHORT.fullmatch(text)
    if match is None:
        return None
    month, day, hour, minute, second = (int(match[i]) for i in range(1, 6))
    return _yearless((month, day, hour, minute, second), match[6])


def parse_stamp(text: str) -> datetime | None:
    """What an engine's or a collector's logger prints: see `parse_short` and `parse_iso`, told apart by the first dash."""
    return parse_short(text) if text[2:3] == "-" else parse_iso(text)


NO_YEAR = 1904


def _yearless(parts: tuple[int, int, int, int, int], micro: str | None) -> datetime | None:
    try:
        return datetime(NO_YEAR, *parts, int((micro or "0").ljust(6, "0")))
    except ValueError:
        return None


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return None
    match = _OFFSET.fullmatch(text)
    if match is None:
        return UTC
    delta = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-delta if match[1] == "-" else delta)


def parse_epoch(value: object) -> datetime | None:
    """Epoch seconds, milliseconds, microseconds or nanoseconds, told by size; None for anything else."""
    if type(value) is float and 1.4e9 < value < 4.2e9:
        return EPOCH + timedelta(seconds=value)
    if isinstance(value, str):
        if not re.fullmatch(r"\d{10}(?:\.\d+)?|\d{13}|\d{16}|\d{19}", value):
            return None
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 1e9 < value < 1e20:
        return None
    for scale in (1, 1_000, 1_000_000, 1_000_000_000):
        seconds = value / scale
        if 1.4e9 < seconds < 4.2e9:
            return EPOCH + timedelta(seconds=seconds)
    return None


def zone_from_option(text: str) -> timezone | ZoneInfo:
    """What `--tz` means: an IANA name or an offset such as +08:00."""
    if _OFFSET.fullmatch(text):
        try:
            return _zone(text) or UTC
        except ValueError:
            raise KvpmError(f"no time zone is {text} from UTC", hint="give an offset such as +08:00") from None
    if text.upper() in ("Z", "UTC", "GMT"):
        return UTC
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise KvpmError(f"unknown time zone {text!r}", hint="use a name such as Asia/Shanghai or an offset such as +08:00") from None


def to_us(moment: datetime) -> int:
    """Microseconds since the epoch; exact, which a float of seconds is not."""
    return (moment.astimezone(UTC) - EPOCH) // MICROSECOND


def from_us(us: int) -> datetime:
    """The inverse of `to_us`, in UTC."""
    return EPOCH + timedelta(microseconds=us)


@dataclass(slots=True)
class Clock:
    """Turns a source's inner stamps into UTC.

    `zone` is what `--tz` said; without it the offset is taken from stamps of the collector, and without
    those the clock is taken to be UTC. `year` is what `--year` said; without it the year is that of a
    dated stamp in the same source, or else the latest that does not lie ahead of `newest` (the
    file's modification time).
    """

    zone: tzinfo | None
    year: int | None
    newest: datetime
    offset: timedelta = timedelta(0)
    decisions: list[str] = field(default_factory=list)
    zone_assumed: bool = False
    year_assumed: bool = False
    _dated: datetime | None = None
    _year_now: int | None = None
    _last_short: int | None = None

    def decide(self, pairs: list[tuple[datetime, datetime]], dated: datetime | None) -> None:
        """Settle zone and year from the beginning of the source.

        `pairs` are (inner naive, outer UTC) of the same records; `dated` a stamp with a year.
        """
        if self.zone is not None:
            self.decisions.append(f"stamps without a zone read as {self.zone} (--tz)")
        elif pairs:
            outer = [o.replace(tzinfo=None) for _, o in pairs]
            seconds = median((near(i, o) - o).total_seconds() for (i, _), o in zip(pairs, outer, strict=True))
            self.offset = timedelta(seconds=round(seconds / _ZONE_STEP_S) * _ZONE_STEP_S)
            if self.offset:
                self.decisions.append(
                    f"inner stamps are {_hours(self.offset)} against the collector's: inner times used, shifted to UTC by that"
                )
            else:
                self.decisions.append("inner and collector's stamps agree: inner times used, as UTC")
        else:
            self.zone_assumed = True
            self.decisions.append("stamps have no zone and nothing tells it: read as UTC (set --tz)")
        self._year_now = self.year
        if dated or pairs:
            self._dated = (dated or pairs[0][1]).replace(tzinfo=None)

    def state(self) -> dict[str, Any]:
        """What was settled and where in the year the stamps are, as plain JSON."""
        return {
            "offset_us": self.offset // MICROSECOND,
            "decisions": list(self.decisions),
            "zone_assumed": self.zone_assumed,
            "year_assumed": self.year_assumed,
            "dated_us": None if self._dated is None else to_naive_us(self._dated),
            "year_now": self._year_now,
            "last_short": self._last_short,
        }

    def go_on(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave, for the same zone and year."""
        self.offset = timedelta(microseconds=state["offset_us"])
        self.decisions = list(state["decisions"])
        self.zone_assumed = state["zone_assumed"]
        self.year_assumed = state["year_assumed"]
        self._dated = None if state["dated_us"] is None else from_naive_us(state["dated_us"])
        self._year_now = state["year_now"]
        self._last_short = state["last_short"]

    def to_utc(self, naive: datetime, outer: datetime | None = None) -> datetime:
        """A naive inner stamp as UTC; a year-less one (`parse_short`) takes the year nearest to the collector's stamp."""
        if naive.year == NO_YEAR:
            if outer is not None and self.year is None:
                naive = near(naive, outer.replace(tzinfo=None))
            else:
                naive = self._with_year(naive)
        if self.zone is not None:
            return naive.replace(tzinfo=self.zone).astimezone(UTC)
        return (naive - self.offset).replace(tzinfo=UTC)

    def _with_year(self, short: datetime) -> datetime:
        return replace_year(short, int(self.years_of(np.array([to_naive_us(short)]))[0]))

    def years_of(self, short: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The years of stamps that have none (as `to_naive_us`), the next ones in the order of the source."""
        first = from_naive_us(int(short[0]))
        if self._year_now is None and self._dated is not None:
            self._year_now = near(first, self._dated).year
        if self._year_now is None:
            self.year_assumed = True
            self._year_now = self._guess(first)
            self.decisions.append(f"stamps have no year: read as {self._year_now}, the latest that is not ahead of the file (set --year)")
        later = np.diff(short, prepend=short[0] if self._last_short is None else self._last_short)
        # newest-first logs pass it backwards
        turns = (later < -_NEW_YEAR_US).astype(np.int64) - (later > _NEW_YEAR_US)
        years = self._year_now + np.cumsum(turns)
        self.decisions += [f"the stamps pass New Year: {year} from there on" for year in years[turns > 0].tolist()]
        self._last_short, self._year_now = int(short[-1]), int(years[-1])
        return years

    def _guess(self, short: datetime) -> int:
        limit = self.newest.replace(tzinfo=None) + timedelta(days=1)
        for year in range(limit.year, limit.year - 9, -1):
            if (short.month, short.day) == (2, 29) and not _is_leap(year):
                continue
            if replace_year(short, year) <= limit:
                return year
        return limit.year


def to_naive_us(moment: datetime) -> int:
    """Microseconds from 1970 to a time without a zone, as it reads."""
    return (moment - EPOCH.replace(tzinfo=None)) // MICROSECOND


def from_naive_us(us: int) -> datetime:
    """The inverse of `to_naive_us`."""
    return EPOCH.replace(tzinfo=None) + timedelta(microseconds=us)


def near(moment: datetime, other: datetime) -> datetime:
    """`moment`, in the year that brings it closest to `other` when it has none of its own."""
    if moment.year != NO_YEAR:
        return moment
    return min((replace_year(moment, other.year + n) for n in (-1, 0, 1)), key=lambda m: abs(m - other))


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def replace_year(moment: datetime, year: int) -> datetime:
    """The same day of another year; 1 March for a 29 February that it does not have."""
    if (moment.month, moment.day) == (2, 29) and not _is_leap(year):
        return moment.replace(year=year, month=3, day=1)
    return moment.replace(year=year)


def _hours(delta: timedelta) -> str:
    minutes = round(delta.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
