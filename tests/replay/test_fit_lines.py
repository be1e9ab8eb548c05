"""Rows of work from lines of a log and from clients, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzer.replay.fit.felt import felt_work
from analyzer.replay.fit.gaps import between_decode_lines, prefill_steps
from analyzer.replay.fit.line import Line
from analyzer.replay.fit.seen import Seen, Spans
from analyzer.replay.settings import Sglang, Vllm

DECODE = Line(
    at_s=0.0, kind="decode", running=4.0, waiting=0.0, gen_tps=200.0, gen_tps_told=True, prompt_tps=None, own_tps=False,
    new_seqs=0, new_tokens=0, cached_tokens=0, kv_tokens=1000.0, step_s=None, ctx_reqs=0, ctx_tokens=0, gen_reqs=0, gen_tokens=0,
)  # fmt: skip
SETTINGS = Sglang(l1_tokens=10_000, max_running=8, chunked_prefill_tokens=2048)


def _prefill(at: float, tokens: int = 2048, waiting: float = 3.0, tps: float | None = 4096.0, *, own: bool = True) -> Line:
    return replace(
        DECODE, at_s=at, kind="prefill", waiting=waiting, gen_tps=None, prompt_tps=tps, own_tps=own, new_seqs=1, new_tokens=tokens
    )


def test_even_decoding_is_told_by_its_throughput_whatever_the_stamps_round_to() -> None:
    exact, _all = between_decode_lines([replace(DECODE, at_s=float(t)) for t in (0, 0, 1, 2)], 40.0, None)
    assert len(exact) == 3
    assert exact[0].seconds == pytest.approx(40 * 4 / 200)
    assert (exact[0].steps, exact[0].tokens, exact[0].requests, exact[0].prefills) == (40, 160, 160, 0)


def test_a_gap_with_prefills_is_long_enough_against_whole_seconds_or_joined() -> None:
    lines = []
    for n in range(30):
        lines += [_prefill(float(n), tokens=500), replace(DECODE, at_s=float(n))]
    exact, everything = between_decode_lines(lines, 40.0, None)
    assert exact == everything
    assert len(exact) == 1
    (row,) = exact
    assert (row.seconds, row.steps, row.prefills) == (20.0, 20 * 41, 20)
    assert row.tokens == 20 * (160 + 500)


def test_stamps_with_parts_of_a_second_tell_each_gap() -> None:
    lines = [replace(DECODE, at_s=0.123 + 0.9 * n) for n in range(5)]
    exact, everything = between_decode_lines(lines, 40.0, None)
    assert exact == everything
    assert len(exact) == 4
    # with nobody there for half of it, a gap tells nothing of the engine
    assert len(between_decode_lines(lines, 40.0, Spans([(0.0, 1.5)]))[0]) == 1


def test_a_throughput_over_a_silence_tells_nothing() -> None:
    lines = [DECODE, replace(DECODE, at_s=60.0, gen_tps=3.0, gen_tps_told=False), replace(DECODE, at_s=61.0)]
    assert [r.end_s for r in between_decode_lines(lines, 40.0, None)[0]] == [61.0]


def test_full_prefill_steps_behind_one_another_are_told_by_the_later_line() -> None:
    (row,) = prefill_steps([_prefill(n / 2) for n in range(12)], SETTINGS)
    assert (row.steps, row.tokens, row.prefills) == (10, 20_480, 10)
    assert row.seconds == pytest.approx(5.0)
    # older engines print the throughput of the batch before
    (row,) = prefill_steps([_prefill(n / 2, own=False) for n in range(12)], SETTINGS)
    assert row.seconds == pytest.approx(5.0)
    assert prefill_steps([_prefill(n / 2, waiting=0.0) for n in range(12)], SETTINGS) == []
    assert prefill_steps([_prefill(n / 2, tokens=900) for n in range(12)], SETTINGS) == []


def test_what_a_client_felt_holds_the_prefills_of_others() -> None:
    a = Seen("a", 0.0, 1.0, 3.0, None, 100, 101, 0, None, "client")
    b = Seen("b", 1.5, 2.0, 2.9, None, 400, 41, 100, None, "client")
    first, second = felt_work([a, b], Vllm(num_blocks=100, max_running=8), 10.0)
    assert (first.seconds, first.steps, first.prefills) == (2.0, 100, 1)
    # 100 of its own, and b's in nine tenths of a second of two; b's 300 uncached prompt tokens
    assert first.tokens == pytest.approx(100 * (1 + 0.9 / 2) + 300)
    assert (second.prefills, second.tokens) == (0, pytest.approx(80))
    # SGLang prefills in steps of their own
    assert felt_work([a, b], SETTINGS, 10.0)[0].steps == 101
