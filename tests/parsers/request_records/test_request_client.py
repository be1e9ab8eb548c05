"""The simplest record of requests: JSON lines of a user's own client."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

import pytest
from record_reading import T0, T, jsonl, read
from samples import client_record


def only(**record: Any) -> dict[str, Any]:
    return read(jsonl(record), "client").only()


def test_every_field_finds_its_column() -> None:
    row = read(jsonl(client_record()), "client").only()
    row.pop("prompt_sha256")
    assert row == {
        "source_id": "s", "record": 1, "engine": "client", "stream": "", "ts": T, "observer": "client", "clock": "wall", "rid": "7",
        "arrival_ts": T, "first_token_ts": T + timedelta(seconds=0.5), "finish_ts": T + timedelta(seconds=2.5), "ttft_s": 0.5,
        "e2e_s": 2.5, "decode_s": 2.0, "itl_mean_s": 0.1, "itl_max_s": 0.3, "prompt_tokens": 100, "output_tokens": 21,
        "max_new_tokens": 30, "status": "finished",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("record", "status", "error"),
    [
        ({"ttft": 0.5}, "finished", None),
        ({"ttft": None}, "unfinished", None),
        ({"pending": True, "ttft": 0.5}, "unfinished", None),
        ({"error": "ClientConnectorError: Cannot connect to host 127.0.0.1:8122"}, "error", "connection"),
        ({"error": "('Connection aborted.', RemoteDisconnected())"}, "error", "connection"),
        ({"error": "ReadTimeout: timed out"}, "error", "timeout"),
        ({"error": "HTTP 503: no"}, "error", "http_503"),
        ({"error": "Service Unavailable"}, "error", "http_503"),
        ({"error": 500}, "error", "http_500"),
        ({"error": {"code": 429, "message": "slow down"}}, "error", "http_429"),
        ({"error": "CancelledError"}, "aborted", "abort"),
        ({"error": "boom"}, "error", "other"),
        ({"error": "", "ttft": 1}, "finished", None),
        ({"status": 200, "ttft": 1}, "finished", None),
        ({"status": "500"}, "error", "http_500"),
        ({"success": False}, "error", "other"),
        ({"success": True}, "finished", None),
        ({"status": "cancelled"}, "aborted", "abort"),
        ({"status": "timeout"}, "error", "timeout"),
        ({"finish_reason": "length"}, "finished", None),
    ],
)
def test_how_a_request_ended(record: dict[str, Any], status: str, error: str | None) -> None:
    row = only(send=T0, **record)
    assert (row["status"], row.get("error")) == (status, error)


def test_durations_have_the_unit_their_name_says() -> None:
    row = only(start_time=T0, ttft_ms=500, latency_us=2_500_000, tpot_ms=12.3)
    assert (row["ttft_s"], row["e2e_s"], row["itl_mean_s"]) == (0.5, 2.5, 0.0123)


@pytest.mark.parametrize(
    "arrival",
    [
        {"send": T0 + 0.123456},
        {"send": str(T0 + 0.123456)},
        {"ts": int(T0) * 10**6 + 123456},
        {"start_ms": T0 * 1000 + 123.456},
        {"sent_ns": int(T0) * 10**9 + 123_456_000},
        {"time": "2026-01-02T03:04:05.123456Z"},
        {"arrival": "2026-01-02T11:04:05.123456+08:00"},
        {"arrival": "2026-01-02 03:04:05.123456"},
    ],
)
def test_times_of_the_wall_clock(arrival: dict[str, Any]) -> None:
    row = only(ttft=0.5, **arrival)
    assert (row["arrival_ts"], row["clock"]) == (T + timedelta(microseconds=123456), "wall")


def test_stamps_without_a_zone_are_noted() -> None:
    text = jsonl({"arrival": "2026-01-02 11:04:05", "ttft": 0.5})
    assert "read as UTC (set --tz)" in read(text, "client").read.notes[0]
    got = read(text, "client", zone=timezone(timedelta(hours=8)))
    assert got.only()["arrival_ts"] == T
    assert (got.read.utc_offset_s, got.read.clock) == (None, "inner")


def test_a_clock_of_the_clients_own_leaves_differences() -> None:
    row = only(start_ns=8_672_500_000_000, first_token_ns=8_673_000_000_000, end_ns=8_675_000_000_000)
    assert (row["clock"], row["arrival_rel_s"], row["ttft_s"], row["e2e_s"]) == ("monotonic", 8672.5, 0.5, 2.5)
    assert "arrival_ts" not in row
    assert only(id=1, ttft=0.5)["clock"] == "order"


def test_what_cannot_be_true_is_left_out_and_counted() -> None:
    wrong = client_record(ttft=-1, e2e=4e7, prompt_tokens=1.5, output_tokens=-3, max_itl="fast")
    text = jsonl(wrong) + '{"id": 1, "send": NaN, "ttft": Infinity}\n'
    got = read(text, "client")
    first, second = got.requests
    assert not {"ttft_s", "e2e_s", "prompt_tokens", "output_tokens", "itl_max_s"} & first.keys()
    assert (second["clock"], second.get("ttft_s")) == ("order", None)
    assert got.read.counts.damaged == 7
    assert "7 values were damaged and left out" in got.read.notes


def test_a_missing_value_is_no_damage() -> None:
    got = read(jsonl({"id": 1, "send": T0, "ttft": None, "e2e": "", "prompt_tokens": "null"}), "client")
    assert got.read.counts.damaged == 0


def test_one_server_is_the_nameless_stream() -> None:
    got = read(jsonl(client_record(), client_record(id=2)), "client")
    assert {s: stream.addresses for s, stream in got.read.streams.items()} == {"": [("127.0.0.1", 8112)]}
    assert got.read.streams[""].kind == "requests"


def test_several_servers_are_told_apart() -> None:
    got = read(jsonl(client_record(), client_record(server="https://user:pw@b.example/v1"), client_record(server=None)), "client")
    assert [r["stream"] for r in got.requests] == ["127.0.0.1:8112", "b.example:443", ""]
    assert got.read.streams["b.example:443"].addresses == [("b.example", 443)]


def test_a_server_that_turns_up_late_is_a_stream_of_its_own() -> None:
    text = jsonl(*(client_record() for _ in range(400)), client_record(server="10.0.0.2:9000"))
    assert [r["stream"] for r in read(text, "client").requests][-2:] == ["", "10.0.0.2:9000"]


def test_ids_that_may_be_text_are_left_out() -> None:
    assert "rid" not in only(id="two words", ttft=1)
    assert only(request_id="a.b:c-1", ttft=1)["rid"] == "a.b:c-1"
