"""The explore section's parts in a browser: requests, TTFT map, lanes of ranks, and what happened around a moment."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browser_pages import Tabs, assert_quiet, sticking_out, until
from playwright.sync_api import Page, expect
from shown_pages import SAMPLES, report_of

pytestmark = pytest.mark.browser

HOSTILE = "</script><img src=x onerror=alert(1)>{{ 7*7 }}"
# In the midst of the sample's incident.
SINCE_S = 1771570830.0

# Of a source's first point that fits: where it stands inside the chart's element.
_PLACE_OF = """([root, source, column, value, x, y]) => {
  const words = JSON.parse(document.getElementById("explore-words").textContent);
  const view = Bokeh.index.find_one_by_id(words.roots[root]);
  const {data} = Bokeh.documents[0].get_model_by_id(words.named[source][0]);
  const n = value === null ? 0 : data[column].indexOf(value);
  return [view.frame.x_scale.compute(data[x][n]), view.frame.y_scale.compute(data[y][n])];
}"""
_RANGE = """() => {
  const words = JSON.parse(document.getElementById("explore-words").textContent);
  const x = Bokeh.documents[0].get_model_by_id(words.named.x[0]);
  return [x.start, x.end];
}"""
# The text of a hover box, which stands in a tree of its own.
_TIP = """() => [...document.querySelectorAll(".bk-Tooltip")].filter(e => e.checkVisibility())
  .map(e => [...e.shadowRoot.querySelectorAll(".bk-tooltip-row-label")]
    .map(l => `${l.textContent}${l.nextElementSibling.textContent}`).join("|"))
  .join("\\n")"""
# How many pixels of a chart have a colour.
_INK = """(id) => {
  const places = [document.getElementById(id)];
  let ink = 0;
  while (places.length) {
    const place = places.pop();
    for (const e of (place.shadowRoot ?? place).querySelectorAll("*")) {
      if (e.shadowRoot) places.push(e);
      if (e.tagName !== "CANVAS" || !e.width) continue;
      // A canvas of our own: reading the page's would be noted on the console.
      const own = new OffscreenCanvas(e.width, e.height).getContext("2d", {willReadFrequently: true});
      own.drawImage(e, 0, 0);
      const {data} = own.getImageData(0, 0, e.width, e.height);
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 60 && Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 40) ink++;
    }
  }
  return ink;
}"""


def timed_requests() -> str:
    """Records of the engine that tell queue and prefill."""
    lines = []
    for n in range(30):
        queue, prefill = (3.0, 0.5) if n % 2 else (0.1, 2.0)
        came = SINCE_S + n
        rid = f"req-{n}"
        told: dict[str, Any] = {
            "request_parameters": json.dumps({"rid": rid, "sampling_params": {"max_new_tokens": 64}}),
            "id": rid, "finish_reason": {"type": "stop"}, "prompt_tokens": 512, "completion_tokens": 21, "cached_tokens": 128,
            "num_retractions": int(n == 9), "e2e_latency": queue + prefill + 2, "queue_time": queue,
            "forward_entry_time": came + queue, "prefill_finished_time": came + queue + prefill, "request_received_ts": came,
            "request_finished_ts": came + queue + prefill + 2, "first_token_latency": queue + prefill + 0.1, "dp_rank": 0,
        }  # fmt: skip
        lines.append(json.dumps(told))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("explored")
    engine = folder / "engine"
    engine.mkdir()
    (engine / "requests.jsonl").write_text(timed_requests(), encoding="utf-8")
    return report_of([SAMPLES / "dp_sglang", engine], folder)


def opened(page_of: Tabs, html: str, **options: Any) -> Page:
    tab = page_of(html, **options)
    tab.evaluate("""document.addEventListener("kvpm:ranged", (e) => { window.ranged = e.detail; })""")
    tab.locator("#explore").scroll_into_view_if_needed()
    tab.wait_for_selector(".explore-drawn", state="attached")
    return tab


@pytest.fixture(scope="module")
def shared(page_of: Tabs, pages: dict[str, str]) -> Page:
    return opened(page_of, pages["en"])


@pytest.fixture
def page(shared: Page) -> Page:
    """The first instance, the whole capture."""
    anchor = shared.locator("#explore-instance option").first.get_attribute("value")
    shared.locator("#explore-instance").select_option(anchor)
    shared.locator("[data-go=whole]").click()
    return shared


def put_pointer(page: Page, chart: str, x: float, y: float, *, click: bool = False) -> None:
    place = page.locator(f"#explore-{chart}")
    # The controls stick to the top of the window.
    place.evaluate("e => e.scrollIntoView({block: 'center'})")
    box = place.bounding_box()
    assert box is not None
    (page.mouse.click if click else page.mouse.move)(box["x"] + x, box["y"] + y)


def hover_text(page: Page, chart: str, at: tuple[float, float], having: str) -> str:
    """What the hover box says there, when it says `having`."""
    put_pointer(page, chart, at[0] - 3, at[1])
    put_pointer(page, chart, *at)
    until(page, f"(text) => ({_TIP})().includes(text)", arg=having)
    return str(page.evaluate(_TIP)).replace("\u00a0", " ")


def test_every_part_is_drawn(page: Page) -> None:
    for chart in ("explore-ttft-map", "explore-lanes"):
        assert page.evaluate(_INK, chart) > 200, chart
    expect(page.locator("#moment-list button")).to_have_count(8)
    assert_quiet(page)


def test_a_request_tells_its_times_with_units(page: Page) -> None:
    page.locator("#explore-instance").select_option(label="engine")
    page.wait_for_timeout(100)
    at = page.evaluate(_PLACE_OF, ["scatter", "requests-prefill", "rid", "req-8", "arrival", "shown"])
    told = hover_text(page, "scatter", at, "req-8")
    for text in ("2.2 s", "100 ms", "2 s", "512", "2026-02-20 07:00:38 UTC", "finished"):
        assert text in told
    assert page.evaluate(_INK, "explore-scatter") > 100
    assert_quiet(page)


def test_a_hostile_text_stays_text_in_the_hover_box(page: Page) -> None:
    page.locator("#explore-instance").select_option(label="engine")
    page.wait_for_timeout(100)
    # No parser lets such an id through, so it is put in here.
    page.evaluate(
        """(id) => {
          const {named} = JSON.parse(document.getElementById("explore-words").textContent);
          const source = Bokeh.documents[0].get_model_by_id(named["requests-prefill"][0]);
          source.data = {...source.data, rid: source.data.rid.map(() => id)};
        }""",
        HOSTILE,
    )
    at = page.evaluate(_PLACE_OF, ["scatter", "requests-prefill", "rid", HOSTILE, "arrival", "shown"])
    hover_text(page, "scatter", at, "</script><img src=x onerror=alert(1)>")
    assert (
        page.evaluate("""[...document.querySelectorAll(".bk-Tooltip")].filter(e => e.shadowRoot.querySelector("img, script")).length""")
        == 0
    )
    assert_quiet(page)


def test_the_map_tells_how_many_and_the_lanes_who(page: Page) -> None:
    cell = page.evaluate(_PLACE_OF, ["ttft-map", "ttft-map", "count", "13 requests", "left", "bottom"])
    assert "2026-02-20 07:0" in hover_text(page, "ttft-map", (cell[0] + 2, cell[1] - 3), "13 requests")
    lane = page.evaluate(_PLACE_OF, ["lanes", "lanes-waiting", "value", 18, "left", "bottom"])
    told = hover_text(page, "lanes", (lane[0] + 2, lane[1] - 2), "Waiting: 18")
    assert "rank" in told
    assert_quiet(page)


def test_the_lanes_show_the_chosen_metric(page: Page) -> None:
    page.locator("#explore-lanes-metric").select_option("pool_usage")
    lane = page.evaluate(_PLACE_OF, ["lanes", "lanes-pool_usage", None, None, "left", "bottom"])
    told = hover_text(page, "lanes", (lane[0] + 2, lane[1] - 2), "KV usage")
    assert "%" in told
    assert "Waiting" not in told
    page.locator("#explore-lanes-metric").select_option("waiting")
    assert_quiet(page)


def test_a_click_on_a_retraction_shows_requests_reports_and_lines(page: Page) -> None:
    bar = page.evaluate(_PLACE_OF, ["retracted", "retracted", None, None, "left", "count"])
    put_pointer(page, "retracted", bar[0] + 1, bar[1] + 20, click=True)
    panel = page.locator("#moment-panel")
    expect(panel.locator("h4")).to_have_text("07:02:35 Retraction: 1 request", use_inner_text=True)
    for caption in ("Scheduler reports before and after", "Requests in flight", "Lines around it"):
        expect(panel.get_by_role("table", name=caption)).to_be_visible()
    expect(panel.get_by_role("table", name="Requests in flight").locator("tbody tr")).to_have_count(12)
    expect(panel).to_contain_text("new_token_ratio went from 0.0791 to 0.3772.")
    expect(panel).to_contain_text("server.log:306")
    expect(page.locator("#moment-list button[aria-pressed=true]")).to_have_count(1)
    assert_quiet(page)


def test_the_end_of_a_drag_is_no_click(page: Page) -> None:
    page.locator("#moment-list button").last.click()
    before = page.locator("#moment-panel h4").inner_text()
    page.locator("[data-go=whole]").click()
    bar = page.evaluate(_PLACE_OF, ["retracted", "retracted", None, None, "left", "count"])
    put_pointer(page, "retracted", bar[0] - 60, bar[1] + 20)
    page.mouse.down()
    box = page.locator("#explore-retracted").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + bar[0] + 1, box["y"] + bar[1] + 20, steps=4)
    page.mouse.up()
    assert page.locator("#moment-panel h4").inner_text() == before


def test_a_moment_is_chosen_with_the_keyboard_and_the_charts_go_there(page: Page) -> None:
    button = page.locator("#moment-list button", has_text="07:04:57")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#moment-panel h4")).to_contain_text("07:04:57 Retraction")
    expect(button).to_be_focused()
    start, end = page.evaluate(_RANGE)
    moment = (SINCE_S + 267) * 1000
    assert start < moment < end
    assert end - start == pytest.approx(120_000, abs=1000)
    until(page, "window.ranged?.to - window.ranged?.from < 121000")
    assert_quiet(page)


def test_another_instance_has_its_own_moments(page: Page) -> None:
    page.locator("#moment-list button").first.click()
    page.locator("#explore-instance").select_option(label="engine")
    expect(page.locator("#moment-list button")).to_have_count(0)
    expect(page.locator("#moment-none")).to_be_visible()
    expect(page.locator("#moment-panel")).to_be_hidden()


def test_a_phone_has_room_for_it_in_either_language(page_of: Tabs, pages: dict[str, str]) -> None:
    tab = opened(page_of, pages["zh"], width=390, color_scheme="dark")
    tab.locator("#moment-list button").first.click()
    expect(tab.locator("#moment-panel")).to_be_visible()
    assert sticking_out(tab) == []
    assert tab.evaluate(_INK, "explore-lanes") > 100
    assert_quiet(tab)
