"""A fleet of hundreds of captures, of which one is no capture: all others have their reports, and a second run reads none."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.fleet.batch import Options, run_batch
from analyzer.fleet.model import Reading

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
COUNT = 500
LOGS = ("l1_bound_sglang", "l1_bound_vllm", "healthy_vllm", "crash_vllm", "cap_bound_sglang")


@pytest.mark.thorough
def test_five_hundred_captures_and_one_that_fails(tmp_path: Path) -> None:
    lines = {name: (SAMPLES / name / "server.log").read_text(encoding="utf-8").splitlines(keepends=True) for name in LOGS}
    for number in range(COUNT):
        log = lines[LOGS[number % len(LOGS)]]
        folder = tmp_path / "captures" / f"pod-{number:03d}"
        folder.mkdir(parents=True)
        # of different lengths: no two captures are the same
        (folder / "server.log").write_text("".join(log[: 60 + number % 40]), encoding="utf-8")
    (tmp_path / "captures" / "pod-250" / "server.log").write_text("Dear reader,\n")
    given, out, options = [str(tmp_path / "captures")], tmp_path / "out", Options(Reading(year=2026))
    result = run_batch(given, out, options)
    assert (result.made, [f.name for f in result.fleet.failures]) == (COUNT - 1, ["pod-250"])
    assert len(list((out / "reports").iterdir())) == COUNT - 1
    index = result.index.read_text(encoding="utf-8")
    assert index.count('href="reports/pod-') >= COUNT - 1
    assert len(index) < 2_000_000
    again = run_batch(given, out, options)
    assert (again.made, again.kept) == (0, COUNT - 1)
    assert result.index.read_text(encoding="utf-8") == index
