"""The explore section's charts in a browser: drawn, zoomed together, read by pointer and keyboard, in both colours and quietly."""

from __future__ import annotations

import re
from typing import Any

import pytest
from browser_pages import Tabs, assert_quiet, sticking_out, until
from playwright.sync_api import Page, expect
from shown_pages import shown

pytestmark = pytest.mark.browser

# What a chart's canvases show: how many pixels are not empty, and their mean colour.
_INK = """(id) => {
  const places = [document.getElementById(id)];
  let ink = 0, sum = 0;
  while (places.length) {
    const place = places.pop();
    for (const e of (place.shadowRoot ?? place).querySelectorAll("*")) {
      if (e.shadowRoot) places.push(e);
      if (e.tagName !== "CANVAS" || !e.width) continue;
      // A canvas of our own: reading the page's would be noted on the console.
      const own = new OffscreenCanvas(e.width, e.height).getContext("2d", {willReadFrequently: true});
      own.drawImage(e, 0, 0);
      const {data} = own.getImageData(0, 0, e.width, e.height);
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) { ink++; sum += data[i] + data[i + 1] + data[i + 2]; }
    }
  }
  return {ink, light: ink ? sum / ink / 3 : null};
}"""
# The ends of the time axis of every drawn chart.
_AXES = """() => {
  const words = JSON.parse(document.getElementById("explore-words").textContent);
  return Object.values(words.roots).map((id) => {
    const {start, end} = Bokeh.index.find_one_by_id(id).model.x_range;
    return [start, end];
  });
}"""
_PLACED = """(id) => {
  const e = document.getElementById(id);
  e.scrollIntoView({block: "center"});
  const b = e.getBoundingClientRect();
  return [b.x, b.y, b.width, b.height];
}"""
_WORDS = "JSON.parse(document.getElementById('explore-words').textContent)"


@pytest.fixture(scope="module")
def tab(page_of: Tabs) -> Page:
    tab = page_of(
        shown("fleet")["en"],
        width=1280,
        before="""for (const name of ["kvpm:range", "kvpm:ranged", "kvpm:instance", "kvpm:explore"])
          document.addEventListener(name, (e) => (window.told ??= []).push({name, ...e.detail}));""",
    )
    tab.locator("#explore").scroll_into_view_if_needed()
    tab.wait_for_selector("#explore.explore-drawn")
    return tab


@pytest.fixture(autouse=True)
def _whole(tab: Page) -> None:
    """Each test begins with the first instance, the whole capture, light colours, and no key or button held."""
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.emulate_media(color_scheme="light")
    tab.select_option("#explore-instance", index=0)
    tab.select_option("#explore-drag", "zoom")
    tab.click("[data-go=whole]")
    # The page tells of a new range only when it has stood still for a moment.
    tab.wait_for_timeout(300)
    tab.evaluate("window.told = []")


def axes(tab: Page) -> set[tuple[float, float]]:
    """The time ranges of all charts: one, if they are linked."""
    return {(start, end) for start, end in tab.evaluate(_AXES)}


def length(tab: Page) -> float:
    ((start, end),) = axes(tab)
    return end - start


def told(tab: Page, name: str) -> list[dict[str, Any]]:
    """The events of one name since the test began."""
    return [event for event in tab.evaluate("window.told") if event["name"] == name]


def test_every_chart_is_drawn(tab: Page) -> None:
    words = tab.evaluate(_WORDS)
    assert len(words["charts"]) >= 6
    for chart in words["charts"]:
        until(tab, f"({_INK})('explore-{chart['key']}').ink > 300")


def test_a_drag_zooms_all_charts_and_the_page_hears_of_it(tab: Page) -> None:
    before = length(tab)
    x, y, width, height = tab.evaluate(_PLACED, "explore-requests")
    tab.mouse.move(x + width * 0.4, y + height / 2)
    tab.mouse.down()
    tab.mouse.move(x + width * 0.6, y + height / 2, steps=5)
    tab.mouse.up()
    until(tab, "window.told.some((e) => e.name === 'kvpm:ranged')")
    assert 0.15 * before < length(tab) < 0.25 * before
    ((start, end),) = axes(tab)
    heard = told(tab, "kvpm:ranged")[-1]
    assert (heard["from"], heard["to"], heard["instance"]) == (pytest.approx(start, abs=1), pytest.approx(end, abs=1), "i1")
    tab.mouse.dblclick(x + width * 0.5, y + height / 2)
    assert length(tab) == before


