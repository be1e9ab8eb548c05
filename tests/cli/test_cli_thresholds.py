"""`--thresholds FILE` of the commands that open a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
L1_LOG = SAMPLES / "recorded_l1_bound" / "server.log"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.toml"
    path.write_text("open_queue = 7\n", encoding="utf-8")
    return str(path)


def test_diagnose_says_which_differ(kvpm: Run, own: str) -> None:
    code, out, _ = kvpm("diagnose", str(L1_LOG), "--year", "2026", "--thresholds", own)
    assert code == 0
    assert "open_queue = 7" in out
    document = json.loads(kvpm("diagnose", str(L1_LOG), "--year", "2026", "--thresholds", own, "--json")[1])
    assert document["thresholds"] == {"open_queue": 7.0}
    assert "Threshold open_queue is 7, as shipped 5." in document["notes"]


def test_the_report_has_it_among_its_notes(kvpm: Run, own: str) -> None:
    code, out, _ = kvpm("report", str(L1_LOG), "--year", "2026", "--thresholds", own, "-o", "-")
    assert code == 0
    assert "Threshold open_queue is 7, as shipped 5." in out


def test_sql_uses_them(kvpm: Run, own: str) -> None:
    code, out, _ = kvpm("sql", str(L1_LOG), "SELECT getvariable('open_queue') AS n", "--csv", "--year", "2026", "--thresholds", own)
    assert (code, out.split()) == (0, ["n", "7.0"])


@pytest.mark.parametrize("command", [("diagnose",), ("report", "-o", "-"), ("sql",)])
def test_a_mistake_is_told_before_anything_is_read(kvpm: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("full_usag = 0.8\n", encoding="utf-8")
    code, out, err = kvpm(command[0], "no-such-file.log", *command[1:], "--thresholds", str(bad))
    assert (code, out) == (2, "")
    assert "there is no threshold 'full_usag'" in err
    assert "near to it: full_usage" in err


def test_ingest_has_no_thresholds(kvpm: Run, own: str) -> None:
    assert kvpm("ingest", str(L1_LOG), "--thresholds", own)[0] == 2
