"""The one picture of a report: which of its charts it is, and its forms."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from analyzer.language import _
from analyzer.report.forms.browser import run_browser
from analyzer.report.forms.svg import Picture, standalone_svg
from analyzer.report.model import ReportData

PictureForm = Literal["svg", "png"]
# Sharp on the screens of today.
_PIXELS = 2
_TYPES = {"svg": "image/svg+xml", "png": "image/png"}


def report_picture(report: ReportData) -> Picture | None:
    """The chart that tells what happened to the worst instance; None where there is nothing to draw."""
    worst = report.instances.rows[0]
    drawn = worst.story or worst.closeup or worst.timeline
    if drawn is None:
        return None
    title = report.verdict.finding.title
    return standalone_svg(drawn, title=_("{title} ({instance})", title=title, instance=worst.name) if worst.name else title)


def picture_bytes(picture: Picture, form: PictureForm) -> bytes:
    """A file of that form.

    Raises:
        KvpmError: a PNG was asked for, and there is no browser to draw it, or it could not.
    """
    if form == "svg":
        return picture.svg.encode()
    with TemporaryDirectory(prefix="kvpm-") as name:
        folder = Path(name)
        page = folder / "picture.svg"
        page.write_text(picture.svg, encoding="utf-8")
        size = f"--window-size={picture.width},{picture.height}"
        looks = [size, f"--force-device-scale-factor={_PIXELS}", "--hide-scrollbars"]
        return run_browser(page, "screenshot", folder / "picture.png", looks)


def picture_address(picture: Picture, form: PictureForm) -> str:
    """The picture as a `data:` URL."""
    return f"data:{_TYPES[form]};base64,{b64encode(picture_bytes(picture, form)).decode()}"
