"""The page as PDF, printed by a browser: what paper shows is said in templates/style/print.css."""

from __future__ import annotations

import html as html_text
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from analyzer.errors import KvpmError
from analyzer.report.forms.browser import run_browser

# The page's own: whatever comes from a log is escaped, and can neither begin nor end one.
_SCRIPT = re.compile(r"<script\b.*?</script>\n?", re.DOTALL)
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_DATE = re.compile(rb"/(?:CreationDate|ModDate) \(D:[^)]*\)")


def render_pdf(html: str) -> bytes:
    """The PDF of a page made by `render_html`. The same page and the same browser give the same bytes.

    Raises:
        KvpmError: there is no browser, or it made no PDF.
    """
    with TemporaryDirectory(prefix="kvpm-") as name:
        folder = Path(name)
        page = folder / "report.html"
        page.write_text(for_paper(html), encoding="utf-8", errors="replace")
        options = ["--no-pdf-header-footer", "--generate-pdf-document-outline"]
        made = run_browser(page, "print-to-pdf", folder / "report.pdf", options)
    if not made.startswith(b"%PDF-"):
        raise KvpmError("the browser wrote something that is no PDF", hint="write the HTML and print it from any browser")
    return without_dates(made)


def for_paper(html: str) -> str:
    """The page for a PDF: A4, its title at the head of every page but the first, and without scripts.

    Paper has nothing to click, and the chart library is most of the page.
    """
    title = _TITLE.search(html)
    running = css_string(html_text.unescape(title.group(1)) if title else "")
    style = f"<style>@page {{ size: A4 }} :root {{ --running-title: {running} }}</style>\n</head>"
    return _SCRIPT.sub("", html).replace("</head>", style, 1)


def css_string(text: str) -> str:
    """Text as a CSS string: everything but letters, digits and blanks as numbers, so that nothing in it can end the string."""
    return '"' + "".join(c if c.isalnum() or c == " " else f"\\{ord(c):06x}" for c in text) + '"'


def without_dates(pdf: bytes) -> bytes:
    """The same PDF without the moment it was made: blanks in its place, since other parts are found by their position."""
    return _DATE.sub(lambda match: b" " * len(match.group()), pdf)
