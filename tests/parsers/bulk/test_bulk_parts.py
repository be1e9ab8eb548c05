"""The parts of reading in bulk: numbers, stamps, cuts, shapes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.parsers.bulk.cut import blocks
from analyzer.parsers.bulk.lines import Lines
from analyzer.parsers.bulk.moments import NO_TIME, moment_in
from analyzer.parsers.bulk.shape import learn, read_slot
from analyzer.parsers.bulk.times import Stamps, utc_of
from analyzer.sources.pieces import MAX_LINE
from analyzer.sources.timestamps import NO_YEAR, Clock, parse_iso, parse_short, to_naive_us, to_us

DECODE = (
    "[2026-01-02 03:04:05 DP1 TP0] Decode batch, #running-req: 24, #token: 81234, token usage: 0.62, cuda graph: True, "
    "gen throughput (token/s): 1534.21, #queue-req: 3"
)
NEWEST = datetime(2026, 12, 1, tzinfo=UTC)


@given(
    st.lists(st.lists(st.one_of(st.integers(0, 10**16 - 1).map(str), st.sampled_from(["a", " ", "007", "0", "."])), max_size=6), min_size=1)
)
def test_numbers_and_skeletons(parts: list[list[str]]) -> None:
    texts = ["x".join(p) for p in parts]
    lines = Lines("".join(t + "\n" for t in texts).encode())
    assert [lines.text(n) for n in range(len(lines))] == texts
    for n, text in enumerate(texts):
        runs = lines.runs_of(n)
        assert list(runs) == re.findall("[0-9]+", text)
        numbers = lines.numbers(np.arange(lines.first_run[n], lines.first_run[n + 1]))
        assert numbers.tolist() == [int(r) for r in runs if len(r) <= 16] or any(len(r) > 16 for r in runs)
        skeleton = lines.skeletons[int(lines.code[n])].as_py().decode()
        assert skeleton == "".join(c for c in text if not c.isdigit()) + "\n"


def test_lines_of_one_skeleton_are_parted_by_where_their_numbers_stand() -> None:
    lines = Lines(b"a1b2c\na12bc\nab1c2\na3b4c\n")
    assert len(lines.skeletons) == 1
    groups = sorted(at.tolist() for at, _ in lines.alike(np.arange(4)))
    assert groups == [[0, 3], [1], [2]]


@pytest.mark.parametrize(
    "stamp",
    ["2026-01-02 03:04:05", "2026-01-02T03:04:05.678Z", "2026-02-28 23:59:59,123456789+08:00", "11-30 05:55:58",
     "11-30 05:55:58.123", "Jan  2 03:04:05"],
)  # fmt: skip
def test_a_stamp_is_read_as_alone(stamp: str) -> None:
    text = f"at {stamp} then\n"
    lines = Lines(text.encode())
    run_at = {int(b): n for n, b in enumerate(lines.run_begins)}
    moment = moment_in(text, 3, 3 + len(stamp), run_at)
    assert moment is not None
    us, real = moment.microseconds(lambda run: lines.numbers(np.array([run])), lambda run: lines.run_lengths[np.array([run])])
    alone = parse_short(stamp) if stamp[2] == "-" else parse_iso(stamp)
    assert alone is not None
    assert real.tolist() == [True]
    assert us.tolist() == [to_naive_us(alone.replace(tzinfo=None))]
    assert moment.zone == alone.utcoffset()


@pytest.mark.parametrize("stamp", ["2026-13-02 03:04:05", "2026-02-30 03:04:05", "2026-01-02 24:04:05", "1999-01-02 03:04:05"])
def test_what_is_no_time_is_told(stamp: str) -> None:
    good = "2026-01-02 03:04:05"
    lines = Lines(f"{good}\n{stamp}\n".encode())
    moment = moment_in(good, 0, len(good), {int(b): n for n, b in enumerate(lines.run_begins[:6])})
    assert moment is not None
    first = lines.first_run[:2]
    _, real = moment.microseconds(lambda run: lines.numbers(first + run), lambda run: lines.run_lengths[first + run])
    assert real.tolist() == [True, False]


def _as_printed(moment: datetime) -> datetime:
    """No stamp tells which of an hour that comes twice is meant."""
    return moment.replace(fold=0)


SHORT = st.datetimes(datetime(NO_YEAR, 1, 1), datetime(NO_YEAR, 12, 31, 23, 59)).map(_as_printed)
LONG = st.datetimes(datetime(2024, 1, 1), datetime(2027, 12, 31)).map(_as_printed)
RECORDS = st.lists(st.tuples(st.one_of(st.none(), SHORT, LONG), st.one_of(st.none(), SHORT, LONG), st.booleans()), min_size=1, max_size=20)


@settings(deadline=None)
@given(RECORDS, st.sampled_from([None, ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")]), st.sampled_from([None, 2025]))
def test_many_stamps_are_timed_as_one_by_one(
    records: list[tuple[datetime | None, datetime | None, bool]], zone: ZoneInfo | None, year: int | None
) -> None:
    known = [utc and outer is not None and outer.year != NO_YEAR for _, outer, utc in records]
    inner = [NO_TIME if i is None else to_naive_us(i) for i, _, _ in records]
    outer = [NO_TIME if o is None else to_naive_us(o) for _, o, _ in records]
    clocks = [Clock(zone, year, NEWEST) for _ in range(2)]
    for clock in clocks:
        clock.decide([], None)
    stamps = Stamps(np.array(inner), np.full(len(inner), NO_TIME), np.array(outer), np.array(known))
    ts, outer_ts = utc_of(clocks[0], stamps)
    for n, (stamp, other, _) in enumerate(records):
        beside = None if other is None else other.replace(tzinfo=UTC) if known[n] else clocks[1].to_utc(other)
        alone = beside if stamp is None else clocks[1].to_utc(stamp, beside if known[n] else None)
        assert (ts[n], outer_ts[n]) == (NO_TIME if alone is None else to_us(alone), NO_TIME if beside is None else to_us(beside))
    assert clocks[0].decisions == clocks[1].decisions


@pytest.mark.parametrize("size", [1, 50, 700, 10**6])
def test_blocks_are_whole_lines_and_nothing_is_lost(size: int) -> None:
    text = "".join(f"{DECODE}\nsome other line {n}\n" for n in range(20)).encode() + b"no end"
    found = list(blocks((text[at : at + 333] for at in range(0, len(text), 333)), size))
    assert b"".join(found) == text
    assert all(b.endswith(b"\n") for b in found[:-1])
    assert len(found) == 1 or size < 10**6


def test_a_block_is_not_cut_inside_a_wrapped_record() -> None:
    text = "".join(f"{DECODE[:60]}\n{DECODE[60:120]}\n{DECODE[120:]}\n" for _ in range(30)).encode()
    assert all(b.startswith(b"[2026") for b in blocks([text], 200))


def test_a_line_without_end_is_handed_on_in_parts() -> None:
    found = list(blocks((b"x" * (1 << 20) for _ in range(40)), 1 << 22))
    assert b"".join(found).replace(b"\n", b"") == b"x" * (40 << 20)
    assert max(len(line) for b in found for line in b.split(b"\n")) == MAX_LINE


def test_what_has_to_stay_is_told_from_what_may_change() -> None:
    shape = learn(DECODE)
    assert shape.bulk
    # runs: 2026 01 02 03 04 05 DP1 TP0 24 81234 0 62 1534 21 3
    assert shape.same == (6, 7)
    assert set(shape.long) == set(range(6))
    slots = {s.column: s for s in shape.slots}
    assert set(slots) == {"running", "kv_used_tokens", "kv_usage", "gen_tps", "waiting"}
    runs = [*shape.runs]
    runs[10:12] = ["0", "070"]
    assert read_slot(slots["kv_usage"], runs) == 0.07


@pytest.mark.parametrize(
    "line",
    [
        DECODE + DECODE,  # two records
        DECODE.replace("#queue-req: 3", "#queue-req: "),  # damaged
        DECODE[:100],  # cut off
        "[2026-01-02 03:04:05] Got 3",  # too short
        "[2026-01-02 03:04:05 TP0] server_args=ServerArgs(model_path='m', port=30000)",  # facts
    ],
)
def test_lines_that_are_left(line: str) -> None:
    assert not learn(line).bulk


def test_a_zone_ahead_is_taken_off() -> None:
    clock = Clock(None, None, NEWEST)
    clock.decide([], None)
    ahead = timedelta(hours=8) // timedelta(microseconds=1)
    ts, _ = utc_of(clock, Stamps(np.array([ahead]), np.array([ahead]), np.array([NO_TIME]), np.array([False])))
    assert ts.tolist() == [0]
