"""What a browser makes of the report: PDF and PNG."""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
import time
from pathlib import Path

import pytest
from report_fakes import HOSTILE, hostile, l1_incident

from analyzer.errors import KvpmError
from analyzer.report.data import build_report
from analyzer.report.forms import browser
from analyzer.report.forms.pdf import css_string, for_paper, render_pdf, without_dates
from analyzer.report.forms.pictures import picture_bytes, report_picture
from analyzer.report.forms.render import render_report
from analyzer.report.render import render_html

CHROMIUM = next(filter(None, map(shutil.which, browser.BROWSERS)), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true", reason="needs chromium; with CI=true that is a failure"
)


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Put a program called chromium where the browser is looked for."""
    program = folder / "chromium"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(browser.shutil, "which", lambda name: str(program) if name == "chromium" else None)


def gone(process: int) -> bool:
    """Ended, whether or not somebody has asked for its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.browser
@needs_chromium
def test_a_pdf_has_its_title_its_pages_and_no_date_and_is_the_same_each_time() -> None:
    made = render_report(build_report(*l1_incident()), "pdf")
    assert isinstance(made, bytes)
    assert made.startswith(b"%PDF-")
    assert b"/Title (L1-bound: " in made
    assert 2 <= len(re.findall(rb"/Type /Page\b", made)) <= 20
    assert b"(D:" not in made
    assert b"/Type /Outlines" in made
    assert made == render_report(build_report(*l1_incident()), "pdf")


@pytest.mark.browser
@needs_chromium
def test_a_png_is_twice_as_large_as_the_picture() -> None:
    picture = report_picture(build_report(*l1_incident()))
    assert picture is not None
    made = picture_bytes(picture, "png")
    assert made.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", made[16:24]) == (picture.width * 2, picture.height * 2)


def test_the_page_for_paper_has_no_scripts_and_all_of_its_text() -> None:
    html = render_html(build_report(*hostile()))
    paper = for_paper(html)
    assert "<script" not in paper
    assert "&lt;img src=x onerror=1&gt;" in paper
    assert paper.count("</head>") == 1
    assert "@page { size: A4 }" in paper


def test_a_title_cannot_leave_its_css_string() -> None:
    inner = css_string(HOSTILE + "\\\n;}")[1:-1]
    assert re.fullmatch(r"(?:[\w ]|\\[0-9a-f]{6})*", inner)
    assert css_string("Disk 1: «最»") == '"Disk 1\\00003a \\0000ab最\\0000bb"'


def test_dates_are_blanked_without_moving_anything() -> None:
    pdf = b"1 0 obj\n<</Title (a)\n/CreationDate (D:20261130181601+00'00')\n/ModDate (D:20261130181601+00'00')>>\nendobj"
    plain = without_dates(pdf)
    assert len(plain) == len(pdf)
    assert b"2026" not in plain
    assert plain.startswith(b"1 0 obj\n<</Title (a)\n")


def test_without_a_browser_it_says_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser.shutil, "which", lambda _name: None)
    with pytest.raises(KvpmError, match="needs Chromium or Chrome") as raised:
        render_pdf("<title>x</title></head>")
    assert "print it from any browser" in raised.value.hint


def test_a_browser_that_writes_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, tmp_path, "exit 1")
    with pytest.raises(KvpmError, match="made no file") as raised:
        render_pdf("<title>x</title></head>")
    assert "TMPDIR" in raised.value.hint
    assert "print it from any browser" in raised.value.hint


def test_a_browser_that_does_not_end_is_ended_with_its_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    monkeypatch.setattr(browser, "TIMEOUT_S", 0.5)
    with pytest.raises(KvpmError, match=r"not done after 0\.5 s"):
        render_pdf("<title>x</title></head>")
    child = int((tmp_path / "child").read_text())
    # It is told to end at once; when it is gone is up to the machine.
    assert any(gone(child) or time.sleep(0.05) for _ in range(200))


def test_the_sandbox_is_left_only_by_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, tmp_path, 'for a in "$@"; do case $a in --print-to-pdf=*) out=${a#*=};; esac; done; echo "%PDF-" "$@" > "$out"')
    for user, flag in ((0, True), (1000, False)):
        monkeypatch.setattr(browser.os, "geteuid", lambda user=user: user)
        assert (b"--no-sandbox" in render_pdf("<title>x</title></head>")) is flag