def test_the_value_axis_follows_what_is_seen(tab: Page) -> None:
    top = """() => { const words = JSON.parse(document.getElementById("explore-words").textContent);
      return Bokeh.index.find_one_by_id(words.roots.requests).model.y_range.end; }"""
    start = tab.evaluate(_WORDS)["instances"][0]["start"]
    whole = tab.evaluate(top)
    tab.evaluate("([a, b]) => document.dispatchEvent(new CustomEvent('kvpm:range', {detail: {from: a, to: b}}))", [start, start + 3000])
    assert tab.evaluate(top) < whole / 2


def test_the_pointer_reads_values_with_units_and_the_time(tab: Page) -> None:
    x, y, width, height = tab.evaluate(_PLACED, "explore-requests")
    tab.mouse.move(x + width * 0.5, y + height / 2)
    tip = tab.locator(".explore-tip")
    expect(tip).to_be_visible()
    text = tip.inner_text().replace("\u00a0", " ")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n", text)
    assert re.search(r"waiting: [\d,]+ requests?", text)
    for key, unit in (("requests-running", r"[\d,]+ requests?"), ("kv-usage", r"[\d.]+ %"), ("gen-gen", r"[\d.,]+ tokens/s")):
        assert re.fullmatch(unit, tab.inner_text(f"[data-curve={key}]").replace("\u00a0", " ")), key
    tab.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_where_nothing_was_reported_no_number_stands(tab: Page) -> None:
    start = tab.evaluate(_WORDS)["instances"][0]["start"]
    tab.evaluate("([a, b]) => document.dispatchEvent(new CustomEvent('kvpm:range', {detail: {from: a, to: b}}))", [start, start + 2000])
    tab.evaluate("() => { const s = document.getElementById('explore-cursor'); s.value = 0; s.dispatchEvent(new Event('input')); }")
    texts = {tab.inner_text(f"[data-curve={key}]") for key in ("ttft-p99", "hit-share") if tab.locator(f"[data-curve={key}]").count()}
    assert texts <= {"no value"}
    assert "no value" in texts


def test_another_instance_brings_its_own_data(tab: Page) -> None:
    data = """() => { const words = JSON.parse(document.getElementById("explore-words").textContent);
      return [...Bokeh.documents[0].get_model_by_id(words.named["requests-waiting"][0]).data.x].length; }"""
    first = (tab.evaluate(data), axes(tab))
    tab.select_option("#explore-instance", index=1)
    second = (tab.evaluate(data), axes(tab))
    assert first[0] != second[0]
    assert first[1] != second[1]
    one = tab.evaluate(_WORDS)["instances"][1]
    assert second[1] == {(one["start"], one["end"])}
    assert told(tab, "kvpm:instance") == [{"name": "kvpm:instance", "instance": "i2"}]
    assert told(tab, "kvpm:range")[-1]["instance"] == "i2"


def test_a_link_elsewhere_moves_the_charts_to_its_moment(tab: Page) -> None:
    one = tab.evaluate(_WORDS)["instances"][1]
    wanted = {"from": one["start"] + 20_000, "to": one["start"] + 50_000, "instance": "i2"}
    tab.evaluate("(detail) => document.dispatchEvent(new CustomEvent('kvpm:range', {detail}))", wanted)
    assert axes(tab) == {(wanted["from"], wanted["to"])}
    assert tab.input_value("#explore-instance") == "i2"


def test_a_range_beyond_the_capture_is_moved_back_into_it(tab: Page) -> None:
    one = tab.evaluate(_WORDS)["instances"][0]
    tab.evaluate(
        "([a, b]) => document.dispatchEvent(new CustomEvent('kvpm:range', {detail: {from: a, to: b}}))", [one["start"] - 9e6, one["start"]]
    )
    assert axes(tab) == {(one["start"], one["end"])}
    tab.evaluate("document.dispatchEvent(new CustomEvent('kvpm:range', {detail: {from: 'x', to: null}}))")
    assert axes(tab) == {(one["start"], one["end"])}


def test_the_time_fields_and_the_buttons_do_without_a_pointer(tab: Page) -> None:
    whole = length(tab)
    tab.focus("[data-go=in]")
    tab.keyboard.press("Enter")
    assert length(tab) == pytest.approx(whole / 2, abs=2)
    ((start, _end),) = axes(tab)
    tab.focus("[data-go=later]")
    tab.keyboard.press("Space")
    ((later, _end),) = axes(tab)
    assert later == pytest.approx(start + whole / 4, abs=2)
    tab.focus("[data-go=incident]")
    tab.keyboard.press("Enter")
    incident = tab.evaluate(_WORDS)["instances"][0]["incident"]
    ((start, end),) = axes(tab)
    assert start <= incident[0] < incident[1] <= end
    first = tab.input_value("#explore-from")
    tab.fill("#explore-to", first[:-2] + ("30" if first[-2:] < "30" else "59"))
    tab.locator("#explore-to").blur()
    ((start, end),) = axes(tab)
    assert end - start < 60_000


