"""What the pages load: styles, and scripts whose hashes the page's Content-Security-Policy names.

A page carries all of it inline, or, as one of many in a folder, refers to files that the pages share.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup

from analyzer.resources import templates_dir


@dataclass(frozen=True, slots=True)
class Script:
    """One script. `early` is run in the head, before the first paint; the others when the page has been read."""

    name: str
    text: str
    early: bool = False

    @property
    def digest(self) -> str:
        """The hash as a Content-Security-Policy and `integrity` spell it."""
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
        inline = self._inline
        allowed = " ".join(f"'{s.digest}'" for s in inline) or "'none'"
        if self.beside is not None:
            # What a script of these hashes loads may run too; a `src` in the page may not, wherever it leads.
            allowed += " 'strict-dynamic'"
        return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

    def tags(self, *, early: bool) -> Markup:
        """The script elements of the head (`early`) or of the end of the page."""
        # Our own text and the chart library's: neither holds an end tag, and a test looks.
        return Markup("\n").join(Markup("<script>") + Markup(s.text) + Markup("</script>") for s in self._inline if s.early == early)

    @property
    def _inline(self) -> tuple[Script, ...]:
        """The scripts in the page itself. With shared files: those before the first paint, and the one that loads the rest."""
        if self.beside is None:
            return self.scripts
        later = [s for s in self.scripts if not s.early]
        return (*(s for s in self.scripts if s.early), *([_loader(later, self.beside)] if later else []))


def _loader(scripts: Sequence[Script], beside: str) -> Script:
    """A script that loads shared files in their order.

    A hash in the policy lets a file run only together with an `integrity` attribute, and a page opened from a disk
    cannot check one: a browser refuses the script, and the page loses its charts. So the policy names the hash of this
    loader, and the loader names the files. Where a server sends them, they are checked against their hashes as well.
    """
    files = json.dumps([[f"{beside}/{s.file_name}", s.digest] for s in scripts]).replace("<", "\\u003c")
    return Script(
        "load.js",
        f""""use strict";
for (const [file, digest] of {files}) {{
  const script = document.createElement("script");
  script.src = file;
  script.async = false;
  if (location.protocol.startsWith("http")) script.integrity = digest;
  document.body.append(script);
}}""",
    )


def report_assets(*, explore: bool, beside: str | None = None) -> Assets:
    """What a report loads; the chart library only where there is something to explore."""
    scripts: list[Script] = [script("theme.js", early=True), script("page.js")]
    if explore:
        scripts += [bokeh_script(), script("explore.js"), script("moments.js")]
    return Assets(tuple(scripts), beside)


def write_shared(scripts: Sequence[Script], folder: Path) -> None:
    """Put the scripts that pages refer to into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in scripts:
        (folder / each.file_name).write_text(each.text, encoding="utf-8")
