"""Whatever text comes, a reader answers with an account of its lines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_reading import EPOCH, claimed_by, read_dump

from analyzer.parsers.metrics import READERS

PIECES = (
    "vllm:num_requests_running", "sglang:x", "node_load1", "up", '{engine="0"}', '{__name__="vllm:x"}', '{"vllm:x"}', "{", "}",
    '"', "\\", "=", ",", " ", "\t", "\n", "\r\n", "\r", " 1", " NaN", " 1e400", f" {EPOCH}", f" {EPOCH}061", "# HELP", "# TYPE",
    " gauge", "# EOF", "# scrape_ts ", "# scrape_failed", " # {", "Mon Nov 30 07:07:56 UTC 2026", "Mon Nov 99 99:99:99 UTC 2026",
    "2026-11-30T07:07:56Z", "HTTP/1.1 200 OK", "date: ", '{"status":"success","data":{"resultType":"matrix","result":[',
    '{"metric":{"__name__":"vllm:x"},"values":[', f'[{EPOCH},"1"]', "]}", "]}}", '"timestamps":[', "null",
    "time,metric,labels,value", "Time,vllm:x", ";", "\udc80", "\ud800", "é", "\ufeff", "\0", "[", "]", "_", "-", "1.2 K",
    "\\ud800",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.integers(1, 30))
@pytest.mark.parametrize("name", [r.name for r in READERS])
def test_no_text_makes_a_reader_fail(name: str, text: str, size: int) -> None:
    claimed_by(text)
    start = "time,metric,labels,value\n" if name == "long_table" and "time" not in text else ""
    # the counts are checked by the helper
    dump = read_dump(start + text or "\n", name, block=size)
    assert dump.read.format == name
    assert dump.read.usable == bool(dump.read.counts.records) or not dump.read.engines


@pytest.mark.parametrize(
    "text",
    [
        "vllm:x 1" + " " * 60_000 + "x",
        "# HELP vllm:x a" + " " * 60_000 + "b" + " " * 60_000,
        "vllm:x{" + " " * 60_000 + "x",
        'vllm:x{a="' + "\\" * 60_001,
        'vllm:x{a="b"' + " " * 60_000,
        '{"metric":{"a":"b"' + " " * 60_000,
        '{"status":"success"' + "\n" * 60_000,
        '{"a":"' * 10_000,
        "# " + "at " * 20_000,
        "Time," + "{" * 60_000,
    ],
)
def test_odd_lines_take_no_longer_than_others(text: str) -> None:
    began = time.process_time()
    for reader in READERS:
        reader.claims(text, "x.txt")
        read_dump(text + "\n", reader.name)
    assert time.process_time() - began < 3
