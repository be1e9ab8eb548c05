"""Clocks: zones told by the collector, years guessed, New Year and leap days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from analyzer.errors import KvpmError
from analyzer.sources.timestamps import NO_YEAR, Clock, parse_epoch, parse_iso, parse_short, zone_from_option

NEWEST = datetime(2026, 12, 1, tzinfo=UTC)


def short(text: str) -> datetime:
    moment = parse_short(text)
    assert moment is not None
    return moment


def decided(
    *,
    pairs: list[tuple[datetime, datetime]] | None = None,
    dated: datetime | None = None,
    newest: datetime = NEWEST,
    year: int | None = None,
) -> Clock:
    clock = Clock(None, year, newest)
    clock.decide(pairs or [], dated)
    return clock


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02 03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02T03:04:05.123456789Z", datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("2026-01-02 03:04:05,678", datetime(2026, 1, 2, 3, 4, 5, 678000)),
        ("2026-01-02T03:04:05+0530", datetime(2026, 1, 1, 21, 34, 5, tzinfo=UTC)),
        ("Jan  2 03:04:05", datetime(NO_YEAR, 1, 2, 3, 4, 5)),
        ("2026-13-02 03:04:05", None), ("2026-02-30 03:04:05", None), ("1970-01-01 00:00:00", None), ("9999-01-01 00:00:00", None),
        ("2026-01-02 03:04:05+99:00", None), ("Foo  2 03:04:05", None), ("", None),
    ],
)  # fmt: skip
def test_stamps(text: str, moment: datetime | None) -> None:
    assert parse_iso(text) == moment


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1767323045, 1767323045), (1767323045.5, 1767323045.5), (1767323045123, 1767323045.123), ("1767323045123456", 1767323045.123456),
        (1767323045123456789, 1767323045.123457), (5, None), (True, None), (None, None), ("x", None), (float("nan"), None),
        (float("inf"), None), (10**400, None), (-1767323045, None), ("1767323045.5", 1767323045.5),
    ],
)  # fmt: skip
def test_epochs_by_size(value: object, seconds: float | None) -> None:
    moment = parse_epoch(value)
    assert (moment.timestamp() if moment else None) == (pytest.approx(seconds, abs=1e-5) if seconds else None)


@pytest.mark.parametrize(("hours", "said"), [(8, "+08:00"), (-7, "-07:00"), (5.5, "+05:30"), (0, "agree")])
def test_clocks_hours_apart_are_a_time_zone(hours: float, said: str) -> None:
    outer = [datetime(2026, 1, 2, 3, 4, s, tzinfo=UTC) for s in range(30)]
    # the collector is a little late, and some lines are very late
    pairs = [((o + timedelta(hours=hours, seconds=-1 - (600 if i % 10 == 0 else 0))).replace(tzinfo=None), o) for i, o in enumerate(outer)]
    clock = decided(pairs=pairs)
    assert clock.offset == timedelta(hours=hours)
    assert clock.to_utc(pairs[1][0]) == pairs[1][1] - timedelta(seconds=1)
    assert said in clock.decisions[0]
    assert "used" in clock.decisions[0]


def test_a_zone_that_was_given_wins() -> None:
    clock = Clock(ZoneInfo("Asia/Shanghai"), None, NEWEST)
    clock.decide([(datetime(2026, 1, 2, 3), datetime(2026, 1, 2, 3, tzinfo=UTC))], None)
    assert clock.to_utc(datetime(2026, 1, 2, 3)) == datetime(2026, 1, 1, 19, tzinfo=UTC)
    assert "--tz" in clock.decisions[0]


@pytest.mark.parametrize("hours", [-8, 8])
def test_zone_and_year_across_new_year(hours: int) -> None:
    """Inner stamps have no year and lie on the other side of New Year than the collector's."""
    outer = datetime(2027, 1, 1, 2 if hours < 0 else 23, 0, tzinfo=UTC) - timedelta(days=0 if hours < 0 else 1)
    inner = (outer + timedelta(hours=hours)).replace(tzinfo=None)
    clock = decided(pairs=[(inner.replace(year=NO_YEAR), outer)] * 3)
    assert clock.offset == timedelta(hours=hours)
    assert clock.to_utc(inner.replace(year=NO_YEAR)) == outer


def test_the_year_is_the_latest_that_is_not_ahead_of_the_file() -> None:
    assert decided().to_utc(short("11-30 05:55:58")).year == 2026
    assert decided().to_utc(short("12-25 05:55:58")).year == 2025
    assert decided(year=2024).to_utc(short("12-25 05:55:58")).year == 2024


def test_stamps_that_pass_new_year() -> None:
    clock = decided(newest=datetime(2027, 1, 3, tzinfo=UTC))
    years = [
        clock.to_utc(short(s)).year for s in ("12-30 23:59:58", "12-31 23:59:59", "01-01 00:00:00", "12-31 23:59:59", "01-02 00:00:00")
    ]
    assert years == [2026, 2026, 2027, 2026, 2027]
    assert any("New Year" in d for d in clock.decisions)


def test_newest_first() -> None:
    clock = decided(newest=datetime(2027, 1, 3, tzinfo=UTC))
    years = [clock.to_utc(short(s)).year for s in ("01-02 00:00:00", "01-01 00:00:00", "12-31 23:59:59")]
    assert years == [2027, 2027, 2026]


def test_a_dated_stamp_in_the_source_gives_the_year() -> None:
    clock = decided(dated=datetime(2021, 5, 1))
    assert clock.to_utc(short("11-30 05:55:58")).year == 2020 or clock.to_utc(short("05-02 00:00:00")).year == 2021
    assert decided(dated=datetime(2027, 1, 1)).to_utc(short("12-31 23:00:00")).year == 2026


def test_leap_days() -> None:
    assert decided(newest=datetime(2026, 12, 1, tzinfo=UTC)).to_utc(short("02-29 01:00:00")) == datetime(2024, 2, 29, 1, tzinfo=UTC)
    assert decided(year=2026).to_utc(short("02-29 01:00:00")) == datetime(2026, 3, 1, 1, tzinfo=UTC)
    decided(pairs=[(short("02-29 01:00:00"), datetime(2026, 3, 1, 1, tzinfo=UTC))])


@pytest.mark.parametrize("text", ["Asia/Shanghai", "+08:00", "-0730", "UTC", "Z", "gmt"])
def test_zones_that_can_be_given(text: str) -> None:
    datetime(2026, 1, 1, tzinfo=zone_from_option(text)).astimezone(UTC)


@pytest.mark.parametrize("text", ["", "Mars/Phobos", "+99:00", "../etc/passwd", "8"])
def test_zones_that_there_are_not(text: str) -> None:
    with pytest.raises(KvpmError):
        zone_from_option(text)


def test_each_yearless_stamp_takes_the_year_of_its_own_collector_stamp() -> None:
    clock = Clock(None, None, datetime(2026, 12, 1, tzinfo=UTC))
    outer = [datetime(2025, 3, 1, 12, tzinfo=UTC), datetime(2025, 11, 1, 12, tzinfo=UTC), datetime(2026, 8, 10, 12, tzinfo=UTC)]
    inner = [parse_short(o.strftime("%m-%d %H:%M:%S")) for o in outer]
    assert all(inner)
    clock.decide([(i, o) for i, o in zip(inner, outer, strict=True) if i], None)
    assert [clock.to_utc(i, o) for i, o in zip(inner, outer, strict=True) if i] == outer
