"""The report as Markdown: what a ticket needs, and nothing a log could have put there."""

from __future__ import annotations

import html
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace

import duckdb
import pytest
from markdown_it import MarkdownIt
from report_fakes import HOSTILE, connection, diagnosis, fleet, hostile, instance, insufficient, l1_incident, source

from analyzer import language
from analyzer.diagnosis.model import Diagnosis
from analyzer.report import fmt
from analyzer.report.data import build_report
from analyzer.report.forms.markdown import render_markdown
from analyzer.report.forms.pictures import picture_address, report_picture

Fake = Callable[[], tuple[duckdb.DuckDBPyConnection, Diagnosis]]
FAKES: list[Fake] = [l1_incident, insufficient, fleet, hostile]
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
TAGS = {"h1", "h2", "p", "strong", "code", "table", "thead", "tbody", "tr", "th", "td", "ol", "ul", "li", "hr", "img", "blockquote"}


def text_of(fake: Fake) -> str:
    return render_markdown(build_report(*fake()))


@pytest.mark.parametrize("fake", FAKES)
def test_only_our_own_markup_comes_out_of_it(fake: Fake) -> None:
    page = MARKDOWN.render(render_markdown(build_report(*fake()), picture="picture.svg"))
    assert set(re.findall(r"<([a-z0-9]+)", page)) <= TAGS
    assert page.count("<img") == 1
    shown = html.unescape(re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL))
    assert not re.search(r"@\w|\w+://|\bwww\.", shown)


@pytest.mark.parametrize("fake", FAKES)
def test_no_line_of_a_table_is_broken(fake: Fake) -> None:
    tables = re.findall(r"<table>.*?</table>", MARKDOWN.render(text_of(fake)), re.DOTALL)
    assert len(tables) >= 2
    for table in tables:
        rows = [len(re.findall(r"<t[hd]", row)) for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)]
        assert len(set(rows)) == 1
        assert len(rows) > 1
    assert "|---" not in re.sub(r"(?m)^\|.*$", "", text_of(fake))


@pytest.mark.parametrize("fake", FAKES)
def test_it_fits_a_ticket_and_is_the_same_each_time(fake: Fake) -> None:
    text = text_of(fake)
    assert text.count("\n") < 150
    assert "\n\n\n" not in text
    assert text == text_of(fake)


def test_it_says_what_the_first_screen_says() -> None:
    report = build_report(*l1_incident())
    text = render_markdown(report)
    shown = html.unescape(re.sub(r"<[^>]+>", "", MARKDOWN.render(text)))
    assert text.startswith("# L1-bound: the KV pool in HBM was full\n")
    order = [report.verdict.finding.headline, report.verdict.grade.word, "l1_bound, confidence high", "2026-11-30 07:05:00 to 07:13:20 UTC"]
    order += [number.value for number in report.verdict.numbers]
    order += ["What to do", *(question.sentence for question in report.instances.rows[0].questions), "What was read"]
    place = 0
    for words in order:
        place = shown.index(words, place)


def test_every_answer_has_its_row_and_cannot_tell_is_said() -> None:
    report = build_report(*insufficient())
    text = render_markdown(report)
    for question in report.instances.rows[0].questions:
        assert re.search(rf"(?m)^\| {question.number} \| .* \| (?:\*\*)?{question.chip}(?:\*\*)? \| ", text)
    assert "it is never an all-clear" in text
    assert "## What is missing" in text
    assert "`vllm serve without --disable-log-stats`" in text
    assert "**Cut short.**" in text


def test_a_fleet_has_a_table_of_its_instances_and_says_what_it_leaves_out() -> None:
    text = render_markdown(build_report(*fleet(14)))
    assert "| `10.0.3.2:30000` | L1-bound |" in text
    assert "2 more are in the HTML report." in text
    assert "Of the worst instance:" in text


def test_a_picture_in_the_text_is_a_data_url_and_one_beside_it_a_path() -> None:
    report = build_report(*l1_incident())
    picture = report_picture(report)
    assert picture is not None
    inside = render_markdown(report, picture=picture_address(picture, "svg"))
    encoded = re.findall(r"(?m)^!\[[^]]*\]\(<data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)>\)$", inside)
    assert [b64decode(each) for each in encoded] == [picture.svg.encode()]
    beside = MARKDOWN.render(render_markdown(report, picture="a b>(c)|.svg"))
    assert 'src="a%20b%3E%28c%29%7C.svg"' in beside
    assert "![" not in render_markdown(report)


def test_text_of_a_log_is_shown_as_it_is() -> None:
    shown = html.unescape(MARKDOWN.render(text_of(hostile))).replace("\u200b", "")
    assert fmt.clean(HOSTILE) in shown


def test_commands_of_a_tracker_are_not_at_the_beginning_of_a_line() -> None:
    report = build_report(connection(), diagnosis(instance(), sources=(source("/close"),), trace="/close"))
    finding = replace(report.verdict.finding, headline="/close", details="/assign @me", title="/close")
    text = render_markdown(replace(report, verdict=replace(report.verdict, finding=finding)))
    assert not re.search(r"(?m)^\s*/", text)
    assert "/close" in text


def test_it_speaks_chinese() -> None:
    with language.use("zh"):
        text = text_of(l1_incident)
    assert re.search("[\u4e00-\u9fff]", text.splitlines()[0])
