"""From physical lines to records: glued, overwritten, headless and cut ones; the account of lines always adds up."""

from __future__ import annotations

import pytest
from one_by_one import read_records

from analyzer.sources.pieces import LineCounts
from analyzer.sources.records import Record

DECODE = (
    "[2026-01-02 03:04:05 TP0] Decode batch, #running-req: 24, #token: 81234, token usage: 0.62, "
    "gen throughput (token/s): 1534.21, #queue-req: 3"
)
STATS = (
    "(APIServer pid=77) INFO 01-02 03:04:05 [loggers.py:338] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
    "Avg generation throughput: 1.0 tokens/s, Running: 24 reqs, Waiting: 3 reqs, GPU KV cache usage: 62.0%"
)
LOOKUP = (
    "[2026-11-30 05:55:58,123] LMCache INFO: Reqid: a, Total tokens 4096, LMCache hit tokens: 2048, need to load: 1024 (a.py:1:lmcache)"
)
ACCESS = 'INFO:     127.0.0.1:5555 - "POST /generate HTTP/1.1" 200 OK'
UNKNOWN = "[2026-01-02 03:04:05 TP0] something this tool has never seen"
BAR = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.50it/s]"
OTHER = "Traceback (most recent call last):"


def take(text: str) -> tuple[list[Record], LineCounts]:
    counts = LineCounts()
    records = read_records(text, counts)
    assert counts.lines == counts.matched + counts.ignored + counts.unmatched + counts.other
    return records, counts


def ids(records: list[Record]) -> list[str]:
    return [r.match.parsed.format.id for r in records if r.match.parsed]


@pytest.mark.parametrize(
    ("text", "fate"),
    [
        (DECODE, "matched"), (STATS, "matched"), (LOOKUP, "matched"), (ACCESS, "ignored"), (UNKNOWN, "unmatched"),
        (OTHER, "other"), ("", "other"), (BAR, "other"), ("   ", "other"), ("\0\0\0", "other"), ("\r", "other"),
        (BAR + "\r" + DECODE, "matched"), (OTHER + UNKNOWN, "unmatched"), (ACCESS + UNKNOWN, "ignored"),
        ("\x1b[32m" + DECODE + "\x1b[0m", "matched"), ("\0\0" + DECODE, "matched"), (DECODE + "\r", "matched"),
    ],
)  # fmt: skip
def test_what_a_line_counts_as(text: str, fate: str) -> None:
    """A line that holds several things counts once, as the best of them."""
    _, counts = take(text + "\n")
    assert counts.lines == 1
    assert getattr(counts, fate) == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
def test_line_ends(end: str) -> None:
    records, counts = take(end.join([DECODE, STATS, DECODE]) + end)
    assert [r.line for r in records] == [1, 2, 3]
    assert counts.matched == 3
    assert all(r.match.parsed and r.match.parsed.values["waiting"] == 3 for r in records)


@pytest.mark.parametrize("glue", ["", " ", "\r", "\r\r"])
def test_lost_newlines(glue: str) -> None:
    lines = [BAR, DECODE, STATS, LOOKUP, ACCESS, UNKNOWN, DECODE]
    records, counts = take(glue.join(lines) + "\n")
    assert ids(records) == ["sglang.decode_batch", "vllm.stats_v1", "lmcache.lookup", "any.access", "sglang.decode_batch"]
    assert [r.match.parsed.values.get("waiting") for r in records if "batch" in ids([r])[0]] == [3, 3]
    assert (counts.lines, counts.matched, counts.records) == (1, 1, 4)


def test_a_whole_file_without_newlines() -> None:
    records, _ = take(DECODE * 20_000)
    assert len(records) == 20_000


def test_a_progress_bar_that_was_overwritten() -> None:
    records, counts = take("\r".join([BAR] * 200 + [DECODE]) + "\n")
    assert ids(records) == ["sglang.decode_batch"]
    assert (counts.lines, counts.matched) == (1, 1)


def test_a_first_line_without_its_bracket() -> None:
    records, _ = take(DECODE[1:] + "\n" + DECODE + "\n")
    assert [r.match.head.stamp for r in records] == ["2026-01-02 03:04:05"] * 2


@pytest.mark.parametrize("start", range(1, 60, 3))
def test_a_first_line_that_lost_its_beginning_invents_nothing(start: int) -> None:
    records, counts = take(DECODE[start:] + "\n" + DECODE + "\n")
    assert all(r.match.parsed.values == records[-1].match.parsed.values for r in records if r.match.parsed)
    assert counts.matched in (1, 2)


def test_blank_lines() -> None:
    records, counts = take(f"\n\n{DECODE}\n\n")
    assert [r.line for r in records] == [3]
    assert counts.lines == 4


def test_the_words_of_any_program_are_an_engines_only_where_one_was_seen() -> None:
    weak = "2026-01-02 03:04:05 ERROR Request 4711 failed: timeout\n"
    records, counts = take(weak + "version 1.2.3\nCache flushed successfully!\n")
    assert (records, counts.other) == ([], 3)
    records, counts = take(STATS + "\n" + weak)
    assert ids(records) == ["vllm.stats_v1", "vllm.request_failed"]
    records, _ = take("2024-12-09 11:05:00 - vllm.engine - INFO - Finished request a.\n")
    assert ids(records) == ["vllm.request_finished"]


def test_unknown_lines_are_counted_by_file() -> None:
    text = "INFO 11-30 05:55:58 [a.py:1] x\nINFO 11-30 05:55:58 [b/c.py:2] y\nINFO 11-30 05:55:58 [a.py:9] z\n"
    _, counts = take(text)
    assert counts.unmatched_files == {"a.py": 2, "b/c.py": 1}


@pytest.mark.parametrize("line", [DECODE, STATS, LOOKUP])
def test_lines_of_other_programs_are_no_continuation(line: str) -> None:
    records, counts = take(f"{UNKNOWN}\n{ACCESS}\n{line}\n{OTHER}\n{BAR}\n{line}\n17\n")
    assert len([i for i in ids(records) if i != "any.access"]) == 2
    assert counts.joined == 0
    assert {r.match.parsed.values.get("waiting") for r in records if r.match.parsed and "batch" in r.match.parsed.format.id} <= {3, None}


def test_many_unknown_lines_before_tracebacks_take_no_time() -> None:
    take((UNKNOWN + "\n" + "   at some line of a trace\n" * 15) * 500)
