"""The same attacks on the other pages: a batch's index with reports that share their scripts, and a comparison."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser_pages import Tabs, assert_quiet, unfold
from hostile_capture import write_capture
from hostile_checks import FORBIDDEN, FOREIGN, SHOWN_TEXT

from analyzer.cli.group import cli

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`batch/` and `compare.html` of two of the captures."""
    folder = tmp_path_factory.mktemp("hostile")
    script, _, _, quotes, *_ = map(str, write_capture(folder / "captures"))
    cli.main(["batch", script, quotes, "-o", str(folder / "batch")], standalone_mode=False)
    cli.main(["compare", script, quotes, "-o", str(folder / "compare.html")], standalone_mode=False)
    return folder


def test_an_index_shows_attacks_as_text_and_leads_to_its_reports_only(page_of: Tabs, folder: Path) -> None:
    tab = page_of(folder / "batch" / "index.html")
    unfold(tab)
    reports = {f"a to reports/{file.name}" for file in (folder / "batch" / "reports").iterdir()}
    assert len(reports) == 2
    assert set(tab.evaluate(FOREIGN)) == reports
    assert not [name for name in reports if re.search(r"[<>\"'&#?%\s:]", name.removeprefix("a to "))]
    text = tab.evaluate(SHOWN_TEXT)
    assert "<script>window.ran=1;alert(1)" in text
    assert "\"'`><img src=x onerror=window.ran=1" in text
    assert not FORBIDDEN.search(text)
    assert tab.evaluate("window.ran") is None
    assert_quiet(tab)


def test_reports_of_a_batch_load_the_shared_scripts_and_nothing_else(page_of: Tabs, folder: Path) -> None:
    shared = [file.as_uri() for file in (folder / "batch" / "assets").iterdir()]
    for file in sorted((folder / "batch" / "reports").iterdir()):
        tab = page_of(file)
        tab.locator("header .theme").wait_for()
        unfold(tab)
        # the loader in the page adds the shared scripts
        assert set(tab.evaluate(FOREIGN)) == {"script src"}
        assert tab.evaluate("window.ran") is None
        assert_quiet(tab, allowed=shared)


def test_a_comparison_shows_attacks_as_text(page_of: Tabs, folder: Path) -> None:
    tab = page_of(folder / "compare.html")
    unfold(tab)
    assert tab.evaluate(FOREIGN) == []
    text = tab.evaluate(SHOWN_TEXT)
    assert "<script>window.ran=1;alert(1)" in text
    assert "\"'`><img src=x onerror=window.ran=1" in text
    assert not FORBIDDEN.search(text)
    assert tab.evaluate("window.ran") is None
    assert_quiet(tab)
