"""Logs of any size, made from lines of the sample traces: time goes on, and the digits of some numbers change.

Lines of a sample are repeated to a block of some megabytes. Each time the block is written its stamps are later and the digits of its
numbers are drawn anew, their count unchanged: by column, so that ten gigabytes take half a minute and not an hour.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count, cycle
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.peers.line_kinds import KINDS

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
# A leap year, and given as --year: vLLM prints none.
YEAR = 2024
SPARSE_SHARE = 0.03
ACCESS_SHARE = 0.62
# Lines that are no engine's: what a front end in the same container prints.
OTHER = (
    b"request 7f3c2a1e tenant=acme model=demo-8b stream=true prompt_chars=8123 accepted in 0.8 ms\n",
    b'  File "/srv/app/gateway/handlers.py", line 214, in chat_completions\n',
    b"healthcheck ok, 14 connections open\n",
)
DENSE_PER_S = 20  # some ranks that share one log
SPARSE_PER_S = 600
BLOCK = 8_000_000
_STAMP = re.compile(rb"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d")
# Digits after the first of numbers whose size does not matter, and of a client's port.
_LOOSE = re.compile(rb"(?:(?<=#token: )|(?<=#cached-token: )|(?<=throughput: )|(?<=token/s\): ))\d([\d.]+)|\.\d+:\d(\d+) - ")


def sample_lines(engine: str) -> tuple[list[bytes], list[bytes]]:
    """(scheduler lines, access lines) of the generated L1 incident, each with its newline."""
    lines = (SAMPLES / f"l1_bound_{engine}" / "server.log").read_bytes().splitlines(keepends=True)
    # what both ranks say of one retraction is one event: one of them is enough to count
    wanted = [line for line in lines if _is_report(line, engine) and b" TP1]" not in line]
    return wanted, [line for line in lines if b" HTTP/" in line]


def _is_report(line: bytes, engine: str) -> bool:
    return any(kind.words.encode() in line for kind in KINDS[engine].values())


def dense(engine: str, seed: int) -> Iterator[bytes]:
    """Blocks of scheduler lines only."""
    return _later(_filled(cycle(sample_lines(engine)[0])), DENSE_PER_S, seed)


def sparse(engine: str, seed: int) -> Iterator[bytes]:
    """Blocks in which 3 % are scheduler lines, among access lines and lines that are no engine's."""
    dice = random.Random(seed)
    wanted, access = (cycle(lines) for lines in sample_lines(engine))

    def lines() -> Iterator[bytes]:
        while True:
            draw = dice.random()
            if draw < SPARSE_SHARE:
                yield next(wanted)
            elif draw < SPARSE_SHARE + ACCESS_SHARE:
                yield next(access)
            else:
                yield dice.choice(OTHER)

    return _later(_filled(lines()), SPARSE_PER_S, seed)


def incident(size: int) -> Iterator[bytes]:
    """SGLang's log of an L1 incident from the start of the server on, the incident over and over: at least `size` bytes."""
    lines = (SAMPLES / "l1_bound_sglang" / "server.log").read_bytes().splitlines(keepends=True)
    begin = next(i for i, line in enumerate(lines) if _is_report(line, "sglang"))
    yield b"".join(lines[:begin])
    moments = [datetime.fromisoformat(found[0].decode()) for found in map(_STAMP.search, lines[begin:]) if found]
    span = max(moments) - min(moments) + timedelta(seconds=1)
    made = sum(map(len, lines[:begin]))
    for turn in count():
        if made >= size:
            return

        def later(match: re.Match[bytes], shift: timedelta = span * turn) -> bytes:
            return str(datetime.fromisoformat(match[0].decode()) + shift).encode()

        block = b"".join(_STAMP.sub(later, line, count=1) for line in lines[begin:])
        made += len(block)
        yield block


def _filled(lines: Iterator[bytes]) -> list[bytes]:
    block, size = [], 0
    while size < BLOCK:
        block.append(next(lines))
        size += len(block[-1])
    return block


def _later(lines: list[bytes], per_s: int, seed: int) -> Iterator[bytes]:
    """The block of these lines again and again, `per_s` lines in a second of its stamps."""
    base = np.frombuffer(b"".join(lines), dtype=np.uint8)
    stamped, stamps, loose = _places(lines)
    width = stamps.shape[1]
    dice = np.random.default_rng(seed)
    for turn in count():
        block = base.copy()
        seconds = (turn * len(lines) + stamped) // per_s
        block[stamps] = _texts(int(seconds[0]), int(seconds[-1]))[seconds - seconds[0], -width:]
        block[loose] = dice.integers(ord("0"), ord("9") + 1, len(loose), dtype=np.uint8)
        yield block.tobytes()


def _places(lines: list[bytes]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers of the lines with a stamp, where each byte of these stamps is (a row for each), and where the loose digits are."""
    within = {line: _places_within(line) for line in set(lines)}
    starts = np.cumsum([0, *map(len, lines[:-1])])
    stamped = np.array([number for number, line in enumerate(lines) if len(within[line][0])])
    stamps = np.array([within[line][0] for line in lines if len(within[line][0])])
    loose = [within[line][1] + start for line, start in zip(lines, starts, strict=True)]
    return stamped, stamps + starts[stamped, None], np.concatenate(loose)


def _places_within(line: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same of one line: the bytes of its stamp, if it has one, and its loose digits."""
    stamp = _STAMP.search(line)
    spans = [match.span(match.lastindex or 0) for match in _LOOSE.finditer(line)]
    loose = [at for span in spans for at in range(*span) if line[at] != ord(".")]
    return np.arange(*(stamp.span() if stamp else (0, 0))), np.array(loose, dtype=np.int64)


def _texts(first: int, last: int) -> npt.NDArray[np.uint8]:
    """The stamps of these seconds of the year, one row of 19 bytes for each."""
    moments = np.datetime64(f"{YEAR}-01-01T00:00:00") + np.arange(first, last + 1)
    written = np.datetime_as_string(moments, unit="s").astype("S19").tobytes().replace(b"T", b" ")
    return np.frombuffer(written, dtype=np.uint8).reshape(-1, 19)
