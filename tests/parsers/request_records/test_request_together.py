"""Records of a client that are read together give what they give one by one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_reading import T0, Reading, jsonl, read
from samples import client_record

from analyzer.parsers.request_records import together

MOMENTS = st.one_of(st.floats(T0, T0 + 9), st.integers(int(T0), int(T0) + 9), st.none())
DURATIONS = st.one_of(st.floats(0, 1000), st.integers(0, 50), st.none())
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
    "latency": st.sampled_from([-1, "0.5", True, 1e9, [1]]),
    "ttft_ms": st.just(5),
    "itls": st.just([0.1, 0.2]),
    "prompt_tokens": st.sampled_from([2.0, 2.5, -1, "7"]),
    "dp_rank": st.sampled_from([-1, 1 << 15, 1.0]),
    "id": st.sampled_from([{}, 1.5, True]),
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
        patch.setattr(together, "_TOGETHER", 5)
        many = read(jsonl(*records), "client", keep_text=keep_text)
        patch.setattr(together, "rows_together", lambda *_, **__: None)
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


def test_sound_records_are_read_together() -> None:
    rows = together.rows_together([client_record(), {"send": T0, "ttft": 1, "prompt_tokens": None}], keep_text=False)
    assert rows is not None
    assert [row["ttft_s"] for row in rows[0]] == [0.5, 1.0]
