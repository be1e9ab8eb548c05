"""A report is written whole, where it was asked for, and never over something by accident."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyzer.errors import KvpmError
from analyzer.report.write import write_report


def test_it_is_written_as_utf8_and_nothing_is_left_behind(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    write_report(target, "µ – ✓", force=False)
    assert target.read_bytes() == "µ – ✓".encode()
    assert list(tmp_path.iterdir()) == [target]


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    with pytest.raises(KvpmError, match="exists already") as caught:
        write_report(target, "new", force=False)
    assert "--force" in caught.value.hint
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_force_replaces_it(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    write_report(target, "new", force=True)
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_appears_in_the_meantime_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    link = os.link

    def slow_link(source: Path, destination: Path) -> None:
        target.write_text("somebody else's")
        link(source, destination)

    monkeypatch.setattr(os, "link", slow_link)
    with pytest.raises(KvpmError, match="exists already"):
        write_report(target, "new", force=False)
    assert target.read_text() == "somebody else's"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(source: Path, destination: Path) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", no_link)
    write_report(tmp_path / "report.html", "new", force=False)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    real.write_text("old")
    link.symlink_to(real)
    write_report(link, "new", force=True)
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(KvpmError, match="there is no folder") as caught:
        write_report(tmp_path / "no" / "report.html", "x", force=False)
    assert caught.value.hint.startswith("mkdir -p ")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(KvpmError, match="is a folder"):
        write_report(tmp_path, "x", force=True)


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_report(Path("/dev/null"), "x", force=False)
    assert Path("/dev/null").is_char_device()
