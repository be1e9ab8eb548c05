"""The clock of a log applied to many stamps at once: the same decisions as `Clock.to_utc` takes one by one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from analyzer.parsers.bulk.lines import Ints, Mask
from analyzer.parsers.bulk.moments import NO_TIME
from analyzer.sources.timestamps import DAY_US, MICROSECOND, NO_YEAR, Clock, from_naive_us, near, replace_year, to_naive_us

_YEARLESS_END = to_naive_us(datetime(NO_YEAR + 1, 1, 1))
_SURELY_NEAR = timedelta(days=180)
# Zones change their offset at quarters of an hour.
_QUARTER_US = 900_000_000


@dataclass(slots=True)
class Stamps:
    """Stamps of records in line order, as they read (microseconds since 1970, NO_TIME without one).

    `inner_ahead` is what the inner stamp itself says it is ahead of UTC, NO_TIME where it does not tell; `outer_known`
    marks outer stamps that are UTC already. Stamps without a year are in NO_YEAR.
    """

    inner: Ints
    inner_ahead: Ints
    outer: Ints
    outer_known: Mask


def utc_of(clock: Clock, stamps: Stamps) -> tuple[Ints, Ints]:
    """(ts, outer_ts) in microseconds UTC, NO_TIME where there is none; `clock` learns as it goes."""
    has_inner, has_outer = stamps.inner != NO_TIME, stamps.outer != NO_TIME
    aware = has_inner & (stamps.inner_ahead != NO_TIME)
    outer_naive = has_outer & ~stamps.outer_known
    inner_naive = has_inner & ~aware
    # in the order in which they are met: of a record, the collector's stamp first
    naive = np.stack((np.where(outer_naive, stamps.outer, NO_TIME), np.where(inner_naive, stamps.inner, NO_TIME)), axis=1)
    beside = np.stack((np.full(len(naive), NO_TIME), np.where(has_outer & stamps.outer_known, stamps.outer, NO_TIME)), axis=1)
    flat, by = naive.ravel(), beside.ravel()
    there = np.flatnonzero(flat != NO_TIME)
    flat[there] = _to_utc(clock, flat[there], by[there])
    found = flat.reshape(-1, 2)
    outer = np.where(outer_naive, found[:, 0], stamps.outer)
    inner = np.where(aware, stamps.inner - np.where(aware, stamps.inner_ahead, 0), found[:, 1])
    return np.where(has_inner, inner, outer), outer


def _to_utc(clock: Clock, naive: Ints, beside: Ints) -> Ints:
    dated = _with_years(clock, naive, beside)
    if clock.zone is None:
        return dated - clock.offset // MICROSECOND
    quarters, index = np.unique(dated // _QUARTER_US, return_inverse=True)
    ahead = [_ahead(clock, int(q) * _QUARTER_US) for q in quarters.tolist()]
    return dated - np.array(ahead, np.int64)[index]


def _ahead(clock: Clock, us: int) -> int:
    """What the given zone is ahead of UTC at this time of its own."""
    naive = from_naive_us(us)
    return (naive - naive.replace(tzinfo=clock.zone).astimezone(UTC).replace(tzinfo=None)) // MICROSECOND


def _with_years(clock: Clock, naive: Ints, beside: Ints) -> Ints:
    """`naive` with years for those that have none."""
    yearless = naive < _YEARLESS_END
    if not yearless.any():
        return naive
    result = naive.copy()
    by_outer = np.flatnonzero(yearless & (beside != NO_TIME)) if clock.year is None else np.zeros(0, np.int64)
    if len(by_outer):
        result[by_outer] = _nearest(naive[by_outer], beside[by_outer])
    alone = np.setdiff1d(np.flatnonzero(yearless), by_outer, assume_unique=True)
    if len(alone):
        short = naive[alone]
        years = clock.years_of(short)
        pairs, index = np.unique((short // DAY_US) * 10_000 + years, return_inverse=True)
        result[alone] = short + np.array([_moved(*divmod(int(p), 10_000)) for p in pairs.tolist()], np.int64)[index]
    return result


def _nearest(short: Ints, beside: Ints) -> Ints:
    """Each stamp in the year that brings it closest to the collector's."""
    pairs, index = np.unique(np.stack((short // DAY_US, beside // DAY_US), axis=1), axis=0, return_inverse=True)
    moved: list[int] = []
    sure: list[bool] = []
    for day, other in pairs.tolist():
        dated = near(from_naive_us(day * DAY_US), from_naive_us(other * DAY_US))
        moved.append((dated - from_naive_us(day * DAY_US)) // MICROSECOND)
        sure.append(abs(dated - from_naive_us(other * DAY_US)) < _SURELY_NEAR)
    found = short + np.array(moved, np.int64)[index]
    # half a year away the hour decides
    for i in np.flatnonzero(~np.array(sure)[index]).tolist():
        found[i] = to_naive_us(near(from_naive_us(int(short[i])), from_naive_us(int(beside[i]))))
    return found


def _moved(day: int, year: int) -> int:
    """Microseconds from a day of NO_YEAR to the same day of `year`."""
    short = from_naive_us(day * DAY_US)
    return (replace_year(short, year) - short) // MICROSECOND
