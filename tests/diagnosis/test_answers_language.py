"""The checklist in another language says the same: other words, and nothing else that differs."""

from __future__ import annotations

import re
import tempfile
from datetime import UTC
from functools import lru_cache
from pathlib import Path

import pytest
from hard_cases import decode, prefill, retract, sg_start, stats, v0, vl_start

from analyzer import ingest, language, open_trace
from analyzer.diagnosis.diagnose import diagnose
from analyzer.diagnosis.model import Answered
from analyzer.ingestion import IngestOptions

CHINESE = re.compile(r"[\u3400-\u9fff]")
ENGLISH = re.compile(r"[A-Za-z]{2,} [a-z]{2,} [a-z]{2,}")
LOGS = {
    "full pool": sg_start(-80) + "".join(decode(t, 20, 0.98, 12) + (retract(t + 1) if t % 30 == 0 else "") for t in range(0, 150, 3)),
    "cap": vl_start(-80, cap=8) + "".join(stats(t, 8, 30, 0.2) for t in range(0, 200, 10)),
    "prefill": sg_start(-80) + "".join(prefill(t, 4, 8192, 0.2, 10, 20) for t in range(0, 150, 3)),
    "no arguments": "".join(v0(t, 12, 9, 0.97) for t in range(0, 150, 5)),
    "one report": stats(0, 4, 0, 0.1),
}


@lru_cache
def checklists(log: str) -> tuple[tuple[Answered, ...], tuple[Answered, ...]]:
    """The checklist in English and in Chinese."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "server.log"
        path.write_text(log, encoding="utf-8")
        ingest([str(path)], Path(scratch) / "t.kvtrace", IngestOptions(UTC, 2026))
        with open_trace(Path(scratch) / "t.kvtrace") as trace:
            english = diagnose(trace).checklist
            with language.use("zh"):
                return english, diagnose(trace).checklist


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_an_answer_in_another_language_is_the_same_answer(log: str) -> None:
    for english, chinese in zip(*checklists(log), strict=True):
        assert (english.id, english.answer, english.sql) == (chinese.id, chinese.answer, chinese.sql)
        assert not CHINESE.search(english.sentence)
        assert CHINESE.search(chinese.sentence)
        assert not ENGLISH.search(chinese.sentence)
        for one, other in zip(english.evidence, chinese.evidence, strict=True):
            assert (one.unit, one.start, one.end) == (other.unit, other.start, other.end)
            assert one.value == other.value or isinstance(one.value, str)
            assert not CHINESE.search(one.name)
            assert not ENGLISH.search(other.name)


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_the_numbers_of_a_sentence_are_the_same_in_every_language(log: str) -> None:
    for english, chinese in zip(*checklists(log), strict=True):
        assert sorted(re.findall(r"\d[\d.,:]*\d|\d", english.sentence)) == sorted(re.findall(r"\d[\d.,:]*\d|\d", chinese.sentence))
