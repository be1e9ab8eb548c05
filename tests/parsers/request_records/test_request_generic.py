"""Any records, read by the columns that --map names."""

from __future__ import annotations

import pytest
from record_reading import T0, T, jsonl, read

from analyzer.errors import KvpmError
from analyzer.parsers.request_records import generic_reader

COLUMNS = {"arrival": "when", "ttft": "timing.first_ms", "prompt_tokens": "in", "rid": "who", "server": "where"}


def test_records_by_named_columns() -> None:
    documents = [{"when": T0 + n, "timing": {"first_ms": 500}, "in": 9, "who": f"r{n}", "where": f"h{n}:80"} for n in range(2)]
    got = read(jsonl(*documents), "", reader=generic_reader(), columns=COLUMNS)
    assert [(r["rid"], r["ttft_s"], r["prompt_tokens"], r["stream"]) for r in got.requests] == [
        ("r0", 0.5, 9, "h0:80"),
        ("r1", 0.5, 9, "h1:80"),
    ]
    assert got.requests[0]["arrival_ts"] == T


def test_a_name_with_a_dot_goes_before_a_path() -> None:
    text = jsonl({"a.b": 1, "a": {"b": 2}})
    assert read(text, "", reader=generic_reader(), columns={"ttft": "a.b"}).only()["ttft_s"] == 1.0


def test_a_table_by_named_columns() -> None:
    text = 'id;start time;latency_ms;state;said\nr1;2026-01-02T03:04:05Z;2500;ok;"a;\nb"\nr2;2026-01-02T03:04:06Z;;failed;\n'
    columns = {"rid": "id", "arrival": "start time", "e2e": "latency_ms", "status": "state", "prompt": "said"}
    one, two = read(text, "", reader=generic_reader(), columns=columns).requests
    assert (one["record"], one["e2e_s"], one["status"], one["arrival_ts"]) == (2, 2.5, "finished", T)
    assert (two["record"], two["status"], two.get("e2e_s"), two.get("prompt_sha256")) == (4, "error", None, None)
    assert "prompt_sha256" in one


@pytest.mark.parametrize(
    ("text", "columns", "message", "hint"),
    [
        (jsonl({"a": {"b": 1}}), {"ttft": "a.c"}, "columns that are not there: a.c", "there are: a, a.b"),
        ("a,b\n1,2\n", {"ttft": "c"}, "columns that are not there: c", "there are: a, b"),
        ("a,b\n1,2\n", {"tfft": "a"}, "no such field: tfft", "known are: arrival, first_token"),
        ("hello\n", {"ttft": "a"}, "neither JSON lines nor a table", "CSV with a header"),
    ],
)
def test_what_cannot_be_mapped_is_told(text: str, columns: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(KvpmError) as error:
        read(text, "", reader=generic_reader(), columns=columns)
    assert message in error.value.message
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (jsonl({"a": 1}), True),
        ("a,b\n1,2\n", True),
        ("a\tb\n1\t2\n3\t4\n", True),
        ("a,b\n1,2,3\n4,5\n", False),
        ("INFO 01-02 03:04:05 [x.py:1] Running: 1 reqs, Waiting: 2 reqs\n" * 3, False),
        ("[2026-01-02 03:04:05] a, b\n" * 3, False),
        ("hello\nworld\n", False),
        ("", False),
    ],
)
def test_what_the_reader_for_named_columns_takes(text: str, taken: bool) -> None:
    assert generic_reader().claims(text, "a.csv") is taken
