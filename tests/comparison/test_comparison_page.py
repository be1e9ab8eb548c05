"""The page of a comparison: it loads nothing, says which side is which, and stays text whatever names it is given."""

from __future__ import annotations

import os
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from comparison_sides import Sides

sys.path.insert(0, str(Path(__file__).parents[1]))

from parsed_page import Page as Parsed

from analyzer.comparison.compare import compare
from analyzer.comparison.model import FactPair
from analyzer.comparison.page import ComparePage, build_page, render_page
from analyzer.comparison.text import text
from analyzer.language import use

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = "</script><img src=x onerror=1>\x1b[31m\u202e'\"&{{ 7*7 }}"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def data(side_of: Sides) -> ComparePage:
    a, b = side_of("l1_bound_sglang"), side_of("healthy_sglang")
    return build_page(a, b, compare(a, b))


@pytest.fixture(scope="module")
def html(data: ComparePage) -> str:
    return render_page(data)


def test_the_page_nests_and_its_links_lead_somewhere(html: str) -> None:
    parsed = Parsed(html)
    assert parsed.faults == []
    assert parsed.open == []
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    assert {h[1:] for h in parsed.values("href")} <= set(ids)
    for labels in parsed.values("aria-labelledby"):
        assert set(labels.split()) <= set(ids)
    levels = [int(tag[1]) for tag, _ in parsed.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(attrs.get("scope") for tag, attrs in parsed.elements if tag == "th")


def test_nothing_is_loaded_and_only_our_own_scripts_run(html: str) -> None:
    parsed = Parsed(html)
    assert not {tag for tag, _ in parsed.elements} & {"img", "link", "iframe", "object", "embed", "form", "base"}
    assert not [a for _, attrs in parsed.elements for a in attrs if a.startswith("on") or a == "src"]
    policy = next(attrs["content"] or "" for _, attrs in parsed.elements if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    allowed = set(re.findall(r"'(sha256-[^']+)'", policy))
    assert {"sha256-" + b64encode(sha256(s.encode()).digest()).decode() for s in scripts} == allowed


def test_the_verdict_comes_first_then_the_sides_then_what_weakens_it(html: str) -> None:
    order = [
        "Cannot tell whether the change helped",
        "TTFT P95 went from",
        ">A</span>",
        ">B</span>",
        "What the comparison rests on",
        "What weakens it",
        '<section id="numbers">',
        '<section id="charts">',
        '<section id="checklist">',
        '<section id="configuration">',
    ]
    places = [html.index(part, html.index("<body>")) for part in order]
    assert places == sorted(places)


def test_cannot_tell_is_grey_and_missing_is_not_zero(html: str) -> None:
    assert 'class="verdict tone-grey"' in html
    l2 = html[html.index(">L2 used, peak<") :]
    assert "not reported" in l2[: l2.index("</tr>")]
    assert "cannot tell" in l2[: l2.index("</tr>")]


def test_hostile_names_stay_text(data: ComparePage) -> None:
    named = replace(data.comparison.a, name=HOSTILE, instance=HOSTILE, versions=HOSTILE)
    change = replace(data.comparison.change, sentence=HOSTILE, reasons=(HOSTILE,), weakens=(HOSTILE,))
    fact = FactPair(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    comparison = replace(data.comparison, a=named, change=change, notes=(HOSTILE,))
    sides = (replace(data.sides[0], summary=named), data.sides[1])
    made = render_page(replace(data, comparison=comparison, sides=sides, changed=replace(data.changed, rows=(fact,))))
    assert "<img" not in made
    assert "{{ 7*7 }}" in made
    assert made.count("</script>") == made.count("<script")


def test_a_hostile_name_of_an_input_is_cleaned(side_of: Sides) -> None:
    a = replace(side_of("healthy_sglang"), name=HOSTILE)
    comparison = compare(a, a)
    made = render_page(build_page(a, a, comparison))
    assert "\x1b" not in made
    assert "\u202e" not in made
    assert "\x1b" not in text(comparison, to_file=True)
    assert "&lt;/script&gt;&lt;img" in made


def test_the_same_sides_give_the_same_bytes(side_of: Sides, html: str) -> None:
    a, b = side_of("l1_bound_sglang"), side_of("healthy_sglang")
    assert render_page(build_page(a, b, compare(a, b))) == html
    assert len(html) < 400_000


def test_the_terminal_has_the_verdict_first_and_no_colour_in_a_file(data: ComparePage) -> None:
    shown = text(data.comparison, to_file=True)
    assert shown.startswith("Cannot tell whether the change helped\n")
    assert "\x1b" not in shown
    assert "What weakens it:" in shown
    assert re.search(r"^L2 used, peak +20.5\s% +not reported +cannot tell", shown, re.MULTILINE)


def test_a_side_without_reports_is_drawn_as_nothing(side_of: Sides, tmp_path: Path) -> None:
    import analyzer
    from analyzer.comparison.side import side

    log = tmp_path / "server.log"
    # the first lines of a start, and no report
    whole = (Path(__file__).resolve().parents[2] / "sample_traces/l1_bound_sglang/server.log").read_text(encoding="utf-8")
    log.write_text("\n".join(whole.splitlines()[:12]) + "\n", encoding="utf-8")
    analyzer.ingest([str(log)], tmp_path / "bare.kvtrace")
    with analyzer.open_trace(tmp_path / "bare.kvtrace") as trace:
        bare = side(trace, analyzer.diagnose(trace), letter="A", name="bare")
        comparison = compare(bare, side_of("healthy_sglang"))
        assert comparison.change.outcome == "cannot_tell"
        assert {d.direction for d in comparison.deltas if d.wish != "none"} == {"cannot_tell"}
        made = render_page(build_page(bare, side_of("healthy_sglang"), comparison))
        assert "A has nothing over time." in made
        alone = build_page(bare, bare, compare(bare, bare))
        assert alone.figure is None
        assert "There is nothing to draw" in render_page(alone)


@pytest.fixture(scope="module")
def shown(side_of: Sides, html: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, list[str]]]:
    """The page in a browser, with all that it complained of."""
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("CI has no browser")
        pytest.skip("needs chromium")
    from playwright.sync_api import sync_playwright

    file = tmp_path_factory.mktemp("page") / "c.html"
    file.write_text(html, encoding="utf-8")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda m: complaints.append(m.text))
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.goto(file.as_uri())
        yield page, complaints
        browser.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_the_page_fits_and_complains_of_nothing(shown: tuple[Page, list[str]], width: int) -> None:
    page, complaints = shown
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


@pytest.mark.browser
def test_settings_can_be_sorted(shown: tuple[Page, list[str]]) -> None:
    page, complaints = shown
    page.set_viewport_size({"width": 1440, "height": 900})
    table = page.locator("#configuration table").first
    first = table.locator("tbody tr").first.inner_text()
    table.locator("thead button").first.click()
    table.locator("thead button").first.click()
    assert table.locator("tbody tr").first.inner_text() != first
    assert complaints == []


def test_the_chinese_page_has_its_language(side_of: Sides) -> None:
    with use("zh"):
        a, b = side_of("l1_bound_sglang"), side_of("healthy_sglang")
        made = render_page(build_page(a, b, compare(a, b), "incident"))
    assert '<html lang="zh">' in made
    assert Parsed(made).faults == []
