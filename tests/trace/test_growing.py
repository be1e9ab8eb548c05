"""A log that grows: what is made of it is what is made of the whole, at the cost of its new bytes."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from growing import everything, grow, parts, read, read_growing, small_scale

from analyzer.trace.manifest import read_manifest

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NAMES = sorted(p.parent.name for p in SAMPLES.glob("*/server.log"))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_scale(monkeypatch)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(2, 12))])
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_the_whole_log(name: str, seed: int, tmp_path: Path) -> None:
    data = (SAMPLES / name / "server.log").read_bytes()
    chosen = random.Random(f"{name} {seed}")
    # in the middle of lines, mostly
    cuts = [chosen.randrange(len(data) // 10, len(data)) for _ in range(6)]
    begun = read_growing(tmp_path / "server.log", tmp_path / "one.kvtrace", data, cuts)
    read(tmp_path / "whole.kvtrace", tmp_path / "server.log")
    assert everything(tmp_path / "one.kvtrace") == everything(tmp_path / "whole.kvtrace")
    assert len(begun) == len({*cuts, len(data)})
    assert begun[-1] > 0
