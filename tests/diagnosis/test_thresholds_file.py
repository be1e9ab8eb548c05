"""A file of thresholds: what it may hold, how a mistake is told, and that answers and SQL follow it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hard_cases import decode, prefill, sg_start

from analyzer import diagnose, ingest, open_trace
from analyzer.diagnosis.thresholds import changed, in_force, load_thresholds, thresholds
from analyzer.errors import ExitCode, KvpmError
from analyzer.ingestion import IngestOptions


def _file(folder: Path, text: str) -> Path:
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    ["full_usage = 0.8\nqueue_wait_s = 5\n", '[full_usage]\nvalue = 0.8\nunit = "share"\ndoc = "x"\n[queue_wait_s]\nvalue = 5\n'],
)
def test_both_forms_are_read_over_the_shipped(tmp_path: Path, text: str) -> None:
    own = load_thresholds(_file(tmp_path, text))
    assert own == {"full_usage": 0.8, "queue_wait_s": 5.0}
    merged = thresholds(own)
    assert merged["full_usage"] == 0.8
    assert set(merged) == set(thresholds())
    assert changed(merged) == {"full_usage": (0.8, 0.9), "queue_wait_s": (5.0, 2.0)}


def test_the_shipped_file_itself_is_one_and_changes_nothing() -> None:
    shipped = Path(__file__).resolve().parents[2] / "analyzer" / "diagnosis" / "thresholds.toml"
    assert load_thresholds(shipped) == thresholds()
    assert changed(thresholds()) == {}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("full_usag = 0.8", "no threshold 'full_usag'", "full_usage"),
        ("weather = 1", "no threshold 'weather'", "there are full_usage"),
        ('full_usage = "much"', "full_usage is not a number", "full_usage = 0.9"),
        ("full_usage = true", "full_usage is not a number", ""),
        ("full_usage = nan", "full_usage is not a number", ""),
        ("queue_wait_s = inf", "queue_wait_s is not a number", ""),
        (f"queue_wait_s = 1{'0' * 400}", "queue_wait_s is not a number", ""),
        ("full_usage = 90", "full_usage = 90 is out of range, it is a share from 0 to 1", "as shipped: full_usage = 0.9"),
        ("full_usage = -0.1", "out of range", ""),
        ("queue_wait_s = -1", "queue_wait_s = -1 is out of range, it is 0 or more", ""),
        ("[full_usage]\nvalues = 0.8", "[full_usage] is no table with `value`", "full_usage = 0.85"),
        ("full_usage = [0.8]", "full_usage is not a number", ""),
        ("full_usage: 0.8", "is no TOML", "one threshold a line"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(tmp_path: Path, text: str, message: str, hint: str) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(KvpmError) as error:
        load_thresholds(path)
    assert str(path) in error.value.message
    assert message in error.value.message
    assert hint in error.value.hint
    assert "\n" not in error.value.message
    assert error.value.exit_code == ExitCode.USAGE


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(KvpmError, match=r"missing\.toml"):
        load_thresholds(tmp_path / "missing.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(KvpmError, match="no text in UTF-8"):
        load_thresholds(tmp_path / "b.toml")


def test_the_api_checks_too(tmp_path: Path) -> None:
    with pytest.raises(KvpmError, match="no threshold 'full'"):
        thresholds({"full": 1.0})


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue at a usage of 0.84: no full pool as shipped."""
    folder = tmp_path_factory.mktemp("own")
    log = sg_start(-80) + "".join(decode(t, 20, 0.84, 20, 400) + prefill(t + 1, 1, 300, 0.84, 19, 20) for t in range(0, 120, 3))
    (folder / "server.log").write_text(log, encoding="utf-8")
    ingest([str(folder / "server.log")], folder / "t.kvtrace", IngestOptions(year=2026))
    return folder / "t.kvtrace"


def test_diagnosis_and_sql_follow_the_file(trace: Path) -> None:
    with open_trace(trace) as opened:
        shipped = diagnose(opened)
        assert opened.con.execute("SELECT getvariable('full_usage')").fetchone() == (0.9,)
    with open_trace(trace, thresholds={"full_usage": 0.8}) as opened:
        own = diagnose(opened)
        assert in_force(opened.con)["full_usage"] == 0.8
        assert opened.con.execute("SELECT getvariable('full_usage')").fetchone() == (0.8,)
    assert shipped.thresholds == {}
    assert not [n for n in shipped.notes if "Threshold" in n]
    assert own.thresholds == {"full_usage": 0.8}
    assert "Threshold full_usage is 0.8, as shipped 0.9." in own.notes
    answers = [next(a.answer for a in d.checklist if a.id == "l1_full") for d in (shipped, own)]
    assert answers[0] != "yes"
    assert answers[1] == "yes"


def test_a_variable_set_by_hand_counts_for_the_diagnosis(trace: Path) -> None:
    with open_trace(trace) as opened:
        opened.con.execute("SET VARIABLE min_reports = 1000::DOUBLE")
        assert diagnose(opened).thresholds == {"min_reports": 1000.0}
