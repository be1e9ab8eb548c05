"""--lang and KVPM_LANG: the sentences change, and nothing a script reads does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LOG = Path(__file__).resolve().parents[2] / "sample_traces" / "recorded_l1_bound" / "server.log"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _no_language_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVPM_LANG", raising=False)


def ids(document: dict[str, Any]) -> list[Any]:
    answers = [(a["id"], a["answer"], a["sql"]) for a in document["checklist"]]
    findings = [(f["cause"], f["confidence"], f["window"], f["rests_on"]) for f in document["findings"]]
    return [sorted(document), answers, findings, document["window"]]


def test_json_keeps_its_ids_in_another_language(kvpm: Run) -> None:
    kvpm("ingest", str(LOG), "--year", "2026", "-o", "a.kvtrace")
    english, chinese = (json.loads(kvpm("diagnose", "a.kvtrace", "--json", "--lang", lang)[1]) for lang in ("en", "zh"))
    assert ids(english) == ids(chinese)
    assert english["verdict"]["sentence"] != chinese["verdict"]["sentence"]


def test_the_language_is_asked_of_kvpm_lang_and_not_of_lang(kvpm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    kvpm("ingest", str(LOG), "--year", "2026", "-o", "a.kvtrace")
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert kvpm("diagnose", "a.kvtrace")[1].startswith("l1_bound  confidence high\n")
    monkeypatch.setenv("KVPM_LANG", "zh")
    assert kvpm("diagnose", "a.kvtrace")[1].startswith("l1_bound  置信度 高\n")
    assert kvpm("diagnose", "a.kvtrace", "--lang", "en")[1].startswith("l1_bound  confidence high\n")
    _, out, _ = kvpm("report", "a.kvtrace", "-o", "a.html")
    assert out.startswith("l1_bound（高）：")
    assert '<html lang="zh">' in Path("a.html").read_text(encoding="utf-8")


def test_a_language_there_is_not_is_refused(kvpm: Run) -> None:
    code, _, err = kvpm("report", str(LOG), "--lang", "fr")
    assert code == 2
    assert "'en', 'zh'" in err
