"""page.js and theme.js at work: colours, copying, sorting, filtering, folding and links to moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browser_pages import Tabs, assert_quiet, heard
from playwright.sync_api import Page, expect
from small_page import BODY, small_page

from analyzer.language import use

pytestmark = pytest.mark.browser

_COUNT_EVENTS = """() => {
  window.told = [];
  for (const name of ["kvpm:theme", "kvpm:range"])
    document.addEventListener(name, (e) => told.push({name, ...e.detail}));
}"""


@pytest.fixture(scope="module")
def shared(page_of: Tabs) -> Page:
    tab = page_of(small_page(), permissions=["clipboard-read", "clipboard-write"])
    tab.evaluate(_COUNT_EVENTS)
    return tab


@pytest.fixture
def page(shared: Page) -> Iterator[Page]:
    """The page as it is when it has just been opened, without the time that opening takes."""
    heard(shared).clear()
    shared.goto(shared.url.partition("#")[0])
    shared.evaluate(_COUNT_EVENTS)
    yield shared
    assert_quiet(shared)


def names(page: Page) -> list[str]:
    """The first cell of every row of the table that is shown."""
    return page.locator("#events tbody tr:visible").evaluate_all("rows => rows.map(r => r.cells[0].textContent)")


def told(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate("told")
    return found


RECORDED = ["pod-10", "pod-9", "a note below nine", "Pod-2", "pod-1", "All"]


def test_the_colours_go_round_and_are_kept(page: Page) -> None:
    control = page.locator("header .theme")
    background = "getComputedStyle(document.body).backgroundColor"
    assert control.inner_text() == "Colours: as the system"
    as_system = page.evaluate(background)
    control.click()
    assert control.inner_text() == "Colours: light"
    assert page.evaluate(background) == as_system == "rgb(255, 255, 255)"
    control.click()
    assert control.inner_text() == "Colours: dark"
    assert page.evaluate(background) == "rgb(20, 23, 26)"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(background) == "rgb(20, 23, 26)"
    page.locator("header .theme").click()
    assert page.evaluate("[document.documentElement.dataset.theme, localStorage.length]") == [None, 0]


def test_a_change_of_colours_is_told_to_the_charts(page: Page) -> None:
    for _ in range(3):
        page.locator("header .theme").click()
    assert told(page) == [{"name": "kvpm:theme", "theme": t} for t in ("light", "dark", "auto")]


def test_the_reader_s_colours_win_over_the_system_s(page_of: Tabs) -> None:
    tab = page_of(small_page(), color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    tab.locator("header .theme").click()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert_quiet(tab)


def test_the_page_works_where_there_is_no_storage(page_of: Tabs) -> None:
    refuse = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError') }})"
    tab = page_of(small_page(), before=refuse)
    tab.locator("header .theme").click()
    assert tab.locator("header .theme").inner_text() == "Colours: light"
    assert tab.locator("th .sort").count() == 2
    assert_quiet(tab)


def test_a_query_is_copied_as_it_stands(page: Page) -> None:
    page.locator("#d1 summary").click()
    page.locator(".copy button").click()
    expect(page.locator(".copy button")).to_have_text("Copied")
    assert page.locator("[role=status]").inner_text() == "Copied"
    assert page.evaluate("navigator.clipboard.readText()") == "SELECT 1\nFROM <b>"


def test_a_query_is_copied_where_the_browser_gives_no_clipboard(page: Page) -> None:
    page.evaluate("navigator.clipboard.writeText('before')")
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new DOMException('no', 'NotAllowedError')) }")
    page.locator("#d1 summary").click()
    page.locator(".copy button").click()
    expect(page.locator(".copy button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "SELECT 1\nFROM <b>"


def test_it_is_said_when_a_query_could_not_be_copied(page: Page) -> None:
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(); document.execCommand = () => false }")
    page.locator("#d1 summary").click()
    page.locator(".copy button").click()
    expect(page.locator(".copy button")).to_have_text("Not copied; the text is selected")
    assert page.evaluate("String(getSelection())") == "SELECT 1\nFROM <b>"


def test_numbers_sort_by_value_largest_first_and_come_back(page: Page) -> None:
    control = page.get_by_role("button", name="Wait")
    header = page.locator("#events thead th").nth(1)
    assert names(page) == RECORDED
    control.click()
    assert header.get_attribute("aria-sort") == "descending"
    assert names(page) == ["pod-10", "pod-1", "pod-9", "a note below nine", "Pod-2", "All"]
    control.click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert names(page) == ["pod-9", "a note below nine", "pod-1", "pod-10", "Pod-2", "All"]
    control.click()
    assert header.get_attribute("aria-sort") is None
    assert names(page) == RECORDED


def test_names_sort_as_people_count_and_one_column_at_a_time(page: Page) -> None:
    page.get_by_role("button", name="Wait").click()
    page.get_by_role("button", name="Name").click()
    assert names(page) == ["pod-1", "Pod-2", "pod-9", "a note below nine", "pod-10", "All"]
    assert page.locator("#events th[aria-sort]").count() == 1
    # a column without a name cannot be asked for
    assert page.locator("#events th .sort").count() == 2


def test_sorting_is_stable(page_of: Tabs) -> None:
    rows = "".join(f"<tr><td>{n}</td><td data-v='{n % 2}'>x</td></tr>" for n in range(12))
    head = "<thead><tr><th scope='col'>Number</th><th scope='col'>Odd</th></tr></thead>"
    tab = page_of(small_page(f"<main><table id='events' class='sortable'>{head}<tbody>{rows}</tbody></table></main>"))
    tab.get_by_role("button", name="Odd").click()
    assert names(tab) == [str(n) for n in (0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11)]
    tab.get_by_role("button", name="Odd").click()
    assert names(tab) == [str(n) for n in (1, 3, 5, 7, 9, 11, 0, 2, 4, 6, 8, 10)]


def test_a_filter_looks_into_all_cells_and_counts_rows(page: Page) -> None:
    field = page.get_by_role("searchbox", name="Filter: Events")
    count = page.locator(".tools .muted")
    assert page.get_by_role("searchbox").count() == 1  # not above a table of one row
    assert count.inner_text() == "4 of 4 rows"
    field.fill("POD-1")
    assert names(page) == ["pod-10", "pod-1", "All"]
    assert count.inner_text() == "2 of 4 rows"
    field.fill("9.5 s")  # the space on the page is an unbreakable one
    assert names(page) == ["pod-9", "a note below nine", "All"]
    field.fill("below")
    assert names(page) == ["pod-9", "a note below nine", "All"]
    expect(page.locator("[role=status]")).to_have_text("1 of 4 rows")
    field.fill("<b>")
    assert names(page) == ["All"]


def test_escape_empties_the_filter(page: Page) -> None:
    field = page.get_by_role("searchbox", name="Filter: Events")
    field.fill("pod-10")
    field.press("Escape")
    assert field.input_value() == ""
    assert names(page) == RECORDED


def test_a_filtered_table_can_be_sorted(page: Page) -> None:
    page.get_by_role("searchbox").fill("pod-")
    page.get_by_role("searchbox").fill("pod-1")
    page.get_by_role("button", name="Wait").click()
    assert names(page) == ["pod-10", "pod-1", "All"]
    page.get_by_role("searchbox").fill("")
    assert names(page) == ["pod-10", "pod-1", "pod-9", "a note below nine", "Pod-2", "All"]


def choose(page: Page, event: str, start: float, end: float) -> None:
    page.evaluate("([name, from, to]) => document.dispatchEvent(new CustomEvent(name, {detail: {from, to}}))", [event, start, end])


def test_rows_follow_the_time_range_when_the_reader_wants_it(page: Page) -> None:
    tick = page.get_by_role("checkbox", name="Only in the chosen time range")
    assert tick.is_disabled()
    choose(page, "kvpm:range", 1500, 3500)
    assert names(page) == RECORDED
    tick.check()
    assert names(page) == ["pod-10", "pod-9", "a note below nine", "All"]
    choose(page, "kvpm:ranged", 3001, 9001)
    assert names(page) == ["pod-1", "All"]
    page.get_by_role("searchbox").fill("pod-10")
    assert names(page) == ["All"]
    tick.uncheck()
    assert names(page) == ["pod-10", "All"]


def test_a_moment_chooses_its_time_range_and_back_comes_back(page: Page) -> None:
    page.locator("#m1").click()
    assert told(page) == [{"name": "kvpm:range", "from": 1000, "to": 5000, "instance": "i1"}]
    assert page.url.endswith("#explore")
    page.go_back()
    assert "#" not in page.url


def test_a_moment_without_a_time_or_without_charts_is_a_plain_link(page: Page, page_of: Tabs) -> None:
    page.locator("#m2").click()
    assert told(page) == []
    assert page.url.endswith("#i1-timeline")
    tab = page_of(small_page(BODY.replace('id="explore"', 'id="elsewhere"')))
    tab.locator("#m1").click()
    assert tab.url.endswith("#i1-timeline")
    assert tab.get_by_role("checkbox").count() == 0
    assert_quiet(tab)


def opened(page: Page) -> list[str]:
    found: list[str] = page.evaluate("[...document.querySelectorAll('details[open]')].map(d => d.id)")
    return found


def test_a_link_opens_what_it_leads_to_also_when_it_is_followed_again(page: Page) -> None:
    page.locator("#to-q2").click()
    assert opened(page) == ["d2"]
    page.locator("#d2 summary").click()
    assert opened(page) == []
    page.locator("#to-q2").click()
    assert opened(page) == ["d2"]
    page.locator("#d2 summary").click()
    page.locator("#to-plain").click()
    assert opened(page) == ["d2"]


def test_an_address_opens_what_it_leads_to(page_of: Tabs) -> None:
    tab = page_of(small_page())
    address = tab.url
    tab.goto("about:blank")
    heard(tab).clear()
    tab.goto(address + "#i1-q01")
    assert opened(tab) == ["d1"]
    tab.goto("about:blank")
    heard(tab).clear()
    tab.goto(address + "#%E0%A4%A")
    assert opened(tab) == []
    assert_quiet(tab)


def test_all_answers_are_opened_and_closed_at_once(page: Page) -> None:
    page.get_by_role("button", name="Expand all").click()
    assert opened(page) == ["d1", "d2"]
    page.get_by_role("button", name="Collapse all").click()
    assert opened(page) == []


def test_escape_closes_what_was_opened(page: Page) -> None:
    page.locator("#d1 summary").click()
    page.locator("#d1 pre").focus()
    page.keyboard.press("Escape")
    assert opened(page) == []
    assert page.evaluate("document.activeElement === document.querySelector('#d1 summary')")


_WHERE = """() => {
  const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
  return e === document.body ? null : {
    what: e.id || e.className || e.tagName, top: box.top + scrollY, left: box.left,
    seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2};
}"""


def walk(page: Page) -> list[dict[str, Any]]:
    """Every stop of the Tab key from the page's beginning to its end."""
    stops: list[dict[str, Any]] = []
    while len(stops) < 2000:
        page.keyboard.press("Tab")
        stop = page.evaluate(_WHERE)
        if stop is None:
            break
        stops.append(stop)
    return stops


def test_the_keyboard_reaches_everything_in_the_order_it_is_seen(page: Page) -> None:
    page.get_by_role("button", name="Expand all").click()
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); window.scrollTo(0, 0)")
    page.goto(page.url.partition("#")[0])
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    stops = walk(page)
    what = "a[href], button, input:not(:disabled), summary, [tabindex='0']"
    assert len(stops) == page.locator(what).count()
    assert all(stop["seen"] for stop in stops)
    # one line of controls is read from left to right; a line may be a few pixels off
    lines = [(round(stop["top"] / 12), stop["left"]) for stop in stops]
    assert lines == sorted(lines)


def test_the_page_is_complete_without_scripts(page_of: Tabs) -> None:
    tab = page_of(small_page(), java_script_enabled=False)
    assert tab.locator("button, input").count() == 0
    assert tab.locator("#events tbody tr").count() == 6


def test_what_scripts_show_is_in_the_page_s_language(page_of: Tabs) -> None:
    with use("zh"):
        html = small_page()
    tab = page_of(html)
    assert tab.locator("html").get_attribute("lang") == "zh"
    assert_quiet(tab)
