"""The page in another language: nothing of ours is left in English, and languages do not mix."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from jinja2 import Environment, FileSystemLoader, nodes
from report_fakes import fleet, hostile, insufficient, l1_incident

from analyzer import diagnose, ingest, language, open_trace, render_report
from analyzer.cli.summary import summary
from analyzer.diagnosis import say
from analyzer.report import fmt
from analyzer.report.data import build_report
from analyzer.report.render import render_html

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "analyzer" / "locale" / "zh" / "LC_MESSAGES" / "kvpm.po"
OURS = ("analyzer/report/", "analyzer/cli/", "analyzer/units.py", "analyzer/diagnosis/say.py", "templates/")
FAKES = {f.__name__: f for f in (l1_incident, insufficient, fleet, hostile)}
CHINESE = re.compile(r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")


def page(fake: str, lang: str) -> str:
    con, diagnosis = FAKES[fake]()
    # a cursor: threads must not share a connection
    with con.cursor() as cursor, language.use(lang):
        return render_html(build_report(cursor, diagnosis))


def said(text: str) -> str:
    """A page's text: without SQL, marks and entities."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(pre|style).*?</\1>", "", text))))


def english() -> Iterator[str]:
    """What the report's own texts say in at least five words in a row; what they only fill in is not theirs."""
    with CATALOGUE.open("rb") as file:
        for message in read_po(file):
            if any(path.startswith(OURS) for path, _ in message.locations):
                for text in message.id if isinstance(message.id, tuple) else (message.id,):
                    parts = (part.strip() for part in re.split(r"\{\w+\}", said(text.replace("{", " {"))))
                    yield from (part for part in parts if len(re.findall("[A-Za-z]+", part)) >= 5)


@pytest.mark.parametrize("fake", FAKES)
def test_a_chinese_page_holds_no_sentence_of_ours_in_english(fake: str) -> None:
    found = page(fake, "zh")
    assert '<html lang="zh">' in found
    assert CHINESE.search(found)
    text = said(found)
    texts = set(english())
    assert len(texts) > 80
    assert [t for t in texts if t in text] == []


def test_so_does_the_page_of_a_real_capture(tmp_path: Path) -> None:
    trace = tmp_path / "t.kvtrace"
    ingest([str(p) for p in sorted((ROOT / "sample_traces" / "l1_bound_sglang").glob("*.*")) if p.suffix != ".json"], trace)
    with open_trace(trace) as opened:
        text = said(render_report(opened, lang="zh"))
        same = diagnose(opened, lang="zh"), diagnose(opened)
    assert [t for t in set(english()) if t in text] == []
    ids = [[(a.id, a.answer) for a in d.checklist] + [(f.cause, f.confidence) for f in d.findings] for d in same]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("fake", FAKES)
def test_an_english_page_holds_no_chinese_whatever_was_rendered_before(fake: str) -> None:
    page(fake, "zh")
    found = page(fake, "en")
    assert '<html lang="en">' in found
    assert not CHINESE.search(found)


def test_threads_speak_their_own_language() -> None:
    alone = {lang: page("l1_incident", lang) for lang in language.LANGUAGES}
    together: dict[str, list[str]] = {lang: [] for lang in language.LANGUAGES}
    start = threading.Barrier(len(together))

    def render(lang: str) -> None:
        start.wait()
        together[lang] += [page("l1_incident", lang) for _ in range(3)]

    threads = [threading.Thread(target=render, args=(lang,)) for lang in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == {lang: [alone[lang]] * 3 for lang in alone}


def test_hostile_text_stays_text_in_every_language() -> None:
    for lang in language.LANGUAGES:
        found = page("hostile", lang)
        assert "&lt;img src=x onerror=1&gt;" in found
        assert "<img" not in found


def test_the_terminal_speaks_chinese_too() -> None:
    with language.use("zh"):
        text = summary(l1_incident()[1], to_file=True)
    assert text.startswith("l1_bound  置信度 高\n")
    assert [t for t in set(english()) if t in " ".join(text.split())] == []


def test_templates_translate_only_what_stands_in_them() -> None:
    """What they translate is not escaped, so it must never be text from a trace."""
    environment = Environment(loader=FileSystemLoader(ROOT / "templates"))
    calls = 0
    for path in sorted((ROOT / "templates").rglob("*.j2")):
        for call in environment.parse(path.read_text(encoding="utf-8")).find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name in ("_", "ngettext"):
                texts = call.args[: 1 if call.node.name == "_" else 2]
                assert all(isinstance(t, nodes.Const) for t in texts), f"{path.name}:{call.lineno}"
                calls += 1
    assert calls > 100


@pytest.mark.parametrize(
    ("words", "en", "zh"),
    [
        (lambda: say.count(1, "request"), "1 request", "1 个请求"),
        (lambda: say.count(1234, "request"), "1,234 requests", "1,234 个请求"),
        (lambda: say.count(0, "retraction"), "0 retractions", "0 次回退"),
        (lambda: say.count(2, "sheep", "sheep"), "2 sheep", "2 sheep"),
        (lambda: say.count(None, "request"), "an unknown number of requests", "若干 个请求"),
        (lambda: say.count(7), "7", "7"),
        (lambda: say.span(None, None), "over the capture", "整个采集期间"),
        (lambda: fmt.measure(1, "tokens"), "1\u00a0token", "1\u00a0个\u00a0token"),
        (lambda: fmt.measure(1.5, "requests"), "1.5\u00a0requests", "1.5\u00a0个请求"),
        (lambda: fmt.measure(3, "geese"), "3\u00a0geese", "3\u00a0geese"),
        (lambda: fmt.sentences(["A.", "", "B."]), "A. B.", "A.B."),
        (lambda: fmt.share(0.9999), "over 99.9\u00a0%", "超过 99.9\u00a0%"),
    ],
)
def test_numbers_are_said_in_the_language_of_the_moment(words: Callable[[], str], en: str, zh: str) -> None:
    assert words() == en
    with language.use("zh"):
        assert words() == zh
    assert words() == en
