"""What the pages load: styles, and scripts whose hashes the page's Content-Security-Policy names.

A page carries all of it inline, or, as one of many in a folder, refers to files that the pages share.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup

from analyzer.report.charts import element
from analyzer.resources import templates_dir


@dataclass(frozen=True, slots=True)
class Script:
    """One script. `early` is run in the head, before the first paint; the others when the page has been read."""

    name: str
    text: str
    early: bool = False

    @property
    def digest(self) -> str:
        """The hash as a Content-Security-Policy and an `integrity` attribute spell it."""
        return "sha256-" + base64.b64encode(hashlib.sha256(self.text.encode()).digest()).decode()

    @property
    def file_name(self) -> str:
        """Its name in a folder of shared files; it changes with the content, so that no page gets another's version."""
        stem, dot, suffix = self.name.rpartition(".")
        return f"{stem}.{hashlib.sha256(self.text.encode()).hexdigest()[:12]}{dot}{suffix}"


@cache
def script(name: str, *, early: bool = False) -> Script:
    """One of our own scripts, from templates/scripts."""
    return Script(name, (templates_dir() / "scripts" / name).read_text(encoding="utf-8"), early)


@cache
def bokeh_script() -> Script:
    """The chart library's own script, out of its package."""
    from bokeh.settings import settings

    return Script("bokeh.min.js", (settings.bokehjs_path() / "js" / "bokeh.min.js").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Assets:
    """The scripts of one page. `beside` is the folder of shared files as the page's address for it, None for inline."""

    scripts: tuple[Script, ...]
    beside: str | None = None

    @property
    def policy(self) -> str:
        """The page's Content-Security-Policy: nothing but what it carries, and no connection to anywhere.

        Inline styles are the pages' own and the chart library's; images are its icons, which are `data:` URLs.
        """
        allowed = " ".join(f"'{s.digest}'" for s in self.scripts) or "'none'"
        return (
            f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
        )

    def tags(self, *, early: bool) -> Markup:
        """The script elements of the head (`early`) or of the end of the page."""
        return Markup("\n").join(self._tag(s) for s in self.scripts if s.early == early)

    def _tag(self, script: Script) -> Markup:
        if self.beside is not None:
            return element("script", {"src": f"{self.beside}/{script.file_name}", "integrity": script.digest}, "")
        # Our own text and the chart library's: neither holds an end tag, and a test looks.
        return Markup("<script>") + Markup(script.text) + Markup("</script>")


def report_assets(*, explore: bool, beside: str | None = None) -> Assets:
    """What a report loads; the chart library only where there is something to explore."""
    scripts: list[Script] = [script("theme.js", early=True), script("page.js")]
    if explore:
        scripts += [bokeh_script(), script("explore.js")]
    return Assets(tuple(scripts), beside)


def write_shared(scripts: Sequence[Script], folder: Path) -> None:
    """Put the scripts that pages refer to into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in scripts:
        (folder / each.file_name).write_text(each.text, encoding="utf-8")