def test_arrow_keys_read_a_chart_and_tell_the_values(tab: Page) -> None:
    tab.evaluate(_PLACED, "explore-requests")
    stop = tab.get_by_role("application", name="Requests waiting and running")
    stop.focus()
    before = tab.inner_text("#explore-at")
    for _ in range(6):
        tab.keyboard.press("ArrowRight")
    assert tab.inner_text("#explore-at") > before
    expect(tab.locator("#explore-status")).to_have_text(re.compile(r"UTC; waiting: .*; running: "))
    whole = length(tab)
    tab.keyboard.press("+")
    assert length(tab) == pytest.approx(whole / 2, abs=2)
    tab.keyboard.press("Home")
    assert length(tab) == whole


def test_the_slider_moves_the_line_in_every_chart(tab: Page) -> None:
    tab.focus("#explore-cursor")
    tab.keyboard.press("Home")
    at_start = tab.inner_text("#explore-at")
    tab.keyboard.press("End")
    assert tab.inner_text("#explore-at") > at_start
    crosshair = """() => { const words = JSON.parse(document.getElementById("explore-words").textContent);
      return Bokeh.documents[0].get_model_by_id(words.named.crosshair[0]).location; }"""
    ((_start, end),) = axes(tab)
    assert tab.evaluate(crosshair) == pytest.approx(end, abs=1)


def test_the_wheel_scrolls_the_page_and_zooms_only_with_ctrl(tab: Page) -> None:
    x, y, width, height = tab.evaluate(_PLACED, "explore-requests")
    tab.mouse.move(x + width / 2, y + height / 2)
    whole, scrolled = length(tab), tab.evaluate("scrollY")
    tab.mouse.wheel(0, 120)
    until(tab, "(y) => scrollY !== y", arg=scrolled)
    assert length(tab) == whole
    x, y, width, height = tab.evaluate(_PLACED, "explore-requests")
    tab.mouse.move(x + width / 2, y + height / 2)
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, -120)
    tab.keyboard.up("Control")
    until(tab, "window.told.some((e) => e.name === 'kvpm:range')")
    assert length(tab) == pytest.approx(whole * 0.8, rel=0.01)


def test_dragging_can_move_in_time_or_be_left_to_the_page(tab: Page) -> None:
    tab.click("[data-go=in]")
    before = axes(tab)
    for mode, moved in (("none", False), ("pan", True)):
        tab.select_option("#explore-drag", mode)
        x, y, width, height = tab.evaluate(_PLACED, "explore-requests")
        tab.mouse.move(x + width * 0.4, y + height / 2)
        tab.mouse.down()
        tab.mouse.move(x + width * 0.6, y + height / 2, steps=5)
        tab.mouse.up()
        assert (axes(tab) != before) == moved
    ((start, end),) = before
    assert length(tab) == pytest.approx(end - start, rel=0.01)


def test_the_charts_take_the_pages_colours(tab: Page) -> None:
    light = tab.evaluate(_INK, "explore-requests")["light"]
    tab.emulate_media(color_scheme="dark")
    until(tab, f"(light) => ({_INK})('explore-requests').light < light - 30", arg=light)
    tab.emulate_media(color_scheme="light")
    tab.evaluate("document.documentElement.dataset.theme = 'dark'; document.dispatchEvent(new CustomEvent('kvpm:theme'))")
    until(tab, f"(light) => ({_INK})('explore-requests').light < light - 30", arg=light)
    tab.evaluate("delete document.documentElement.dataset.theme; document.dispatchEvent(new CustomEvent('kvpm:theme'))")
    until(tab, f"(light) => Math.abs(({_INK})('explore-requests').light - light) < 5", arg=light)


def test_a_phone_shows_all_of_it_without_scrolling_sideways(tab: Page) -> None:
    tab.set_viewport_size({"width": 390, "height": 800})
    until(tab, "document.getElementById('explore-requests').firstElementChild.getBoundingClientRect().width <= 390")
    assert sticking_out(tab) == []


def test_without_scripts_a_sentence_stands_for_the_charts(page_of: Tabs) -> None:
    tab = page_of(shown("fleet")["en"], java_script_enabled=False)
    expect(tab.locator("#explore .explore-body")).to_be_hidden()
    expect(tab.locator("#explore noscript p")).to_be_visible()
    assert_quiet(tab)


def test_charts_are_drawn_even_if_nobody_scrolls_there(page_of: Tabs) -> None:
    tab = page_of(shown("fleet")["en"])
    tab.wait_for_selector("#explore.explore-drawn")
    assert tab.evaluate("scrollY") == 0
    assert_quiet(tab)


def test_the_page_was_quiet_all_along(tab: Page) -> None:
    assert_quiet(tab)
