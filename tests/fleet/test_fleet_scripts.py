"""Scripts that reports share: they run from a disk and from a server, in their order, and nothing else does."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from analyzer.report.assets import Assets, Script, report_assets, write_shared

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCRIPTS = (
    Script("early.js", "window.order = ['early', document.body === null];", early=True),
    Script("first.js", "window.order.push('first');"),
    Script("second.js", "window.order.push('second', '</scr' + 'ipt>');"),
)
ATTACKS = '<script>window.attacked = 1</script><script src="assets/attack.js"></script><p onclick="window.attacked = 2">x</p>'


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shared")
    assets = Assets(SCRIPTS, "assets")
    write_shared(SCRIPTS, made / "assets")
    (made / "assets" / "attack.js").write_text("window.attacked = 3;")
    for name, body in (("plain", ""), ("attacked", ATTACKS)):
        (made / f"{name}.html").write_text(
            f'<!doctype html><html><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{assets.policy}">'
            f"<title>x</title>{assets.tags(early=True)}</head><body>{body}{assets.tags(early=False)}</body></html>"
        )
    return made


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI has no browser: see tools/ensure_browser.sh"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser.new_page()
        browser.close()


@pytest.fixture(scope="module", params=["file", "http"])
def address(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if request.param == "file":
        yield folder.as_uri()
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


browser = pytest.mark.skipif(CHROMIUM is None and os.environ.get("CI") != "true", reason="needs chromium; with CI=true that is a failure")


@pytest.mark.browser
@browser
def test_shared_scripts_run_in_their_order(tab: Any, address: str) -> None:
    said: list[str] = []
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(f"{address}/plain.html")
    assert tab.evaluate("window.order") == ["early", True, "first", "second", "</script>"]
    assert said == []


@pytest.mark.browser
@browser
def test_what_text_would_bring_into_the_page_does_not_run(tab: Any, address: str) -> None:
    tab.goto(f"{address}/attacked.html")
    tab.locator("p").click()
    assert tab.evaluate("[window.attacked, window.order.length]") == [None, 5]


@pytest.mark.browser
@browser
def test_a_server_must_send_the_very_script(tab: Any, address: str, folder: Path) -> None:
    shared = folder / "assets" / SCRIPTS[2].file_name
    shared.write_text("window.attacked = 4;")
    tab.goto(f"{address}/plain.html")
    shared.write_text(SCRIPTS[2].text)
    assert tab.evaluate("window.attacked") == (4 if address.startswith("file:") else None)


def test_a_report_beside_shared_files_carries_only_what_runs_before_the_first_paint() -> None:
    alone, beside = report_assets(explore=True), report_assets(explore=True, beside="../assets")
    assert len(str(beside.tags(early=False))) < 2000 < 1_000_000 < len(str(alone.tags(early=False)))
    assert beside.tags(early=True) == alone.tags(early=True)
    assert all(s.file_name in beside.tags(early=False) for s in beside.scripts if not s.early)


def test_a_page_that_carries_its_scripts_trusts_no_others() -> None:
    assert "strict-dynamic" not in report_assets(explore=True).policy
