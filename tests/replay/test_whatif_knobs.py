"""Knobs: how they are typed, what they change, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest
from whatif_cases import SGLANG, VLLM, case, requests

from analyzer.diagnosis.advice import entries
from analyzer.errors import KvpmError
from analyzer.replay.knobs import ASSUMED_LOAD_TOKENS_PER_S, KNOBS, applied, parse, target
from analyzer.replay.model import Change
from analyzer.replay.settings import L2, Settings, Sglang, Vllm
from analyzer.replay.workload import Workload


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("l1_tokens=x1.25", [Change("l1_tokens", 1.25, times=True)]),
        ("l1_tokens=×1.25", [Change("l1_tokens", 1.25, times=True)]),
        ("l1_tokens=200k", [Change("l1_tokens", 204800, times=False)]),
        ("l1_tokens=1.5M", [Change("l1_tokens", 1572864, times=False)]),
        ("l2_tokens=x0", [Change("l2_tokens", 0, times=True)]),
        (" l1_tokens = X2 , max_running = 64 ", [Change("l1_tokens", 2, times=True), Change("max_running", 64, times=False)]),
        ("prefix_sharing=off", [Change("prefix_sharing", 0, times=False)]),
        ("conservativeness=.3", [Change("conservativeness", 0.3, times=False)]),
    ],
)
def test_typed(typed: str, meant: list[Change]) -> None:
    assert list(parse(typed)) == meant


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("l1_tokens", "not KNOB=VALUE"),
        ("l1_tokens=", "not KNOB=VALUE"),
        ("", "not KNOB=VALUE"),
        ("l1=x2", "no knob 'l1'"),
        ("l1_tokens=x-2", "'x-2'"),
        ("l1_tokens=2x", "'2x'"),
        ("l1_tokens=nan", "'nan'"),
        ("l1_tokens=inf", "'inf'"),
        ("l1_tokens=x2k", "'x2k'"),
        ("prefix_sharing=2", "'2'"),
        ("l1_tokens=-5", "cannot be '-5'"),
        ("l1_tokens=+25%", "cannot be"),
        ("max_running=2.5", "cannot be '2.5'"),
        ("l1_tokens=1.0001k", "cannot be"),
        ("max_new_tokens=0.5", "cannot be"),
        ("step_tokens=" + "9" * 400, "cannot be"),
        ("arrival_rate=x" + "9" * 400, "cannot be"),
        ("l1_tokens=9999999m", "cannot be"),
        ("l1_tokens=x2,l1_tokens=x3", "twice"),
    ],
)
def test_mistyped(typed: str, found: str) -> None:
    with pytest.raises(KvpmError, match=found) as caught:
        parse(typed)
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_change_is_written_as_it_is_read() -> None:
    for typed in ("l1_tokens=x1.25", "max_running=64", "l2_tokens=x0"):
        (change,) = parse(typed)
        assert change.text == typed


def _applied(typed: str, settings: Settings) -> tuple[Workload, Settings]:
    return applied(parse(typed), case().workload, settings)


@pytest.mark.parametrize(
    ("typed", "before", "after"),
    [
        ("l1_tokens=x1.25", SGLANG, replace(SGLANG, l1_tokens=2560)),
        # whole pages, and whole blocks beside the null block
        ("l1_tokens=1000", SGLANG, replace(SGLANG, l1_tokens=992)),
        ("l1_tokens=x0.5", VLLM, replace(VLLM, num_blocks=65)),
        ("l1_tokens=1000", VLLM, replace(VLLM, num_blocks=63)),
        ("max_running=x2", VLLM, replace(VLLM, max_running=64)),
        ("conservativeness=x0.5", SGLANG, replace(SGLANG, conservativeness=0.5)),
        ("chunked_prefill_tokens=x2", SGLANG, replace(SGLANG, chunked_prefill_tokens=1024)),
        ("chunked_prefill_tokens=0", SGLANG, replace(SGLANG, chunked_prefill_tokens=None)),
        ("step_tokens=x0.5", VLLM, replace(VLLM, step_tokens=256)),
        ("step_tokens=16,max_running=16", VLLM, replace(VLLM, step_tokens=16, max_running=16)),
        ("prefix_sharing=off", VLLM, replace(VLLM, prefix_caching=False)),
        ("l2_tokens=4k", SGLANG, replace(SGLANG, l2=L2(4096, ASSUMED_LOAD_TOKENS_PER_S, 16))),
        ("l2_tokens=x2", replace(VLLM, l2=L2(4096, 9.0, 16, "write_back")), replace(VLLM, l2=L2(8192, 9.0, 16, "write_back"))),
        ("l2_tokens=x0", replace(VLLM, l2=L2(4096, 9.0, 16)), replace(VLLM, l2=L2(0, 9.0, 16))),
    ],
)
def test_settings_change(typed: str, before: Settings, after: Settings) -> None:
    workload, settings = _applied(typed, before)
    assert settings == after
    assert workload.requests == requests()


def test_a_cap_on_answers_cuts_what_is_asked_and_what_is_made() -> None:
    given = requests(3, output=100, asks=200)
    workload, settings = applied(parse("max_new_tokens=x0.505"), case(given=given).workload, SGLANG)
    assert settings == SGLANG
    assert [r.max_new_tokens for r in workload.requests] == [101, 101, 101]
    assert [r.output_tokens for r in workload.requests] == [100, 101, 101]
    assert [r.prompt_tokens for r in workload.requests] == [r.prompt_tokens for r in given]


def test_a_rate_moves_arrivals_and_nothing_else() -> None:
    given = requests(3, gap_s=1.0)
    workload, _settings = applied(parse("arrival_rate=x2"), case(given=given).workload, SGLANG)
    assert [r.arrival_s for r in workload.requests] == [0.0, 0.5, 1.0]
    # 3 requests in 2 seconds are 1.5 a second
    absolute, _settings = applied(parse("arrival_rate=3"), case(given=given).workload, SGLANG)
    assert absolute.requests == workload.requests


@pytest.mark.parametrize(
    ("typed", "settings", "found"),
    [
        ("conservativeness=x2", VLLM, "no setting of vLLM"),
        ("step_tokens=x2", SGLANG, "no setting of SGLang"),
        ("l2_tokens=x2", SGLANG, "no l2_tokens to multiply"),
        ("chunked_prefill_tokens=x2", replace(SGLANG, chunked_prefill_tokens=None), "no chunked_prefill_tokens"),
        ("l1_tokens=x0", SGLANG, "comes to 0"),
        ("l1_tokens=8", VLLM, "comes to 0"),
        ("max_running=x0.01", SGLANG, "comes to 0"),
        ("max_new_tokens=0", SGLANG, "comes to 0"),
        ("arrival_rate=x0", SGLANG, "comes to 0"),
        ("chunked_prefill_tokens=8", SGLANG, "less than a page"),
        ("step_tokens=16", VLLM, "16 tokens a step is less than the 32"),
        ("max_running=x1.02", SGLANG, "changes nothing: it is 32 requests"),
        ("l1_tokens=x1.001", SGLANG, "changes nothing: it is 2048 tokens, and can be set in steps of 16"),
        ("l1_tokens=x1.001", VLLM, "changes nothing"),
        ("max_running=1k", VLLM, "512 tokens a step is less than the 1024"),
    ],
)
def test_refused(typed: str, settings: Settings, found: str) -> None:
    with pytest.raises(KvpmError, match=found) as caught:
        _applied(typed, settings)
    assert caught.value.hint


def test_a_burst_has_no_rate() -> None:
    at_once = case(given=requests(3, gap_s=0.0)).workload
    with pytest.raises(KvpmError, match="arrival_rate"):
        applied(parse("arrival_rate=x2"), at_once, SGLANG)
    with pytest.raises(KvpmError, match="no rate to change"):
        applied(parse("arrival_rate=2"), at_once, SGLANG)


def test_whole_numbers_are_not_lost_to_floating_point() -> None:
    (change,) = parse("max_running=x0.1")
    assert target(change, case().workload, replace(SGLANG, max_running=30)) == 3


def test_flags_are_those_of_the_advice() -> None:
    """An engine's flag is called the same wherever it is named; the arrival rate is no flag of a server."""
    advised = {flag for e in entries() if e.flag for flag in e.flag.replace(",", " ").split()}
    named = {flag for knob in KNOBS.values() for flags in knob.flags.values() for flag in flags.replace(",", " ").split()}
    assert named <= advised


def test_both_engines_settings_have_their_knobs() -> None:
    assert {type(s) for s in (SGLANG, VLLM)} == {Sglang, Vllm}
    for settings, engine in ((SGLANG, "sglang"), (VLLM, "vllm")):
        there = [k.name for k in KNOBS.values() if engine in k.flags and k.now(case().workload, settings) is not None]
        assert len(there) >= 6
