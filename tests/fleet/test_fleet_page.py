"""The index as a page: it says what the data says, loads nothing, and stays text whatever a log holds."""

from __future__ import annotations

import os
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fleet_fakes import fleet, hostile, many, mixed, record, summary
from jinja2 import Environment, FileSystemLoader, nodes

sys.path.insert(0, str(Path(__file__).parents[1]))

from parsed_page import Page

from analyzer import language
from analyzer.fleet.model import Fleet
from analyzer.fleet.render import render_index

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
FLEETS = {"mixed": mixed, "hostile": hostile, "none": fleet, "many": lambda: many(70)}


@pytest.fixture(scope="module", params=FLEETS)
def html(request: pytest.FixtureRequest) -> str:
    return render_index(FLEETS[request.param]())


def section(page: str, anchor: str) -> str:
    return page[page.index(f'aria-labelledby="{anchor}"') :].partition("</section>")[0]


def test_the_page_nests_and_its_links_lead_somewhere(html: str) -> None:
    page = Page(html)
    assert (page.faults, page.open) == ([], [])
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    for href in page.values("href"):
        assert href[1:] in ids if href.startswith("#") else re.fullmatch(r"reports/[\w.%-]+\.html", href)
    for labels in page.values("aria-labelledby"):
        assert set(labels.split()) <= set(ids)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert all(attrs.get("scope") for tag, attrs in page.elements if tag == "th")


def test_nothing_is_loaded_and_only_our_own_scripts_run(html: str) -> None:
    page = Page(html)
    assert not {tag for tag, _ in page.elements} & {"img", "link", "iframe", "object", "embed", "form", "base"}
    assert not [a for _, attrs in page.elements for a in attrs if a.startswith("on") or a == "src"]
    policy = next(attrs["content"] or "" for tag, attrs in page.elements if attrs.get("http-equiv") == "Content-Security-Policy")
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert {"sha256-" + b64encode(sha256(s.encode()).digest()).decode() for s in scripts} == set(re.findall(r"'(sha256-[^']+)'", policy))
    assert policy.startswith("default-src 'none'")
    assert "strict-dynamic" not in policy


def test_hostile_text_stays_text() -> None:
    html = render_index(hostile())
    assert "<img" not in html
    assert "{{ 7*7 }}" in html
    assert html.count("</script>") == html.count("<script")


def test_templates_translate_only_what_stands_in_them() -> None:
    """What they translate is not escaped, so it must never be text from a log or a file name."""
    environment = Environment(loader=FileSystemLoader(TEMPLATES))
    calls = [
        call
        for path in sorted((TEMPLATES / "batch").glob("*.j2"))
        for call in environment.parse(path.read_text(encoding="utf-8")).find_all(nodes.Call)
        if isinstance(call.node, nodes.Name) and call.node.name in ("_", "ngettext")
    ]
    assert len(calls) > 30
    for call in calls:
        texts = call.args[: 1 if call.node.name == "_" else 2]
        assert all(isinstance(t, nodes.Const) for t in texts)


def test_the_page_says_what_there_is() -> None:
    html = render_index(mixed())
    assert "<title>6 captures, 3 with an incident (kvpm)</title>" in html
    incidents = section(html, "incident")
    assert re.findall(r'href="reports/(\w+)\.html"', incidents) == ["tuesday", "lost", "cap"]
    assert 'data-v="41.9"' in incidents
    assert "400\u00a0ms before" in incidents
    assert "pod-0, the worst of 3" in incidents
    assert "1,000 to 2,000" in incidents
    assert "server.log is binary" in section(html, "failures")
    assert "a file beside captures that are folders" in section(html, "skipped")


def test_what_cannot_be_told_is_neither_green_nor_silent() -> None:
    dark = section(render_index(mixed()), "unknown")
    assert "this is not an all-clear" in dark
    assert "waiting requests, KV usage" in dark
    assert "not reported" in dark
    assert "tone-good" not in dark
    assert ">0<" not in dark


def test_caps_and_cuts_are_said() -> None:
    html = render_index(many(120))
    assert "Showing the 60 worst of 80 captures with an incident." in html
    cut = render_index(fleet(record("a", summary(cut=True)), thresholds={"full_usage": 0.5}))
    assert "Of 1 capture an input could not be read to its end" in cut
    assert "cut short" in section(cut, "incident")
    assert "full_usage = 0.5" in cut


def test_the_same_batch_gives_the_same_bytes_and_a_language_its_own() -> None:
    assert render_index(mixed()) == render_index(mixed())
    with language.use("zh"):
        assert '<html lang="zh">' in render_index(mixed())


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
browser = pytest.mark.skipif(CHROMIUM is None and os.environ.get("CI") != "true", reason="needs chromium; with CI=true that is a failure")


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI has no browser: see tools/ensure_browser.sh"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield launched.new_page()
        launched.close()


def shown(tab: Any, made: Fleet, folder: Path, width: int = 1280) -> list[str]:
    """Open the index; returns what was loaded and said on the console."""
    file = folder / "index.html"
    file.write_text(render_index(made), encoding="utf-8")
    seen: list[str] = []
    tab.set_viewport_size({"width": width, "height": 900})
    tab.on("request", lambda request: seen.append(request.url))
    tab.on("console", lambda message: seen.append(message.text))
    tab.on("pageerror", lambda error: seen.append(str(error)))
    tab.goto(file.as_uri())
    return [s for s in seen if s != file.as_uri()]


@pytest.mark.browser
@browser
@pytest.mark.parametrize("width", [390, 1024, 1440])
@pytest.mark.parametrize("name", FLEETS)
def test_nothing_sticks_out_or_is_fetched_in_a_browser(tab: Any, tmp_path: Path, name: str, width: int) -> None:
    assert shown(tab, FLEETS[name](), tmp_path, width) == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
@browser
def test_the_table_can_be_sorted_and_filtered(tab: Any, tmp_path: Path) -> None:
    assert shown(tab, mixed(), tmp_path) == []
    table = tab.locator("table.captures").first
    rows = table.locator("tbody tr:visible th")
    table.get_by_role("button", name="Capture").click()
    assert rows.all_inner_texts() == ["cap", "lost\npod-0, the worst of 3", "tuesday"]
    tab.get_by_role("searchbox").first.fill("crash")
    assert rows.all_inner_texts() == ["lost\npod-0, the worst of 3"]
