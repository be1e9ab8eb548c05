"""Pages opened in Chromium, with everything that a quiet page must not do written down while they are open."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
HERE = Path(__file__).resolve().parent
AXE = HERE / "axe" / "node_modules" / "axe-core" / "axe.min.js"

# Runs before any script of the page. A refused script or style is told to the console by its directive, not in the browser's prose.
_LISTEN = """
document.addEventListener("securitypolicyviolation", (e) =>
  console.error(`policy: ${e.violatedDirective} refused ${e.blockedURI} ${e.sample}`));
"""


def required() -> bool:
    """True where a missing tool is a failure and not a reason to skip: on the machines that decide about a change."""
    return os.environ.get("CI") == "true"


@dataclass
class Heard:
    """What a page did besides being a page: `noise` must be empty, `requests` is the page and what it may load."""

    noise: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def clear(self) -> None:
        """Forget what came so far, before the same tab shows another page."""
        self.noise.clear()
        self.requests.clear()


_heard: WeakKeyDictionary[Page, Heard] = WeakKeyDictionary()


def heard(page: Page) -> Heard:
    """What was written down about a page that `Tabs` opened."""
    return _heard[page]


def watch(page: Page) -> None:
    """Write down messages, errors, dialogs, new windows, downloads and requests of `page` from now on."""
    record = _heard[page] = Heard()

    def said(message: Any) -> None:
        # The chart library tells its own progress; its warnings and errors are not let through.
        if not (message.type in ("info", "log", "debug") and message.text.startswith("[bokeh ")):
            record.noise.append(f"{message.type}: {message.text}")

    page.on("console", said)
    page.on("pageerror", lambda error: record.noise.append(f"error: {error}"))
    page.on("popup", lambda other: record.noise.append(f"window: {other.url}"))
    page.on("download", lambda download: record.noise.append(f"download: {download.url}"))
    page.on("websocket", lambda socket: record.noise.append(f"socket: {socket.url}"))
    page.on("worker", lambda worker: record.noise.append(f"worker: {worker.url}"))
    page.on("request", lambda request: record.requests.append(request.url))

    def dismiss(dialog: Any) -> None:
        record.noise.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.add_init_script(_LISTEN)


def assert_quiet(page: Page, allowed: Iterable[str] = ()) -> None:
    """Nothing was said, asked for or opened, and nothing was loaded but the page itself and the addresses in `allowed`."""
    record = heard(page)
    assert not record.noise, record.noise
    own = page.url.partition("#")[0]
    loaded = [url for url in record.requests if url.partition("#")[0] not in {own, *allowed}]
    assert not loaded, loaded


class Tabs:
    """Opens pages in tabs of their own; `close` closes all of them."""

    def __init__(self, browser: Browser, folder: Callable[[], Path]) -> None:
        self.browser = browser
        self.folder = folder
        self._contexts: list[BrowserContext] = []

    def __call__(self, page: str | Path, *, width: int = 1280, height: int = 900, before: str = "", **options: Any) -> Page:
        """A tab that shows `page`, HTML text or a file. The script `before` runs first; `options` are Playwright's for a
        browser context (`color_scheme`, `permissions`)."""
        if isinstance(page, str):
            file = self.folder() / "page.html"
            file.write_text(page, encoding="utf-8")
        else:
            file = page
        context = self.browser.new_context(viewport={"width": width, "height": height}, **options)
        self._contexts.append(context)
        tab = context.new_page()
        watch(tab)
        if before:
            tab.add_init_script(before)
        tab.goto(file.absolute().as_uri())
        return tab

    def close(self) -> None:
        """Close every tab."""
        while self._contexts:
            self._contexts.pop().close()


def until(page: Page, expression: str, arg: Any = None, *, seconds: float = 20.0) -> None:
    """Wait until an expression, or a function of `arg`, is true. Playwright's own way evaluates text in the page: its policy forbids it."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression, arg):
        assert time.monotonic() < deadline, f"never true: {expression[:200]}"
        page.wait_for_timeout(50)


def unfold(page: Page) -> None:
    """Open all that is folded."""
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")


_CUT = """() => {
  const cut = [];
  for (const e of document.body.querySelectorAll("*")) {
    if (e.closest("svg, .hidden, .bk-root, [hidden]") || !e.checkVisibility()) continue;
    const style = getComputedStyle(e);
    const x = style.overflowX !== "visible" && style.overflowX !== "auto" && style.overflowX !== "scroll";
    const y = style.overflowY !== "visible" && style.overflowY !== "auto" && style.overflowY !== "scroll";
    if ((x && e.scrollWidth > e.clientWidth + 1) || (y && e.scrollHeight > e.clientHeight + 1))
      cut.push(`${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 60)}`);
  }
  return cut;
}"""
_WIDE = """() => {
  const root = document.documentElement;
  if (root.scrollWidth <= innerWidth) return [];
  const wide = [];
  for (const e of document.body.querySelectorAll("*"))
    if (!e.closest("svg") && e.getBoundingClientRect().right > innerWidth + 1 && !e.parentElement.closest(".scroll, pre"))
      wide.push(`${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 60)}`);
  return [`${root.scrollWidth} px in ${innerWidth} px`, ...wide.slice(0, 10)];
}"""


def sticking_out(page: Page) -> list[str]:
    """What makes the page scroll sideways, and what hides a part of its own text."""
    return [*page.evaluate(_WIDE), *page.evaluate(_CUT)]


_AXE_RUN = """async () => {
  const found = await axe.run(document, {resultTypes: ["violations"], rules: {"target-size": {enabled: true}}});
  return found.violations.map((v) => ({
    rule: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map((n) => n.target.join(" ") + " :: " + n.failureSummary)}));
}"""


def axe_complaints(page: Page, *impacts: str) -> list[str]:
    """What axe-core finds wrong with a page, of the given impacts (all when there are none), one line each with up to three places."""
    # Evaluated by the browser's own debugger: the page's policy would refuse it as a script element.
    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
    found = page.evaluate(_AXE_RUN)
    return [
        f"{v['impact']} {v['rule']}: {v['help']} ({len(v['nodes'])}) {json.dumps(v['nodes'][:3], ensure_ascii=False)}"
        for v in found
        if not impacts or v["impact"] in impacts
    ]
