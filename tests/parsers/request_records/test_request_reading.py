"""JSON and CSV files of any layout and in any state: what can be read is read, and every line is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_reading import claimant, jsonl, read
from samples import AZURE, FILES, client_record, vllm_run

RECORDS = [client_record(id=n) for n in range(4)]


@pytest.mark.parametrize(
    "text",
    [
        jsonl(*RECORDS),
        "\ufeff" + jsonl(*RECORDS).replace("\n", "\r\n") + "\n\n",
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=2),
        json.dumps(RECORDS, indent=2).replace("[\n  {", "[{").replace("}\n]", "}]"),
        "[\n" + ",\n".join(map(json.dumps, RECORDS)) + "\n]\n",
        "[" + ",\n".join(map(json.dumps, RECORDS)) + "]",
        "\n".join(json.dumps(r, indent=4) for r in RECORDS),
        ",".join(map(json.dumps, RECORDS)),
    ],
    ids=["lines", "bom and crlf", "array", "indented", "tight brackets", "a record a line", "no bracket lines", "documents", "one line"],
)
def test_any_layout_gives_the_same_requests(text: str) -> None:
    got = read(text, "client")
    assert [r["rid"] for r in got.requests] == ["0", "1", "2", "3"]
    assert (got.read.counts.unmatched, got.read.counts.last_line_cut) == (0, False)


def test_lines_that_are_one_record_and_nothing_else_are_read_as_all_others_are() -> None:
    """A line of bytes is parsed as it is; a bracket or a blank before it takes the way by its text."""
    odd = [
        json.dumps(client_record(id=1, prompt="d\u00e9j\u00e0 \U0001f600")),
        json.dumps(client_record(id=2, prompt="d\u00e9j\u00e0"), ensure_ascii=False),
        json.dumps(client_record(id=3, ttft=float("nan"))),
        json.dumps(client_record(id=4, prompt="\ud800")),
        json.dumps(client_record(id=5, prompt="\udcff"), ensure_ascii=False),
        json.dumps(client_record(id=6)) + "  \r",
        json.dumps({"level": "info", "id": 7}),
        json.dumps(client_record(id=9)) + ",",
        json.dumps(client_record(id=8))[:-1],
        "{}",
        "{",
    ]
    lines = [json.dumps(client_record(id=0)), *odd]
    fast, slow = read("\n".join(lines) + "\n", "client"), read("".join(f" {line}\n" for line in lines), "client")
    assert fast.requests == slow.requests
    assert fast.read.counts == slow.read.counts
    assert [r["rid"] for r in fast.requests] == ["0", "1", "2", "3", "4", "5", "6", "9"]


def test_a_broken_line_costs_that_line() -> None:
    lines = [json.dumps(r) for r in RECORDS]
    for broken in (lines[1][:40], lines[1][:-1], lines[1][30:], "}}}", "hello", '{"a": [1, {"b":', '{"send": 1, "ttft": }'):
        got = read("\n".join([lines[0], broken, lines[2], lines[3]]) + "\n", "client")
        assert [(r["rid"], r["record"]) for r in got.requests] == [("0", 1), ("2", 3), ("3", 4)], broken
        assert (got.read.counts.unmatched, got.read.counts.last_line_cut) == (1, False), broken


def test_a_cut_last_line_is_noted() -> None:
    text = jsonl(*RECORDS)
    for cut in (2, 30, 200):
        got = read(text[:-cut], "client")
        assert [r["rid"] for r in got.requests] == ["0", "1", "2"]
        assert "the last line is cut off and was left out" in got.read.notes


def test_a_cut_document_is_noted_and_of_no_use() -> None:
    got = read(json.dumps(vllm_run(), indent=2)[:-20], "vllm_bench")
    assert not got.read.usable
    assert (got.read.counts.last_line_cut, got.read.nothing) == (True, "no whole record")


def test_records_of_another_kind_are_other_lines() -> None:
    got = read(jsonl(RECORDS[0], {"summary": 5}, [1, 2], RECORDS[1]), "client")
    assert ([r["record"] for r in got.requests], got.read.counts.other) == ([1, 4], 2)


def test_bytes_that_are_no_text_do_not_stop_the_reading() -> None:
    text = jsonl(RECORDS[0]) + '{"id": 5, "send": 1, "ttft": 1, "prompt": "a\udcff\\ud800"}\n' + jsonl(RECORDS[1])
    got = read(text, "client", keep_text=True)
    assert [r["rid"] for r in got.requests] == ["0", "5", "1"]
    assert "prompt_sha256" in got.requests[1]


def test_depth_and_length_do_not_stop_the_reading() -> None:
    deep = '{"id": 5, "ttft": NaN, "x": ' + "[" * 100_000 + "\n"
    many = '{"id": 6, "ttft": ' + "9" * 5000 + "}\n"
    got = read(jsonl(RECORDS[0]) + deep + many + jsonl(RECORDS[1]), "client")
    assert (got.requests[0]["rid"], got.requests[-1]["rid"]) == ("0", "1")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_of_any_delimiter(delimiter: str) -> None:
    got = read("\ufeff" + AZURE.replace(",", delimiter).replace("\n", "\r\n"), "azure_trace")
    assert [r["prompt_tokens"] for r in got.requests] == [374, 396]


def test_a_broken_row_costs_that_row() -> None:
    head, first, second = AZURE.splitlines()
    got = read("\n".join([head, first, "2026-01-02 03:04", "", head, second, "2026-01-02 03:04:05,37"]), "azure_trace")
    assert [r["record"] for r in got.requests] == [2, 6]
    assert (got.read.counts.ignored, got.read.counts.unmatched, got.read.counts.last_line_cut) == (3, 2, True)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.integers(0, 3000), st.integers(0, 300), st.text(max_size=12))
def test_damage_raises_nothing_and_is_counted(name: str, at: int, length: int, text: str) -> None:
    whole = FILES[name]
    damaged = whole[:at] + text + whole[at + length :]
    if claimant(damaged) == name:
        read(damaged, name)


ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, 1e300, 10**30, "", "x", "1e5", "2026-13-45 99:99:99", "http://[::1", "\ud800", [], [1], ["a"], [{}], {"a": 1}]
)


def _anything_in(value: Any, choose: Callable[[int], int], odd: Any) -> Any:
    """`value` with one thing inside it replaced, `choose` says which."""
    if not isinstance(value, (dict, list)) or not value or not choose(4):
        return odd
    key = list(value)[choose(len(value))] if isinstance(value, dict) else choose(len(value))
    changed = value.copy()
    changed[key] = _anything_in(value[key], choose, odd)
    return changed


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([n for n in sorted(FILES) if "{" in FILES[n]]), ODD, st.randoms(use_true_random=False))
def test_any_value_anywhere_raises_nothing(name: str, odd: Any, random: Random) -> None:
    documents = [json.loads(line[line.index("{") :]) for line in FILES[name].splitlines()]
    read(jsonl(*(_anything_in(d, random.randrange, odd) for d in documents)), name)
