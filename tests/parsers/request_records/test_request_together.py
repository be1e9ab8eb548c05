"""Records of a client that are read together give what they give one by one."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_reading import T0, Reading, jsonl, read

from analyzer.parsers.request_records import together
from analyzer.parsers.request_records.fields import Fields, request_row
from analyzer.parsers.request_records.rows import Row
from analyzer.parsers.request_records.values import Values

MOMENTS = st.one_of(st.floats(T0, T0 + 9), st.integers(int(T0), int(T0) + 9), st.none())
DURATIONS = st.one_of(st.floats(0, 1000), st.integers(0, 50), st.none())
OWN = st.one_of(st.floats(0, 1e6), st.integers(0, 10**6), st.none())
ZONE = timezone(timedelta(hours=5, minutes=30))
COUNTS = st.one_of(st.integers(0, 10**6), st.none())
SOUND: dict[str, st.SearchStrategy[Any]] = {
    "first_token_ts": MOMENTS,
    "end": MOMENTS,
    "latency_ms": DURATIONS,
    "max_itl": DURATIONS,
    "prompt_tokens": COUNTS,
    "output_tokens": COUNTS,
    "retractions": COUNTS,
    "dp_rank": st.one_of(st.integers(0, 40), st.none()),
    "id": st.one_of(st.integers(), st.text(max_size=8)),
    "url": st.sampled_from(["http://a:1", "http://b:2/v1", "no", None, 7]),
    "status": st.sampled_from(["ok", "timeout", "500", 200, 404, True, False, 1, None, "of its own"]),
    "pending": st.sampled_from([True, None]),
    "error": st.sampled_from([None, "", "HTTP 503: no", 500, False, {"code": 429}]),
    "prompt": st.sampled_from(["Once", "", None, [1, 2], ["a", 1]]),
    "output": st.sampled_from(["upon", None]),
}
ODD: dict[str, st.SearchStrategy[Any]] = {
    "send_time": st.sampled_from([T0, T0 * 1000, 12.5, "2026-01-02 03:04:05", "2026-01-02T03:04:05Z", True, -1, 0, 1e300]),
    "sent_ms": st.just(T0 * 1000),
    "latency": st.sampled_from([-1, "0.5", True, 1e9, [1], float("nan"), float("inf"), 10**400]),
    "ttft_ms": st.just(5),
    "itls": st.just([0.1, 0.2]),
    "prompt_tokens": st.sampled_from([2.0, 2.5, -1, "7", 1 << 60, float("nan")]),
    "dp_rank": st.sampled_from([-1, 1 << 15, 1.0]),
    "id": st.sampled_from([{}, 1.5, True]),
    "error": st.sampled_from([{"type": "abort"}, ["a"], "Traceback\n  at\nTimeoutError", 1.5]),
    "input": st.text(max_size=3),
    "prompt_text": st.just("twice"),
}
# One kind of clock for all records of a file: together they are read, each kind in its own way.
CLOCKS: dict[str, tuple[str, str, float]] = {
    "milliseconds": ("send", "end", 1000.0),
    "microseconds named": ("send_us", "end_us", 1e6),
    "nanoseconds": ("send", "end", 1e9),
    "seconds named": ("send_s", "end_s", 1.0),
}


def documents(odd: bool) -> st.SearchStrategy[list[dict[str, Any]]]:
    always = {"send": MOMENTS, "ttft": DURATIONS}
    sound = st.fixed_dictionaries(always, optional=SOUND)
    some = st.one_of(sound, st.fixed_dictionaries(always, optional=ODD), st.fixed_dictionaries({"e2e": DURATIONS}, optional=SOUND | ODD))
    return st.lists(some if odd else sound, min_size=1, max_size=12)


def told(reading: Reading) -> tuple[Any, ...]:
    read = asdict(reading.read)
    return reading.rows, read


def check(records: list[dict[str, Any]], keep_text: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "TOGETHER", 7)
        patch.setattr(together, "_FEW", 2)
        many = read(jsonl(*records), "client", keep_text=keep_text)
        patch.setattr(together, "columns_of", lambda *_: None)
        alone = read(jsonl(*records), "client", keep_text=keep_text)
    assert told(many) == told(alone)


@settings(deadline=None)
@given(documents(odd=False), st.booleans())
def test_sound_records(records: list[dict[str, Any]], keep_text: bool) -> None:
    check(records, keep_text)


@settings(deadline=None)
@given(documents(odd=True), st.booleans())
def test_odd_records(records: list[dict[str, Any]], keep_text: bool) -> None:
    check(records, keep_text)


@pytest.mark.parametrize("name", CLOCKS)
@pytest.mark.parametrize("whole", [True, False])
def test_units_of_epoch_times(name: str, whole: bool) -> None:
    begin, end, scale = CLOCKS[name]
    kind = int if whole else float
    records = [{begin: kind((T0 + i / 7) * scale), end: kind((T0 + i / 3) * scale), "ttft": 0.125, "id": i} for i in range(9)]
    check([*records, {begin: None, end: None, "ttft": 1, "id": 9}], keep_text=False)


@settings(deadline=None)
@given(st.lists(st.tuples(OWN, OWN, OWN, DURATIONS), min_size=1, max_size=9), st.sampled_from(["", "_ms", "_s"]))
def test_own_clocks(times: list[tuple[float | None, float | None, float | None, float | None]], unit: str) -> None:
    keys = (f"start{unit}", f"first_token{unit}", f"end{unit}", "ttft")
    check([dict(zip(keys, values, strict=True)) for values in times], keep_text=False)


@settings(deadline=None)
@given(st.lists(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.sampled_from([UTC, ZONE])), min_size=1, max_size=9))
def test_stamps(stamps: list[datetime]) -> None:
    check([{"start": s.isoformat(), "end": f"{s:%Y-%m-%d %H:%M:%S}Z", "ttft": 0.5} for s in stamps], keep_text=False)
    check([{"start": s.replace(tzinfo=None).isoformat(), "end": s.isoformat(), "ttft": 0.5} for s in stamps], keep_text=False)


NUMBERS = st.integers(0, 10**6).map(str)
TEXTS = st.one_of(NUMBERS, st.sampled_from(["", "null", " 7 ", "1e3", "-", "1.50", "NaN", "x", "-1", "2.5", None]))
MILLISECONDS = st.integers(int(T0), int(T0) + 9).map(lambda s: f" {s}000")
EPOCHS = st.one_of(st.floats(T0, T0 + 9).map(str), MILLISECONDS, st.sampled_from(["-", "", "12"]))


@settings(deadline=None)
@given(st.lists(st.tuples(EPOCHS, TEXTS, TEXTS, TEXTS, TEXTS), min_size=1, max_size=9))
def test_numbers_as_texts(cells: list[tuple[str | None, ...]]) -> None:
    check([dict(zip(("start", "ttft", "latency_ms", "prompt_tokens", "dp"), values, strict=True)) for values in cells], keep_text=False)


def test_one_odd_record_leaves_the_others_together() -> None:
    records = [{"send": T0 + i, "ttft": 0.5, "e2e": 1.0} for i in range(200)]
    records[120]["e2e"] = -1
    asked = 0

    def counted(values: Values, fields: Fields) -> Row:
        nonlocal asked
        asked += 1
        return request_row(values, fields)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "request_row", counted)
        reading = read(jsonl(*records), "client")
    assert asked == 50
    assert [row["record"] for row in reading.requests] == list(range(1, 201))
    assert reading.read.counts.damaged == 1


def test_sound_records_are_read_together() -> None:
    columns = together.columns_of({"arrival": ([T0, None], None), "ttft": ([500, None], 1e-3)}, 2)
    assert columns is not None
    assert columns["ttft_s"][0] == 0.5
    assert columns["status"] == ("finished", "unfinished")
