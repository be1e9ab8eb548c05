"""What would have helped, as people see it: on a desk, a tablet and a phone, in both colours and languages, by keyboard and on paper."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from browser_pages import Tabs, assert_quiet, axe_complaints, sticking_out, unfold
from playwright.sync_api import Page

sys.path.append(str(Path(__file__).resolve().parents[1] / "report" / "replay"))

from replay_fakes import goal, study, vllm_study
from report_fakes import l1_incident

from analyzer.language import use
from analyzer.replay.model import NoReplay
from analyzer.report.data import build_report
from analyzer.report.render import render_html
from analyzer.report.replay.data import Told

pytestmark = pytest.mark.browser

WIDTHS = (1280, 800, 390)
TOLD: dict[str, Told] = {
    "good": study(goals=(goal(),)),
    "low": study("low"),
    "vllm": vllm_study(),
    "none": NoReplay("pod-a", "no request was recorded", "record the client's requests"),
}


@cache
def html(kind: str, language: str) -> str:
    with use(language), patch("analyzer.report.data.build_explore", return_value=None):
        return render_html(build_report(*l1_incident(), replay=TOLD[kind], inputs=("incident.kvtrace",)))


@pytest.fixture(scope="module")
def opened(page_of: Tabs) -> dict[tuple[str, str], Page]:
    """Tabs by kind and language, each opened when it is first asked for."""
    return {}


def tab_of(page_of: Tabs, opened: dict[tuple[str, str], Page], kind: str, language: str) -> Page:
    if (kind, language) not in opened:
        tab = opened[kind, language] = page_of(html(kind, language))
        unfold(tab)
    return opened[kind, language]


@pytest.mark.parametrize(
    ("kind", "language"),
    [
        ("good", "en"),
        ("good", "zh"),
        pytest.param("low", "zh", marks=pytest.mark.thorough),
        pytest.param("vllm", "en", marks=pytest.mark.thorough),
        pytest.param("none", "en", marks=pytest.mark.thorough),
    ],
)
def test_nothing_sticks_out_and_no_text_is_cut(page_of: Tabs, opened: dict[tuple[str, str], Page], kind: str, language: str) -> None:
    tab = tab_of(page_of, opened, kind, language)
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        assert (width, sticking_out(tab)) == (width, [])
    assert_quiet(tab)


@pytest.mark.parametrize(("kind", "language", "colours", "width"), [("good", "en", "dark", 1280), ("low", "zh", "light", 390)])
@pytest.mark.usefixtures("axe")
def test_axe_finds_nothing_serious(
    page_of: Tabs, opened: dict[tuple[str, str], Page], kind: str, language: str, colours: str, width: int
) -> None:
    tab = tab_of(page_of, opened, kind, language)
    tab.emulate_media(color_scheme=colours)
    tab.set_viewport_size({"width": width, "height": 900})
    assert axe_complaints(tab, "serious", "critical") == []


_COLOURS = """() => {
  const colour = (selector) => getComputedStyle(document.querySelector(selector)).color;
  return [".what-ifs tr.unchanged th", ".what-ifs tr.doubtful th", ".what-ifs tr.doubtful td:nth-child(2)", ".muted"].map(colour);
}"""


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_row_that_is_not_trusted_is_grey_and_its_mark_hollow(page_of: Tabs, opened: dict[tuple[str, str], Page], colours: str) -> None:
    tab = tab_of(page_of, opened, "good", "en")
    tab.emulate_media(color_scheme=colours)
    trusted, name, value, muted = tab.evaluate(_COLOURS)
    assert name == value == muted != trusted
    fills = tab.evaluate("[...document.querySelectorAll('.ladder use')].map((e) => getComputedStyle(e).fill)")
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert fills.count(ground) == 1
    assert len(set(fills)) == 2


def test_both_curves_stand_side_by_side_and_on_a_phone_below_each_other(page_of: Tabs, opened: dict[tuple[str, str], Page]) -> None:
    tab = tab_of(page_of, opened, "good", "en")
    tab.emulate_media(color_scheme="light")

    def tops() -> list[float]:
        return tab.evaluate("[...document.querySelectorAll('.ladder')].map((e) => e.getBoundingClientRect().top)")

    tab.set_viewport_size({"width": 1280, "height": 900})
    first, second = tops()
    assert first == second
    tab.set_viewport_size({"width": 390, "height": 900})
    first, second = tops()
    assert second > first + 150


_OVERPRINTED = """() => {
  const over = [];
  for (const plot of document.querySelectorAll(".ladder svg")) {
    const texts = [...plot.querySelectorAll(":scope > text")].filter((e) => e.checkVisibility());
    const boxes = texts.map((e) => e.getBoundingClientRect());
    for (let i = 0; i < boxes.length; i++)
      for (let j = 0; j < i; j++)
        if (boxes[i].left < boxes[j].right && boxes[j].left < boxes[i].right
            && boxes[i].top + 3 < boxes[j].bottom && boxes[j].top + 3 < boxes[i].bottom)
          over.push(`${texts[j].textContent} and ${texts[i].textContent}`);
  }
  return over;
}"""


def test_waits_and_sizes_do_not_overprint(page_of: Tabs, opened: dict[tuple[str, str], Page]) -> None:
    tab = tab_of(page_of, opened, "good", "en")
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.locator(".ladder text.wait", has_text="38.9").count() == 3
        assert (width, tab.evaluate(_OVERPRINTED)) == (width, [])


def test_the_command_can_be_copied(page_of: Tabs) -> None:
    tab = page_of(html("good", "en"), permissions=["clipboard-read", "clipboard-write"])
    command = tab.locator("#replay pre.command").first
    tab.locator("#replay .tools.copy button").first.click()
    tab.locator("#replay .tools.copy button", has_text="Copied").first.wait_for()
    assert tab.evaluate("navigator.clipboard.readText()") == command.inner_text()
    assert command.inner_text().startswith("kvpm replay incident.kvtrace")


def test_waits_sort_as_numbers_and_never_is_the_longest(page_of: Tabs) -> None:
    tab = page_of(html("good", "en"))
    tab.locator(".what-ifs").first.locator("th .sort", has_text="TTFT P99").click()
    assert "never" in tab.locator(".what-ifs tbody tr").first.inner_text()


def test_on_paper_the_section_is_there_without_its_controls(page_of: Tabs) -> None:
    tab = page_of(html("good", "en"))
    tab.emulate_media(media="print")
    assert tab.locator("#replay .ladder svg.plot").first.is_visible()
    assert tab.locator("#replay .what-ifs").first.is_visible()
    # an outline below a text is a second text of a PDF
    assert tab.evaluate("getComputedStyle(document.querySelector('.ladder .wait')).stroke") == "none"
    assert tab.locator("#replay button:not(.sort):visible").count() == 0
