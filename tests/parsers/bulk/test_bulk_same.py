"""What is read in bulk is what is read line by line, row by row, whatever the log looks like and wherever it is cut."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bulk_reading import in_bulk, line_by_line

from analyzer.formats.load import registry

ROOT = Path(__file__).resolve().parents[3]
LOGS = sorted((ROOT / "sample_traces").glob("*/server.log"))
BEGAN = 1_767_000_000
SAMPLES = [s.line for f in registry().formats for s in f.samples] + [s.line for p in registry().prefixes for s in p.samples]
# What else stands in logs, above all what looks like a part of a record or can be taken for the end of a number.
OTHER = (
    "", '  File "/a/b.py", line 12, in f', "12.5", "123", "7", "0,", "x" * 50, "[1, 2, 3] ] done", "healthcheck ok",
    "request 7f3c tenant=acme",
    "café 你好 12", "\x1b[31mred 5\x1b[0m", "[2026-01-02", "INFO 01-02 03:04", "abc] def 12]", "a | b 5", '{"a": 1}',
    "(Worker pid=12) hello 5",
    "[2026-02-17 09:00:01 TP0] some new thing 5 of x",
)  # fmt: skip


def some(logs: list[Path], step: int) -> list[Any]:
    """One in `step` of them every day."""
    return [pytest.param(p, id=p.parent.name, marks=pytest.mark.thorough if n % step else []) for n, p in enumerate(logs)]


@pytest.mark.parametrize("log", some(LOGS, 2))
def test_samples(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = log.read_bytes()
    alone = line_by_line(data, monkeypatch)
    for size in (1 << 22, 3000):
        bulk = in_bulk(data, monkeypatch, size=size)
        assert bulk.read == alone.read
        assert bulk.rows == alone.rows
        if size > len(data):
            # start-up lines are each one of a kind; the rest is not
            assert bulk.one_by_one < 0.4 * alone.one_by_one


@pytest.mark.parametrize("log", some(LOGS[::5], 2))
def test_blocks_may_be_read_by_other_processes(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # five times, so that processes see enough lines of a kind to learn them
    data = log.read_bytes() * 5
    alone = line_by_line(data, monkeypatch)
    bulk = in_bulk(data, monkeypatch, size=100_000, jobs=2)
    assert bulk.read == alone.read
    assert bulk.rows == alone.rows
    assert bulk.one_by_one < 0.6 * alone.one_by_one


def perturbed(line: str, dice: random.Random, share: float, skip: int = 0) -> str:
    """`line` with some of its numbers behind the first `skip` characters changed, in length too."""

    def other(match: re.Match[str]) -> str:
        if dice.random() > share:
            return match[0]
        size = len(match[0])
        return "".join(dice.choices("0123456789", k=dice.choice((size, size, 1, 2, 5, size + 1))))

    return line[:skip] + re.sub(r"\d+", other, line[skip:])


def iso(seconds: float, zone: str = "Z") -> str:
    return datetime.fromtimestamp(BEGAN + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{round(seconds * 1e9) % 10**9:09d}{zone}"


def cri(lines: list[str], dice: random.Random) -> list[str]:
    out = []
    for i, line in enumerate(lines):
        stream = dice.choice(("stdout", "stderr"))
        cut = dice.randrange(len(line)) if dice.random() < 0.03 and line else 0
        if cut:
            out.append(f"{iso(i)} {stream} P {line[:cut]}")
        out.append(f"{iso(i)} {stream} F {line[cut:]}")
    return out


def wrapped(lines: list[str], width: int) -> list[str]:
    return [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]


def syslog(i: int) -> str:
    moment = datetime.fromtimestamp(BEGAN + i * 3000, UTC)
    return f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S}"


Envelope = Callable[[list[str], random.Random], list[str]]
ENVELOPES: dict[str, Envelope] = {
    "plain": lambda lines, _: lines,
    "docker": lambda lines, _: [f"{iso(i * 0.7)} {x}" for i, x in enumerate(lines)],
    "cri": cri,
    "json": lambda lines, _: [json.dumps({"log": x + "\n", "stream": "stderr", "time": iso(i)}) for i, x in enumerate(lines)],
    "kubectl": lambda lines, dice: [f"[pod/sg-{dice.randrange(3)}-7d{dice.randrange(2)}/main] {iso(i)} {x}" for i, x in enumerate(lines)],
    "no_stamp": lambda lines, dice: [f"[pod/vllm-{dice.randrange(3)}/c] {x}" for x in lines],
    "compose": lambda lines, dice: [f"web-{dice.randrange(2)}  | {x}" for x in lines],
    "journald": lambda lines, _: [f"{syslog(i)} gpu1 vllm[4711]: {x}" for i, x in enumerate(lines)],
    "journald_iso": lambda lines, _: [f"{iso(i, '+08:00')[:19]}+08:00 gpu1 vllm[4711]: {x}" for i, x in enumerate(lines)],
    "ray": lambda lines, dice: [f"(Engine pid={dice.choice((12, 345))}, ip=10.0.0.{dice.randrange(3)}) {x}" for x in lines],
    "wrapped": lambda lines, dice: wrapped(lines, dice.choice((80, 100, 120))),
    "carriage_returns": lambda lines, _: [f"{x}\r" for x in lines],
    "glued": lambda lines, dice: "".join(x + ("\n" if dice.random() > 0.05 else "") for x in lines).split("\n"),
}


def made_up(seed: int, envelope: str) -> bytes:
    """A log of every kind of line, with numbers of every length, damaged here and there."""
    dice = random.Random(f"{envelope} {seed}")
    base = dice.choice(LOGS).read_text(encoding="utf-8").splitlines()
    begin = dice.randrange(max(1, len(base) - 300))
    few = dice.sample(SAMPLES, 4)
    lines = []
    for line in base[begin : begin + dice.randint(50, 300)]:
        kind = dice.random()
        if kind < 0.6:
            lines.append(perturbed(line, dice, 0.5, skip=40))
        elif kind < 0.7:
            lines.append(perturbed(line, dice, 0.1))
        elif kind < 0.85:
            lines.append(perturbed(dice.choice(few), dice, 0.4, skip=40))
        else:
            lines.append(perturbed(dice.choice(OTHER), dice, 0.5))
    text = "\n".join(ENVELOPES[envelope](lines, dice)) + "\n"
    if dice.random() < 0.3:
        text = text[: -dice.randrange(1, 60)]
    data = text.encode()
    return data.replace(b"o", b"\xff", 1) if dice.random() < 0.2 else data


def check(seed: int, envelope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up(seed, envelope)
    alone = line_by_line(data, monkeypatch)
    for size, worth in ((1 << 22, 1), (500, 3), (9000, 20)):
        bulk = in_bulk(data, monkeypatch, size=size, worth=worth)
        assert bulk.read == alone.read
        assert bulk.rows == alone.rows


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_made_up_logs(envelope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(2):
        check(seed, envelope, monkeypatch)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 30))
@pytest.mark.parametrize("envelope", ENVELOPES)
def test_more_made_up_logs(seed: int, envelope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, envelope, monkeypatch)


ACCESS = (
    '[2026-02-17 09:00:01] INFO:     10.0.0.7:41234 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    '[2026-02-17 09:00:01] INFO:     10.0.0.7:41234 - "GET /health HTTP/1.1" 200 OK',
    'INFO:     127.0.0.1:5123 - "GET /metrics HTTP/1.1" 200 OK',
    'INFO:     127.0.0.1:5123 - "POST /generate HTTP/1.1" 503 Service Unavailable',
)


# an even seed has four kinds of access lines, an odd one has two
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(2, 6))])
@pytest.mark.parametrize("envelope", ["plain", "carriage_returns", "docker"])
def test_lines_that_are_put_aside(seed: int, envelope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    lines = []
    for _ in range(1500):
        kind = dice.random()
        if kind < 0.5:
            lines.append(perturbed(dice.choice(ACCESS[:2] if seed % 2 else ACCESS), dice, 0.3, skip=20 if kind < 0.45 else 0))
        elif kind < 0.95:
            lines.append(perturbed(dice.choice(OTHER), dice, 0.5))
        else:
            lines.append(perturbed(dice.choice(SAMPLES), dice, 0.3, skip=40))
    data = ("\n".join(ENVELOPES[envelope](lines, dice)) + "\n").encode()
    alone = line_by_line(data, monkeypatch)
    for size in (1 << 22, 8000):
        bulk = in_bulk(data, monkeypatch, size=size, worth=1)
        assert (bulk.read, bulk.rows) == (alone.read, alone.rows)


def test_new_year_within_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    line = (
        "INFO {} [loggers.py:87] Engine 000: Avg prompt throughput: 1.5 tokens/s, Avg generation throughput: 3.0 tokens/s, "
        "Running: 24 reqs, Waiting: 7 reqs, GPU KV cache usage: 96.8%, Prefix cache hit rate: 41.3%"
    )
    stamps = [f"12-{day} {hour:02d}:00:00" for day in (30, 31) for hour in range(24)] + [f"01-01 {hour:02d}:00:00" for hour in range(24)]
    data = "".join(line.format(s) + "\n" for s in stamps).encode()
    bulk = in_bulk(data, monkeypatch, size=2000, worth=1)
    assert bulk.one_by_one == 0
    times = [row["ts"] for row in bulk.rows["scheduler"]]
    assert times == sorted(times)
    assert (times[0].year, times[-1].year) == (2025, 2026)
    assert bulk.read == line_by_line(data, monkeypatch).read


def test_a_damaged_line_does_not_teach_that_sound_ones_are_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = (
        "INFO 02-06 09:02:05 [loggers.py:87] Engine 000: Avg prompt throughput: 1.5 tokens/s, Avg generation throughput: 3.0 tokens/s, "
        "Running: 24 reqs, Waiting: 7 reqs, GPU KV cache usage: 96.8%, Prefix cache hit rate: 41.3%\n"
    )
    # neither of two broken parts of the stamp alone would make it a record
    broken = sound.replace("02-06", "027-0611")
    bulk = in_bulk((broken * 30 + sound * 30).encode(), monkeypatch, size=1 << 22, worth=1)
    assert len(bulk.rows["scheduler"]) == 30


@pytest.mark.parametrize("place", [0, 3, 40])
@pytest.mark.parametrize("glued", [False, True])
def test_a_line_longer_than_a_block(place: int, glued: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for line in LOGS[0].read_text(encoding="utf-8").splitlines() if "Decode batch" in line][:60]
    long = '{"weights": [0.125, 0.250]}, ' * 2000 + (" ".join(lines[:5]) if glued else "")
    data = "".join(f"{line}\n" for line in [*lines[:place], long, *lines[place:]]).encode()
    alone = line_by_line(data, monkeypatch)
    assert len(alone.rows["scheduler"]) == len(lines) + 5 * glued
    for size in (700, 4000, 1 << 22):
        bulk = in_bulk(data, monkeypatch, size=size, worth=1)
        assert (bulk.rows, bulk.read) == (alone.rows, alone.read)
    # what stands beside the long line is still read in bulk
    assert in_bulk(data, monkeypatch, size=4000, worth=1).one_by_one < len(lines)


@pytest.mark.parametrize("end", range(1, 60, 7))
def test_a_wrapped_record_may_be_the_last_and_without_an_end(end: int, monkeypatch: pytest.MonkeyPatch) -> None:
    line = (
        "[2026-01-02 03:04:05 DP1 TP0] Decode batch, #running-req: 24, #token: 81234, token usage: 0.62, cuda graph: True, "
        "gen throughput (token/s): 1534.21, #queue-req: 3"
    )
    text = "\n".join(wrapped([line] * 20, 60))
    data = text[:-end].encode()
    alone = line_by_line(data, monkeypatch)
    # the last one lacks its queue at least
    assert [r["running"] for r in alone.rows["scheduler"]] == [24] * len(alone.rows["scheduler"])
    assert len(alone.rows["scheduler"]) >= 19
    for size in (100, 700, 1 << 22):
        bulk = in_bulk(data, monkeypatch, size=size)
        assert (bulk.rows, bulk.read) == (alone.rows, alone.read)


@pytest.mark.parametrize("number", ["9000000000000000000", "99999999999999999999", "1000000000001", "0"])
def test_numbers_beyond_any_server(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = re.sub(r"#queue-req: \d+", f"#queue-req: {number}", LOGS[0].with_name("server.log").read_text(encoding="utf-8")).encode()
    alone = line_by_line(data, monkeypatch)
    bulk = in_bulk(data, monkeypatch, size=1 << 22)
    assert (bulk.rows, bulk.read) == (alone.rows, alone.read)
    assert {r["waiting"] for r in bulk.rows["scheduler"]} == ({0} if number == "0" else {None})
