"""Texts from logs, metrics and records that attack the page: they are shown as text, in every form that a browser could take them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from browser_pages import Tabs, assert_quiet, sticking_out, unfold
from hostile_capture import ATTACKS, write_capture
from hostile_checks import DATA, FORBIDDEN, FOREIGN, SHOWN_TEXT
from playwright.sync_api import Page
from report_fakes import hostile
from shown_pages import Rendered, report_of

from analyzer.report import fmt
from analyzer.report.data import build_report
from analyzer.report.render import render_html

pytestmark = pytest.mark.browser

# the same templates with other words: the second language is more of the same
LANGUAGES = ("en", pytest.param("zh", marks=pytest.mark.thorough))
TabOf = Callable[[str], Page]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    folder = tmp_path_factory.mktemp("hostile")
    return report_of(write_capture(folder / "capture"), folder)


@pytest.fixture(scope="module")
def tab_of(page_of: Tabs, pages: Rendered) -> TabOf:
    """The report in a language, with all that is folded opened and the charts drawn."""

    @cache
    def opened(language: str) -> Page:
        tab = page_of(pages[language])
        unfold(tab)
        explore = tab.locator("#explore")
        if explore.count():
            explore.scroll_into_view_if_needed()
            tab.locator("#explore canvas").first.wait_for()
        return tab

    return opened


def strings(value: Any) -> list[str]:
    """Every text in a JSON value, keys too."""
    if isinstance(value, dict):
        return [text for key, inner in value.items() for text in (key, *strings(inner))]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_of_an_attack_runs_or_becomes_an_element(tab_of: TabOf, language: str) -> None:
    tab = tab_of(language)
    assert tab.evaluate(FOREIGN) == []
    assert tab.evaluate("window.ran") is None
    assert_quiet(tab)


@pytest.mark.parametrize("language", LANGUAGES)
def test_attacks_are_read_as_the_text_that_they_are(tab_of: TabOf, language: str) -> None:
    text = tab_of(language).evaluate(SHOWN_TEXT)
    for key, attack in ATTACKS.items():
        as_shown = fmt.clean(attack.replace("/", "∕"), 40).partition("…")[0]
        assert as_shown in text or as_shown.replace("∕", "/") in text, key
    assert not FORBIDDEN.search(text)
    # what is shown of 100 kB is a line
    assert "ong<b>" * 60 not in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_bytes_hold_no_control_or_direction_characters(pages: Rendered, language: str) -> None:
    html = pages[language]
    outside = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not FORBIDDEN.search(outside)
    blocks = DATA.findall(html)
    assert blocks
    for block in blocks:
        assert "<" not in block
        assert not [text for text in strings(json.loads(block)) if FORBIDDEN.search(text)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_attacks_do_not_break_the_layout(tab_of: TabOf, language: str) -> None:
    tab = tab_of(language)
    for width in (1280, 390):
        tab.set_viewport_size({"width": width, "height": 900})
        assert (width, sticking_out(tab)) == (width, [])


def test_controls_take_attacks_as_text(tab_of: TabOf) -> None:
    tab = tab_of("en")
    for field in tab.locator("main input[type=search]").all():
        for attack in (ATTACKS["quotes"], ATTACKS["template"], "(", "\\", "[a-"):
            field.fill(attack)
        field.fill("")
    for control in tab.locator("th > .sort").all()[:20]:
        control.click()
    select = tab.locator("#explore select").first
    if select.count():
        for option in select.locator("option").all():
            select.select_option(option.get_attribute("value"))
    tab.wait_for_timeout(300)
    assert tab.evaluate(FOREIGN) == []
    assert tab.evaluate("window.ran") is None
    assert_quiet(tab)


def test_texts_that_no_parser_lets_through_are_harmless_too(page_of: Tabs) -> None:
    tab = page_of(render_html(build_report(*hostile())))
    unfold(tab)
    assert tab.evaluate(FOREIGN) == []
    assert "</script><img src=x onerror=1>" in tab.evaluate(SHOWN_TEXT)
    assert_quiet(tab)


def test_a_page_that_lets_an_attack_through_would_be_found(page_of: Tabs) -> None:
    tab = page_of("<!doctype html><title>x</title><img src=x onerror='window.ran=1'><a href='javascript:1'>x</a>" + ATTACKS["comment"])
    assert {"img", "img onerror", "img src", "a to javascript:1"} <= set(tab.evaluate(FOREIGN))
    with pytest.raises(AssertionError):
        assert_quiet(tab)
