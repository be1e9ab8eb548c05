"""The texts of the data files are said in the language of the moment, whatever was said before."""

from __future__ import annotations

import re

import pytest

from analyzer import language
from analyzer.diagnosis.advice import advise
from analyzer.diagnosis.conditions import placeholders, said
from analyzer.diagnosis.questions import Question, questions
from analyzer.diagnosis.settings import settings

CHINESE = re.compile(r"[\u3400-\u9fff]")
# Several words in a row that are no flag, name of a metric or quotation of a log line.
PROSE = re.compile(r"(?<![\w:/-])(?:keep|scrape|every|with|both|and|or|the|do not|log) [a-z]")
KNOWN: dict[str, float | str] = {"engine": "sglang", "cap": 8.0, "caps": 16.0, "ceiling_rank": 264.0, "ceiling_requests": 528.0,
    "demand_requests": 49.0, "cap_wanted": 49.0, "usage_max": 0.045}  # fmt: skip


@pytest.mark.parametrize("question", questions().values(), ids=lambda q: q.id)
@pytest.mark.parametrize("engine", ["sglang", "vllm", None])
def test_a_question_is_said_in_the_language_of_the_moment(question: Question, engine: str | None) -> None:
    with language.use("zh"):
        chinese = question.answer("", "no", "", missing=question.missing(engine))
    english = question.answer("", "no", "", missing=question.missing(engine))
    assert (english.title, english.why, english.advice) == (question.title, question.why, question.advice)
    assert len(chinese.missing) == len(english.missing) == len(question.signals)
    for text in (chinese.title, chinese.why, chinese.advice, *(m.flag for m in chinese.missing)):
        assert CHINESE.search(text), text
        assert not PROSE.search(text), text
    assert not any(CHINESE.search(m.flag + m.signal) for m in english.missing)


def test_a_signal_has_a_name_of_its_own_in_every_language() -> None:
    english = [m.signal for q in questions().values() for m in q.missing("vllm")]
    with language.use("zh"):
        chinese = [m.signal for q in questions().values() for m in q.missing("vllm")]
    assert {"TTFT", "KV usage", "prefill/decode queues", "server arguments"} <= set(english)
    assert len(set(chinese)) == len(set(english))
    assert all(CHINESE.search(signal) for signal in chinese)


def test_without_an_engine_the_flags_of_all_are_told() -> None:
    (missing,) = questions()["queue_on_cap"].missing(None)
    assert missing.flag.startswith("sglang: keep the start-up lines")
    assert "; vllm: keep" in missing.flag
    with language.use("zh"):
        (missing,) = questions()["queue_on_cap"].missing(None)
    assert missing.flag.startswith("sglang：保留启动行")
    assert "；vllm：保留" in missing.flag


def test_advice_has_its_numbers_in_every_language() -> None:
    with language.use("zh"):
        chinese, alone = advise("cap_bound", "sglang", (None, None), KNOWN)
    english, _ = advise("cap_bound", "sglang", (None, None), KNOWN)
    assert [a.id for a in chinese] == [a.id for a in english]
    assert english[0].action.startswith("Raise it from 8 for each rank")
    assert chinese[0].action.startswith("从每个 rank 的 8 调高")
    assert alone == ("增加 KV 显存或压缩 KV 只会空着：池的使用率最高 4.5 %。",)


def test_versions_are_said_in_the_language_of_the_moment() -> None:
    with language.use("zh"):
        advice, _ = advise("decode_bound", "sglang", (None, None), {"engine": "sglang", "running_max": 64.0, "arg.cuda_graph_max_bs": 32.0})
    assert [a.versions for a in advice if a.versions] == ["0.5.12 及以下"]


def test_every_bad_setting_is_said_in_chinese() -> None:
    for setting in settings():
        numbers = dict.fromkeys(placeholders(setting.sentence), 0.5)
        with language.use("zh"):
            sentence = said((setting.sentence,), numbers)
        assert CHINESE.search(sentence), setting.id
        assert "{" not in sentence, setting.id
        assert not CHINESE.search(said((setting.sentence,), numbers)), setting.id
