"""Advice: the data are sound, the flags exist where they are given, and a case gets what fits it, in its own numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from diagnosing import diagnosis_of
from hard_cases import decode, prefill, retract, sg_start, stats, v0, v0_preemption, vl, vl_start

from analyzer.diagnosis.advice import Entry, advise, entries, leaves
from analyzer.diagnosis.conditions import Condition, all_hold, parse, placeholders, said
from analyzer.diagnosis.known import DERIVED
from analyzer.diagnosis.model import Advice, Cause, Finding
from analyzer.diagnosis.settings import settings
from analyzer.formats.load import registry
from analyzer.formats.metrics import catalogue
from analyzer.formats.versions import version_key

FLAGS = Path(__file__).resolve().parents[1] / "data" / "engine_flags.tsv"


def _facts() -> set[str]:
    of_logs = {key for f in registry().formats if f.table == "facts" for s in f.samples for key in s.expect}
    return of_logs | {m.name for m in catalogue()}


def _names(conditions: tuple[Condition, ...]) -> set[str]:
    return {c.name for c in conditions} | {c.value for c in conditions if c.factor != 1.0}


@pytest.mark.parametrize("cause", get_args(Cause))
@pytest.mark.parametrize("engine", ["sglang", "vllm", None])
def test_every_cause_has_advice_even_when_nothing_else_is_known(cause: Cause, engine: str | None) -> None:
    advice, _ = advise(cause, engine, (None, None), {} if engine is None else {"engine": engine})
    assert advice
    assert all(a.action.endswith(".") for a in advice)


def test_ids_are_unique_and_sentences_whole() -> None:
    ids = [e.id for e in (*entries(), *leaves(), *settings())]
    assert len([e.id for e in entries()]) == len({e.id for e in entries()})
    assert all(re.fullmatch(r"[a-z0-9_.]+", i) for i in ids)
    for entry in entries():
        for sentence in (*entry.action, *entry.moves, *entry.cost):
            assert re.fullmatch(r"(?:[A-Z0-9{]|vLLM ).*\.", sentence), (entry.id, sentence)
        assert entry.causes
        assert set(entry.causes) <= set(get_args(Cause)), entry.id
    for left in leaves():
        assert set(left.causes) <= set(get_args(Cause)), left.id


def test_a_sentence_with_numbers_has_one_without_behind_it_unless_its_conditions_know_them() -> None:
    for entry in entries():
        sure = {c.name for c in entry.applies.when if not c.lenient and c.op != "unknown"} | {c.value for c in entry.applies.when}
        for sentences in (entry.action, entry.moves, entry.cost):
            if sentences:
                assert placeholders(sentences[-1]) <= sure, (entry.id, sentences[-1])


def test_conditions_and_sentences_name_only_what_can_be_known() -> None:
    names = {*DERIVED, *_facts()}
    for entry in (*entries(), *leaves(), *settings()):
        used = _names(entry.applies.when)
        texts = (*entry.action, *entry.moves, *entry.cost) if isinstance(entry, Entry) else entry.sentence
        for text in (texts,) if isinstance(texts, str) else texts:
            used |= placeholders(text)
        if not isinstance(entry, type(leaves()[0])):
            used |= set(entry.reads)
        unknown = {name for name in used if name not in names and not name.startswith("arg.")}
        assert not unknown, (entry.id, unknown)


def test_a_flag_exists_in_every_version_it_is_given_for() -> None:
    rows = [line.split("\t") for line in FLAGS.read_text(encoding="utf-8").splitlines()]
    read = {e: v.split() for e, v in re.findall(r"(sglang|vllm) ([\d.post ]+)", rows[0][2])}
    have = {(engine, flag): set(versions.split()) for engine, flag, versions in rows[1:]}
    checked = 0
    for entry in entries():
        for flag in re.findall(r"--[a-z0-9-]+", entry.flag):
            engine = entry.applies.engine
            assert engine is not None
            assert (engine, flag) in have, f"{flag} is not in {FLAGS.name}"
            for version in read[engine]:
                if entry.applies.surely((version, version)):
                    assert version in have[engine, flag], (entry.id, version)
                    checked += 1
    assert checked > 200


@pytest.mark.parametrize(
    ("version", "flag"), [("0.5.3", "--cuda-graph-max-bs"), ("0.5.12", "--cuda-graph-max-bs"), ("0.5.21", "--cuda-graph-max-bs-decode")]
)
def test_a_renamed_flag_has_the_name_of_the_version(version: str, flag: str) -> None:
    known = {"engine": "sglang", "running_max": 300.0, "arg.cuda_graph_max_bs": 160.0, "arg.cuda_graph_max_bs_decode": 160.0}
    advice, _ = advise("decode_bound", "sglang", (version, version), known)
    assert [a.flag for a in advice if "graph-max" in a.flag] == [flag]
    assert all(a.versions == "" for a in advice)


def test_an_unknown_version_gets_both_names_with_the_versions_that_have_them() -> None:
    known = {"running_max": 300.0, "arg.cuda_graph_max_bs": 160.0, "arg.cuda_graph_max_bs_decode": 160.0}
    advice, _ = advise("decode_bound", "sglang", (None, None), known)
    told = {a.flag: a.versions for a in advice if "graph-max" in a.flag}
    assert told == {"--cuda-graph-max-bs": "up to 0.5.12", "--cuda-graph-max-bs-decode": "0.5.15 or later"}


def test_a_version_inside_a_release_belongs_to_it() -> None:
    def swap(version: str) -> bool:
        return any("--swap-space does nothing" in s for s in advise("l1_bound", "vllm", (version, version), {"engine_core": "V1"})[1])

    assert [swap(v) for v in ("0.7.3", "0.8.5", "0.17.1", "0.18.0")] == [False, True, True, False]
    assert version_key("0.17.1") > version_key("0.17")


def test_entries_of_another_engine_are_not_given() -> None:
    for cause in get_args(Cause):
        assert not [a for a in advise(cause, "vllm", (None, None), {})[0] if a.id.startswith("sglang.")]
        assert not [a for a in advise(cause, "sglang", (None, None), {})[0] if a.id.startswith("vllm.")]


@pytest.mark.parametrize(
    ("condition", "known", "holds"),
    [
        ("cap > 3", {"cap": 4.0}, True),
        ("cap > 3", {"cap": 3.0}, False),
        ("cap > 3", {}, False),
        ("cap > 3 or unknown", {}, True),
        ("cap > 3 or unknown", {"cap": 2.0}, False),
        ("cap < 0.5 * ceiling_requests", {"cap": 4.0, "ceiling_requests": 9.0}, True),
        ("cap < 0.5 * ceiling_requests", {"cap": 5.0, "ceiling_requests": 9.0}, False),
        ("cap < ceiling_requests", {"cap": 5.0}, False),
        ("arg.kv_cache_dtype in auto bfloat16", {"arg.kv_cache_dtype": "auto"}, True),
        ("arg.kv_cache_dtype in auto bfloat16", {"arg.kv_cache_dtype": "fp8_e5m2"}, False),
        ("engine_core == V0", {"engine_core": "V0"}, True),
        ("engine_core != V0 or unknown", {"engine_core": "V0"}, False),
        ("arg.chunked_prefill_size == -1", {"arg.chunked_prefill_size": -1.0}, True),
        ("arg.page_size > 64", {"arg.page_size": "large"}, False),
        ("known cap", {"cap": 0.0}, True),
        ("unknown cap", {"cap": 0.0}, False),
        ("unknown cap", {}, True),
    ],
)
def test_conditions(condition: str, known: dict[str, float | str], holds: bool) -> None:
    assert all_hold((parse(condition),), known) is holds


@pytest.mark.parametrize("text", ["cap", "cap =! 3", "known", "3 < cap", "known cap or unknown", ""])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a condition"):
        parse(text)


def test_the_sentence_with_the_most_known_numbers_is_said() -> None:
    sentences = ("{cap} of {ceiling_requests}, {usage_max:share}.", "{cap}.", "None.")
    assert said(sentences, {"cap": 1234.0, "ceiling_requests": 2.5, "usage_max": 0.125}) == "1,234 of 2.5, 12.5 %."
    assert said(sentences, {"cap": 8.0}) == "8."
    assert said(sentences, {}) == "None."
    assert said(sentences[:1], {}) == ""


def test_text_of_a_fact_is_said_as_it_is() -> None:
    assert said(("It is {arg.x}.",), {"arg.x": "{cap} <b>%s"}) == "It is {cap} <b>%s."


def _verdict(log: str, cause: str) -> Finding:
    verdict = diagnosis_of(log).verdict
    assert verdict.cause == cause
    return verdict


def _by_id(finding: Finding) -> dict[str, Advice]:
    return {a.id: a for a in finding.advice}


def _full(queue: int = 20) -> str:
    return "".join(decode(t, 20, 0.97, queue, 400) + prefill(t + 1, 1, 300, 0.96, 19, queue, cached=40 + t % 3) for t in range(0, 120, 3))


def test_l1_bound_sglang_in_numbers() -> None:
    log = sg_start(-80, mem_fraction_static=0.8, kv_cache_dtype="auto", schedule_conservativeness=1.0) + _full() + retract(121)
    verdict = _verdict(log, "l1_bound")
    advice = _by_id(verdict)
    first = verdict.advice[0]
    assert (first.flag, first.current) == ("--mem-fraction-static", "0.8")
    # at least 0.05 of 0.8 of the pool of 100,000
    assert first.moves == "0.05 more adds at least 6,250 tokens to the pool of 100,000."
    assert "about 200,000" in advice["sglang.kv_cache_dtype"].moves
    assert "(1 seen)" in advice["sglang.schedule_conservativeness.raise"].moves
    assert "sglang.schedule_conservativeness.lower" not in advice
    assert verdict.leave_alone[0].startswith("L2 (a KV cache in host memory) does not admit one request more")
    assert any("64 were allowed" in s for s in verdict.leave_alone)


def test_l2_is_to_be_left_alone_in_its_own_numbers() -> None:
    pool = "[2026-03-10 11:59:00] Allocating kv hierarchical KV host pool: 250000 tokens, 30.00 GB host memory.\n"
    verdict = _verdict(sg_start(-80) + pool + _full(), "l1_bound")
    assert verdict.leave_alone[0] == (
        "More L2 does not admit one request more: admission asks for room in the pool of 100,000 tokens on the GPU, and the 250,000 tokens "
        "of L2 are in neither test."
    )


def test_what_the_memory_adds_is_computed_from_the_sizes_in_the_log() -> None:
    sizes = (
        "[2026-03-10 11:58:50] Load weight begin. avail mem=80.00 GB\n"
        "[2026-03-10 11:58:55] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 100000, K size: 10.00 GB, V size: 10.00 GB\n"
    )
    verdict = _verdict(sg_start(-80, mem_fraction_static=0.8) + sizes + _full(), "l1_bound")
    # 0.05 of 80 GB is 4 GB, and 20 GB hold 100,000 tokens
    assert verdict.advice[0].moves.startswith("0.05 more adds about 20,000 tokens to the pool of 100,000, room for about 4 more")


def test_a_share_of_memory_at_its_end_is_not_raised() -> None:
    assert "sglang.mem_fraction_static" in _by_id(_verdict(sg_start(-80, mem_fraction_static=0.94) + _full(), "l1_bound"))
    assert "sglang.mem_fraction_static" not in _by_id(_verdict(sg_start(-80, mem_fraction_static=0.95) + _full(), "l1_bound"))


def test_smaller_kv_is_not_advised_twice() -> None:
    log = sg_start(-80, kv_cache_dtype="fp8_e5m2") + _full()
    assert "sglang.kv_cache_dtype" not in _by_id(_verdict(log, "l1_bound"))


def test_cap_bound_names_the_cap_and_what_the_pool_takes() -> None:
    verdict = _verdict(vl_start(-80, cap=4) + "".join(stats(t, 4, 20, 0.1) for t in range(0, 100, 10)), "cap_bound")
    advice = verdict.advice[0]
    assert (advice.flag, advice.current) == ("--max-num-seqs", "4")
    # a tenth of 100,000 tokens holds 4 requests
    assert "from 4 for each engine" in advice.action
    assert "about 39 requests" in advice.action
    assert "at most 24 were there" in advice.action
    assert advice.moves == "Up to 24 requests run at once, where 4 could."
    assert verdict.leave_alone == ("More KV memory or smaller KV would stay empty: the pool was used to 10 % at most.",)


def test_v0_gets_no_flag_of_v1() -> None:
    log = "INFO 03-10 11:58:00 llm_engine.py:234] Initializing an LLM engine (v0.6.6.post1) with config: model='m/x'\n"
    log += "".join(v0(t, 20, 30, 0.98) for t in range(0, 100, 5)) + v0_preemption(101, 101)
    verdict = _verdict(log, "l1_bound")
    assert not {"vllm.replicas", "vllm.watermark.raise", "vllm.reserve_full_isl.on"} & set(_by_id(verdict))
    assert any("--swap-space only holds" in s for s in verdict.leave_alone)


def test_prefill_bound_is_told_in_steps() -> None:
    log = vl_start(-80, budget=512) + "".join(stats(t, 3, 20, 0.2, prompt=5000.0, gen=20.0) for t in range(0, 100, 10))
    verdict = _verdict(log, "prefill_bound")
    assert verdict.advice[0].moves == "A step may compute 1,024 tokens instead of 512; the longest prompt allowed takes 64 steps now."
    assert any("used to 20 % at most" in s for s in verdict.leave_alone)


def test_a_capture_of_nothing_has_advice_too() -> None:
    verdict = _verdict(vl(0, "Available routes are:", file="launcher.py"), "insufficient_data")
    assert [a.id for a in verdict.advice] == ["insufficient_data.record"]
