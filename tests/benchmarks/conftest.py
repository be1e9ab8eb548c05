"""The benchmarks stand beside the package, at the top of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of logs as small as the logs that are made here."""
    monkeypatch.setattr("benchmarks.inputs.logs.BLOCK", 400_000)
