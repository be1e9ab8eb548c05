"""The command as the tests of this folder run it."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import analyzer.cli.group  # noqa: F401  (main loads it, and what is set below is set in its modules)
from analyzer.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kvpm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run the command in a scratch folder; returns (exit code, standard output, standard error).

    Reports replay nothing: that takes seconds, and has tests of its own.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.import_module("analyzer.cli.report"), "replay_of", lambda *_given, **_more: None)

    def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kvpm", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return int(stop.value.code or 0), out, err

    return run
