"""Reports as people see and hear them: accessible, quiet, and whole on a desk, a tablet and a phone, in both colours and languages."""

from __future__ import annotations

import pytest
from browser_pages import Tabs, assert_quiet, axe_complaints, heard, sticking_out, unfold
from playwright.sync_api import Page
from shown_pages import KINDS, LANGUAGES, shown

pytestmark = pytest.mark.browser

WIDTHS = (1440, 1024, 390)
# axe takes up to half a minute for a page: every day it looks at one instance, at several, and at a page of gaps; each language, colour
# and width is among them.
USUAL = {
    ("demo", "en", "light", 1440),
    ("fleet", "en", "dark", 390),
    ("too little", "zh", "light", 390),
}
# A recording has the parts of the demo.
USUAL_KINDS = [pytest.param(kind, marks=pytest.mark.thorough if kind == "recorded" else ()) for kind in KINDS]
# The second language is longer or shorter in every part, so one page with most parts stands for it.
USUAL_WORDS = [
    pytest.param(kind, language, marks=() if kind == "fleet" or (language == "en" and kind != "recorded") else pytest.mark.thorough)
    for kind in KINDS
    for language in LANGUAGES
]
VIEWS = [
    pytest.param(kind, language, colours, width, marks=() if (kind, language, colours, width) in USUAL else pytest.mark.thorough)
    for kind in KINDS
    for language in LANGUAGES
    for colours in ("light", "dark")
    for width in (1440, 390)
]


@pytest.fixture(scope="module")
def opened(page_of: Tabs) -> dict[tuple[str, str], Page]:
    """Tabs by kind and language, each opened when it is first asked for."""
    return {}


def tab_of(page_of: Tabs, opened: dict[tuple[str, str], Page], kind: str, language: str) -> Page:
    """The tab of one report, with all that is folded opened."""
    if (kind, language) not in opened:
        tab = opened[kind, language] = page_of(shown(kind)[language], width=1440)
        unfold(tab)
    return opened[kind, language]


@pytest.mark.parametrize(("kind", "language", "colours", "width"), VIEWS)
@pytest.mark.usefixtures("axe")
def test_axe_finds_nothing_serious(
    page_of: Tabs, opened: dict[tuple[str, str], Page], kind: str, language: str, colours: str, width: int
) -> None:
    tab = tab_of(page_of, opened, kind, language)
    tab.emulate_media(color_scheme=colours)
    tab.set_viewport_size({"width": width, "height": 900})
    assert axe_complaints(tab, "serious", "critical") == []


@pytest.mark.usefixtures("axe")
def test_axe_would_find_something(page_of: Tabs) -> None:
    tab = page_of("<!doctype html><title>x</title><main><h1>x</h1><p style='color:#bbb;background:#fff'>pale</p><input></main>")
    rules = [line.split(":")[0] for line in axe_complaints(tab, "serious", "critical")]
    assert rules == ["serious color-contrast", "serious html-has-lang", "critical label"]


@pytest.mark.parametrize(("kind", "language"), USUAL_WORDS)
def test_nothing_sticks_out_and_no_text_is_cut(page_of: Tabs, opened: dict[tuple[str, str], Page], kind: str, language: str) -> None:
    tab = tab_of(page_of, opened, kind, language)
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        assert (width, sticking_out(tab)) == (width, [])
    assert_quiet(tab)


def test_cut_text_would_be_found(page_of: Tabs) -> None:
    tab = page_of("<!doctype html><p style='width: 3rem; overflow: hidden; white-space: nowrap'>a long line</p>", width=390)
    assert [line.split(":")[0] for line in sticking_out(tab)] == ["P."]
    tab = page_of("<!doctype html><meta name=viewport content='width=device-width'><p style='width: 40rem'>wide</p>", width=390)
    assert len(sticking_out(tab)) == 2


@pytest.mark.parametrize("kind", USUAL_KINDS)
def test_a_report_is_complete_without_scripts(page_of: Tabs, opened: dict[tuple[str, str], Page], kind: str) -> None:
    tab = page_of(shown(kind)["en"], java_script_enabled=False)
    assert tab.locator("main button:visible, main input:visible, main select:visible").count() == 0
    with_scripts = tab_of(page_of, opened, kind, "en")
    count = "main tr, main article, main svg, main details"
    assert tab.locator("main h1").count() == 1
    assert tab.locator(count).count() >= with_scripts.locator(count).count()
    heard(tab).clear()


_LINES = """() => {
  // Each stop stands below the one before, or beside it: on its line, or at the top of the next column.
  const stops = [];
  const what = "a[href], button, input, select, summary, [tabindex]";
  for (const e of document.querySelectorAll(what)) {
    if (e.disabled || e.tabIndex < 0 || !e.checkVisibility() || e.closest(".hidden, .skip")) continue;
    const box = e.getClientRects()[0];
    if (box) stops.push({name: `${e.tagName} ${e.textContent.trim().slice(0, 40)}`, ...box.toJSON()});
  }
  const wrong = [];
  for (let i = 1; i < stops.length; i++)
    if (stops[i].bottom <= stops[i - 1].top && stops[i].left < stops[i - 1].right)
      wrong.push(`${stops[i].name} above ${stops[i - 1].name}`);
  const positive = [...document.querySelectorAll("[tabindex]")].filter((e) => e.tabIndex > 0).length;
  return positive ? ["tabindex above 0"] : wrong;
}"""


@pytest.mark.parametrize("kind", USUAL_KINDS)
def test_the_tab_key_goes_down_the_page(page_of: Tabs, opened: dict[tuple[str, str], Page], kind: str) -> None:
    tab = tab_of(page_of, opened, kind, "en")
    tab.set_viewport_size({"width": 1024, "height": 900})
    assert tab.evaluate(_LINES) == []
