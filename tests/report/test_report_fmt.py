"""Numbers, times and text are written in one way, and never say more than is known."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from analyzer.report import fmt

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def plain(text: str) -> str:
    """With ordinary spaces, to keep the expectations readable."""
    return text.replace(fmt.NBSP, " ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "not reported"),
        (0, "0 s"),
        (0.00025, "250 µs"),
        (0.34, "340 ms"),
        (0.9999, "1 s"),
        (2.03, "2 s"),
        (41.92, "41.9 s"),
        (59.97, "1 min"),
        (133, "2 min 13 s"),
        (3599.7, "1 h"),
        (11_100, "3 h 5 min"),
        (86_399, "1 d"),
        (200_000, "2 d 8 h"),
        (-133, "-2 min 13 s"),
        (math.inf, "infinite"),
    ],
)
def test_durations_are_for_people(seconds: float | None, text: str) -> None:
    assert plain(fmt.duration(seconds)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not reported"),
        (0.0, "0 %"),
        (0.0001, "under 0.1 %"),
        (0.452, "45.2 %"),
        (0.9987, "99.9 %"),
        (0.99996, "over 99.9 %"),
        (1.0, "100 %"),
        (1.7, "170 %"),
    ],
)
def test_a_share_is_not_rounded_to_nothing_or_all(value: float | None, text: str) -> None:
    assert plain(fmt.share(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (12.0, "12"),
        (0.3, "0.3"),
        (1234.5, "1,234"),
        (0.00001, "1e-05"),
        (3.14159, "3.142"),
        (math.nan, "not a number"),
        (None, "not reported"),
    ],
)
def test_plain_numbers(value: float | None, text: str) -> None:
    assert fmt.number(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1, "requests", "1 request"),
        (2, "requests", "2 requests"),
        (1.0, "s", "1 s"),
        (1, "tokens/s", "1 tokens/s"),
        (True, "", "yes"),
        (None, "s", "not reported"),
        (64424509440, "bytes", "60 GiB"),
        ("r1", "", "r1"),
        (0.5, "share", "50 %"),
        (NOON, "", "2026-11-30 12:00:00"),
    ],
)
def test_values_with_units(value: object, unit: str, text: str) -> None:
    assert plain(fmt.measure(value, unit)) == text


def test_text_loses_control_characters_and_says_what_was_cut() -> None:
    assert fmt.clean("a\x1b[31m\x00b\nc\u202ed\ud800") == "a[31mb cd\ufffd"
    assert fmt.clean("x" * 310) == "x" * 300 + "… [10 more characters]"
    assert fmt.clean("x" * 300) == "x" * 300
    assert fmt.clean("y" * 10_000_000, 5) == "yyyyy… [9,999,995 more characters]"
    assert fmt.clean(None) == ""


def test_sql_keeps_its_lines() -> None:
    assert fmt.clean_block("SELECT 1\r\n\tFROM x\x07\n") == "SELECT 1\n FROM x"
    assert fmt.clean_block("s" * 12, 10) == "s" * 10 + "\n… [2 more characters]"


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (None, None, "unknown"),
        (NOON, None, "from 2026-11-30 12:00:00, end unknown"),
        (None, NOON, "start unknown, to 2026-11-30 12:00:00"),
        (NOON, NOON + timedelta(seconds=90), "2026-11-30 12:00:00 to 12:01:30"),
        (NOON, NOON + timedelta(hours=13), "2026-11-30 12:00:00 to 2026-12-01 01:00:00"),
        (NOON, NOON + timedelta(milliseconds=40), "2026-11-30 12:00:00 to 12:00:00.040"),
        (NOON.astimezone(timezone(timedelta(hours=9))), None, "from 2026-11-30 12:00:00, end unknown"),
    ],
)
def test_time_ranges_are_utc(start: datetime | None, end: datetime | None, text: str) -> None:
    assert fmt.span(start, end) == text


def test_times_are_read_from_datetimes_and_iso_text() -> None:
    assert fmt.to_utc("2026-11-30T12:00:00Z") == NOON
    assert fmt.to_utc("2026-11-30T14:00:00+02:00") == NOON
    assert fmt.to_utc(datetime(2026, 11, 30, 12, 0)) == NOON
    assert fmt.to_utc("yesterday") is None
    assert fmt.to_utc(12) is None
    assert fmt.from_epoch(1e30) is None


def test_prose_keeps_a_number_with_its_unit() -> None:
    text = fmt.prose("up to 34 requests waited 16 s, 95 % used, 5 min 49 s in all; 3 hosts", 200)
    assert text.count(fmt.NBSP) == 5
    assert plain(text) == "up to 34 requests waited 16 s, 95 % used, 5 min 49 s in all; 3 hosts"


def test_a_range_within_a_day_is_said_without_the_date() -> None:
    start = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
    assert fmt.clock_span(start, start + timedelta(seconds=20)) == "23:59:00 to 23:59:20"
    assert fmt.clock_span(start, start) == "23:59:00"
    assert fmt.clock_span(start, start + timedelta(seconds=90)) == "2026-11-30 23:59:00 to 2026-12-01 00:00:30"


@pytest.mark.parametrize(("seconds", "said"), [(25200.0, "+7\u00a0h"), (-1.5, "-1.5\u00a0s"), (0.0, "0\u00a0s")])
def test_a_shift_has_its_sign(seconds: float, said: str) -> None:
    assert fmt.signed_duration(seconds) == said
