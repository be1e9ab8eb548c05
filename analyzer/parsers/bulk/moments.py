"""Time stamps of many lines at once: which digit runs hold which part, and the microseconds that follow."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np

from analyzer.parsers.bulk.lines import Ints, Mask
from analyzer.sources.timestamps import DAY_US, MONTHS, NO_YEAR, SANE_YEARS, parse_iso, parse_stamp

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_NO_DAY = np.iinfo(np.int64).min
_PARTS = (
    re.compile(
        r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)[T ](?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?"
        r"(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    ),
    re.compile(r"(?P<m>\d\d)-(?P<d>\d\d) (?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:\.(?P<f>\d{1,6}))?"),
    re.compile(r"(?P<month>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) (?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:\.(?P<f>\d{1,6}))?"),
)  # fmt: skip

# What stands for a stamp that is not there, or is no time.
NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Moment:
    """A stamp whose parts are the digit runs `runs` (by part: y m d H M S f; numbers of a line's runs).

    `month` is set where it is a word. `zone` is what the stamp itself says it is ahead of UTC; None without one.
    Stamps without a year are in NO_YEAR.
    """

    runs: dict[str, int]
    month: int | None
    zone: timedelta | None

    def microseconds(self, number: Callable[[int], Ints], length: Callable[[int], Ints]) -> tuple[Ints, Mask]:
        """(microseconds since 1970 as the stamp reads, which of them are times at all); `number` and `length` are of a run."""
        year = number(self.runs["y"]) if "y" in self.runs else np.int64(NO_YEAR)
        month = number(self.runs["m"]) if self.month is None else np.int64(self.month)
        days = _days((year * 100 + month) * 100 + number(self.runs["d"]))
        hour, minute, second = (number(self.runs[part]) for part in "HMS")
        good = (days != _NO_DAY) & (hour < 24) & (minute < 60) & (second < 60)
        us = np.where(good, days, 0) * DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000
        if "f" in self.runs:
            places = length(self.runs["f"])
            us = us + number(self.runs["f"]) * 10 ** np.maximum(6 - places, 0) // 10 ** np.maximum(places - 6, 0)
        return us, good


def moment_in(text: str, begin: int, end: int, run_at: dict[int, int]) -> Moment | None:
    """How the stamp at `text[begin:end]` is read, None when it is none; `run_at` gives the number of the run that begins at an offset."""
    stamp = text[begin:end]
    for pattern in _PARTS:
        match = pattern.fullmatch(stamp)
        if match is None:
            continue
        read = parse_stamp(stamp)
        runs = {part: run_at.get(begin + match.start(part)) for part in match.groupdict() if part in "ymdHMSf" and match[part]}
        if read is None or any(run is None for run in runs.values()):
            return None
        named = match.groupdict().get("month")
        return Moment({p: r for p, r in runs.items() if r is not None}, MONTHS[named] if named else None, read.utcoffset())
    return None


def find_moment(text: str, around: int, moments: tuple[datetime | None, ...]) -> tuple[int, int] | None:
    """Where the stamp that holds offset `around` and reads as one of `moments` stands in `text`."""
    for pattern in _PARTS:
        for match in pattern.finditer(text, max(around - 40, 0)):
            if match.start() <= around < match.end() and parse_iso(match[0]) in moments:
                return match.span()
    return None


def _days(dates: Ints) -> Ints:
    """Days since 1970 of dates as YYYYMMDD; _NO_DAY for what is none."""
    if len(dates) and dates.min() == dates.max():
        return np.full(len(dates), _day(int(dates[0])))
    values, where = np.unique(dates, return_inverse=True)
    return np.array([_day(int(v)) for v in values], np.int64)[where]


def _day(number: int) -> int:
    year, month, day = number // 10_000, number // 100 % 100, number % 100
    if year not in SANE_YEARS and year != NO_YEAR:
        return int(_NO_DAY)
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return int(_NO_DAY)
