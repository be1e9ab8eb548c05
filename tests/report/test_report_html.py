"""The page as a whole: self-contained, safe, well-formed, and honest where something is capped."""

from __future__ import annotations

import os
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
from report_fakes import (
    add_bucket,
    connection,
    diagnosis,
    fleet,
    hostile,
    instance,
    insufficient,
    l1_incident,
    source,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from parsed_page import Page

from analyzer.diagnosis.model import Diagnosis
from analyzer.report.data import build_report
from analyzer.report.render import render_html

Fake = Callable[[], tuple[duckdb.DuckDBPyConnection, Diagnosis]]
FAKES: list[Fake] = [l1_incident, insufficient, fleet, hostile]


@cache
def page(fake: Fake) -> tuple[str, Page]:
    """Of each only one is made: that all are the same is tested below."""
    html = render_html(build_report(*fake()))
    return html, Page(html)


@pytest.mark.parametrize("fake", FAKES)
def test_the_page_nests_and_its_links_lead_somewhere(fake: Fake) -> None:
    _, parsed = page(fake)
    assert parsed.faults == []
    assert parsed.open == []
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    for href in parsed.values("href"):
        assert href.startswith("#")
        assert href[1:] in ids
    for labels in parsed.values("aria-labelledby"):
        assert set(labels.split()) <= set(ids)


@pytest.mark.parametrize("fake", FAKES)
def test_nothing_is_loaded_and_only_our_own_scripts_run(fake: Fake) -> None:
    html, parsed = page(fake)
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {"img", "link", "iframe", "object", "embed", "form", "base", "foreignobject"}
    assert not [a for _, attrs in parsed.elements for a in attrs if a.startswith("on") or a == "src"]
    policy = next(attrs["content"] or "" for tag, attrs in parsed.elements if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    allowed = set(re.findall(r"'(sha256-[^']+)'", policy))
    # The page's own text may hold a script's beginning only where it is escaped.
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert {"sha256-" + b64encode(sha256(s.encode()).digest()).decode() for s in scripts} == allowed
    assert html.count("<script") == len(scripts) + html.count('<script type="application/json"')


@pytest.mark.parametrize("fake", FAKES)
def test_headings_are_in_order(fake: Fake) -> None:
    _, parsed = page(fake)
    levels = [int(tag[1]) for tag, _ in parsed.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


@pytest.mark.parametrize("fake", FAKES)
def test_tables_and_pictures_can_be_read_aloud(fake: Fake) -> None:
    _, parsed = page(fake)
    assert all(attrs.get("scope") for tag, attrs in parsed.elements if tag == "th")
    pictures = [attrs for tag, attrs in parsed.elements if tag == "svg" and attrs.get("role") == "img"]
    assert pictures
    assert all("aria-labelledby" in attrs for attrs in pictures)


def test_hostile_text_stays_text() -> None:
    html, _ = page(hostile)
    assert "&lt;img src=x onerror=1&gt;" in html
    assert "<img" not in html
    # what closes a script is ours: one end for each beginning
    assert html.count("</script>") == html.count("<script")
    assert "{{ 7*7 }}" in html
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e]", html)


@pytest.mark.parametrize("fake", FAKES)
def test_the_same_input_gives_the_same_bytes(fake: Fake) -> None:
    assert render_html(build_report(*fake())) == page(fake)[0]


def test_the_verdict_comes_first() -> None:
    html, _ = page(l1_incident)
    order = [
        "L1-bound: the KV pool in HBM was full",
        "up to 128\u00a0requests queued",
        "Confidence: high",
        "Peak waiting",
        "2026-11-30 07:05:00 to 07:13:20",
        "8\u00a0min\u00a020\u00a0s",
        ">Why, and what to do</h2>",
        "<h2>Checklist</h2>",
        "<h2>Timeline</h2>",
        ">Also found</h2>",
        "<h2>Facts</h2>",
        "<h2>What was read</h2>",
        "<h2>Notes</h2>",
    ]
    places = [html.index(text, html.index("<body>")) for text in order]
    assert places == sorted(places)
    assert "All times are UTC." in html


def test_cannot_tell_is_neither_green_nor_silent() -> None:
    html, _ = page(insufficient)
    assert 'class="verdict tone-grey"' in html
    assert "This is not an all-clear." in html
    assert "vllm serve without --disable-log-stats" in html
    assert "<strong>Cut short.</strong>" in html
    assert "What this capture cannot tell" in html


def test_no_banner_without_a_cut() -> None:
    assert "Cut short" not in page(l1_incident)[0]


def test_every_cap_is_said() -> None:
    con, d = fleet(14)
    html = render_html(build_report(con, d))
    assert "for the 12 worst of 14 instances" in html
    notes = tuple(str(i) for i in range(60))
    html = render_html(build_report(connection(), diagnosis(instance(), notes=notes)))
    assert "Showing 50 of 60 notes." in html


def test_counts_that_do_not_add_up_are_flagged() -> None:
    d = diagnosis(instance(), sources=(source(other_lines=0),))
    assert "does not add up" in render_html(build_report(connection(), d))


def test_a_report_stays_small() -> None:
    con = connection()
    names = [f"i{n:02d}" for n in range(14)]
    for name in names:
        add_bucket(con, 0, instance=name, waiting=1)
    con.execute(
        "INSERT INTO timeline (instance, run_id, bucket_ts, bucket_s, running, waiting, kv_usage, prompt_tps, gen_tps,"
        " retracted, preempted, wait_est_s, ttft_p50_s, ttft_p95_s, ttft_p99_s, ttft_n, ttft_source, l1_used_tokens,"
        " l1_evictable_tokens, l1_available_tokens, l2_used_share, ttft_p99_low_s, ttft_p99_high_s, l1_capacity_tokens)"
        " SELECT t.instance, 'r1', t.bucket_ts + to_seconds(10 * (i + 1)), 10, "
        + ", ".join("hash(i) % 1000 / 1000.0" for _ in range(5))
        + ", 1, 1, "
        + ", ".join("hash(i) % 1000 / 1000.0" for _ in range(4))
        + ", 9, 'histogram', 1 + hash(i) % 9, 1 + hash(i) % 7, 1 + hash(i) % 5, 0.5, 0.1, 1 + hash(i) % 9, 99"
        " FROM timeline t, range(1999) u(i)"
    )
    html = render_html(build_report(con, diagnosis(*(instance(n) for n in names))))
    assert len(html) < 5_000_000


def test_the_title_can_be_given() -> None:
    html = render_html(build_report(*l1_incident()), title="<b>Tuesday</b>")
    assert "<title>&lt;b&gt;Tuesday&lt;/b&gt;</title>" in html


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None and os.environ.get("CI") != "true", reason="needs chromium; with CI=true that is a failure")
@pytest.mark.parametrize("width", [380, pytest.param(800, marks=pytest.mark.thorough), 1280])
def test_nothing_sticks_out_or_is_fetched_in_a_browser(tmp_path: Path, width: int) -> None:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI has no browser: see tools/ensure_browser.sh"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        try:
            tab = browser.new_page(viewport={"width": width, "height": 900})
            seen: list[str] = []
            tab.on("request", lambda request: seen.append(request.url))
            tab.on("console", lambda message: seen.append(message.text))
            for number, fake in enumerate(FAKES):
                file = tmp_path / f"{number}.html"
                file.write_text(page(fake)[0], encoding="utf-8")
                seen.clear()
                tab.goto(file.as_uri())
                tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
                assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
                assert seen == [file.as_uri()]
        finally:
            browser.close()
