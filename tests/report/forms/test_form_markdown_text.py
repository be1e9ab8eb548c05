"""Text from a log as Markdown: it is shown, and does nothing."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from analyzer.report.forms.markdown_text import cell_code, code, escaped

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
ATTACKS = [
    "# heading", "- list", "+ list", "* list", "1. list", "12) list", "> quote", "    code", "---", "===", "***", "___", ":--",
    "```sh", "~~~", "`code`", "``a`b``", "<b>bold</b>", "<script>alert(1)</script>", "<!-- x -->", "&lt;b&gt;", "&#35;", "&copy;",
    "[a](http://e.example)", "![a](http://e.example/x.png)", "[a]: http://e.example", "[^1]", "<http://e.example>", "<a@e.example>",
    "*a* **b** _c_ __d__ ~~e~~", "a | b", "|---|---|", "a\\|b", "\\", "a\\", "\\|", "``\\|",
    "x\n\n# y", "x\r\n| y |", "x\u2028# y", "{code} {{ 7*7 }}",
    "a_b__c_ _", "$a$ $$b$$", "[x] done", "</td></tr></table>", "\x85# a",
]  # fmt: skip
# What trackers look for in the text after the Markdown is read.
TRACKERS = {
    "mention": r"@\w",
    "issue": r"(?:#|!|\bGH-)\d",
    "link": r"\w+://|\bwww\.",
    "emoji": r":[\w+-]*[a-z][\w+-]*:",
    "label": r"~[\w\"']",
    "snippet": r"[$&]\d",
    "milestone": r"%[\w\"']",
}


def flat(source: str) -> list[Token]:
    return [part for token in MARKDOWN.parse(source) for part in ([token, *token.children] if token.children else [token])]


def said(tokens: list[Token]) -> str:
    return "".join(t.content if t.type in ("text", "code_inline", "text_special") else "" for t in tokens if not t.children)


def plain(text: str) -> str:
    """What a reader sees: blanks are one blank, and what takes no room is not there."""
    return re.sub(r"[ \t\n\r\f\v\x85\u2028\u2029]+", " ", text).strip(" ").replace("\u200b", "")


@pytest.mark.parametrize("text", ATTACKS)
def test_it_stays_text_wherever_it_stands(text: str) -> None:
    for frame in ("{}", "- {}\n", "a\n{}\nb", "## {}", "**x** {} y"):
        tokens = flat(frame.format(escaped(text)))
        kinds = {t.type for t in tokens if t.type not in ("inline", "text", "text_special", "softbreak")}
        assert kinds == {t.type for t in flat(frame.format("word")) if t.type not in ("inline", "text", "softbreak")}
        assert plain(text) in plain(html.unescape(said(tokens))) or plain(text) in plain(said(tokens))


@pytest.mark.parametrize("text", ATTACKS)
def test_it_stays_in_its_cell(text: str) -> None:
    source = f"| a | b | c |\n|---|---|---|\n| {escaped(text)} | {cell_code(text)} | end |\n"
    tokens = flat(source)
    assert [t.type for t in tokens].count("td_open") == 3
    cells = [plain(said(list(t.children or []))) for t in MARKDOWN.parse(source) if t.type == "inline"]
    assert cells[3] == plain(text)
    assert cells[4].strip() == plain(text)
    assert cells[5] == "end"


@pytest.mark.parametrize("text", ATTACKS)
def test_code_holds_all_of_it(text: str) -> None:
    children = MARKDOWN.parse(f"see {code(text)} there")[1].children or []
    assert [t.type for t in children] == ["text", "code_inline", "text"]
    assert plain(children[1].content) == plain(text)


@pytest.mark.parametrize(
    "text",
    ["@team/all", "mail a@b.example", "#12", "x#12", "GH-12", "owner/repo#12", "!12", "http://e.example", "HTTPS://e.example",
     "www.e.example",
     "smb://host", ":tada:", ":+1:x", "~bug", '~"a b"', "$12", "&12", "%v1", '%"x y"'],
)  # fmt: skip
def test_trackers_find_nothing_in_it(text: str) -> None:
    shown = said(flat(f"before {escaped(text)} after"))
    assert {kind for kind, pattern in TRACKERS.items() if re.search(pattern, shown, re.IGNORECASE)} == set()
    assert plain(shown) == f"before {text} after"


@pytest.mark.parametrize("text", ["/close", "/assign @me", "/label ~bug"])
def test_no_line_begins_with_a_command(text: str) -> None:
    assert not escaped(text).startswith("/")


def test_what_people_write_is_hardly_changed() -> None:
    text = "At 07:05:00 UTC max_running_requests was 0.5.9-rc1 (36.9 %), 1,024 of 3,072; see server.log:645."
    assert escaped(text) == text
    assert escaped("36.9 % of it") == "36.9 % of it"


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_stays_in_one_paragraph(text: str) -> None:
    tokens = flat(f"before {escaped(text)} after")
    assert {t.type for t in tokens} <= {"paragraph_open", "inline", "text", "text_special", "paragraph_close"}
