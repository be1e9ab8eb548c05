"""One Chromium for the browser tests of a module: Playwright that outlives it would not let other modules start their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_pages import ARGUMENTS, AXE, CHROMIUM, Tabs, required

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The made-up incidents of the report's tests are shown here too.
sys.path.append(str(Path(__file__).resolve().parents[1] / "report"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser. Where there is none the tests are skipped; with CI=true they fail."""
    if CHROMIUM is None:
        if required():
            pytest.fail("CI has no browser: see tools/ensure_browser.sh")
        pytest.skip("needs chromium; with CI=true that is a failure")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")
def page_of(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tabs]:
    """Opens HTML text or a file and writes down what the page does; `browser_pages.assert_quiet` looks at it."""
    tabs = Tabs(chromium, lambda: tmp_path_factory.mktemp("page"))
    try:
        yield tabs
    finally:
        tabs.close()


@pytest.fixture(scope="session")
def axe() -> None:
    """axe-core is there. Where it is not the tests are skipped; with CI=true they fail."""
    if not AXE.is_file():
        if required():
            pytest.fail("CI has no axe-core: see tools/ensure_axe.sh")
        pytest.skip("needs axe-core (sh tools/ensure_axe.sh); with CI=true that is a failure")
