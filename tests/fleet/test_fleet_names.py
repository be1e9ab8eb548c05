"""File names of reports: safe, unique, and the same on every run."""

from __future__ import annotations

import pytest

from analyzer.fleet.names import file_stems, told_apart


def test_a_name_that_is_fit_for_a_file_stays() -> None:
    assert file_stems(["pod-1.log", "周二", "a_b"]) == {"pod-1.log": "pod-1.log", "周二": "周二", "a_b": "a_b"}


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "a b", "a/b", ".hidden", "-rf", "CON", "nul.txt", "a\x00b", "<img src=x>", "x" * 300, "", "...", "e\u0301%2f"],
)
def test_any_other_name_becomes_a_safe_one_of_its_own(name: str) -> None:
    stem = file_stems([name])[name]
    assert stem
    assert not set(stem) & set("/\\\x00%<> ")
    assert not stem.startswith((".", "-"))
    assert len(stem) < 100
    assert stem.casefold() not in ("con", "nul.txt")


def test_names_that_come_out_alike_are_told_apart_whoever_else_is_there() -> None:
    both = file_stems(["a b", "a_b", "a/b"])
    assert both["a_b"] == "a_b"
    assert len(set(both.values())) == 3
    assert file_stems(["a b"])["a b"] == both["a b"]


def test_names_that_differ_by_case_do_not_share_a_file() -> None:
    stems = file_stems(["Pod", "pod", "POD"])
    assert len({s.casefold() for s in stems.values()}) == 3


def test_equal_names_take_their_folder_then_a_number() -> None:
    assert told_apart([("a", "x"), ("b", "x")]) == ["a", "b"]
    assert told_apart([("a", "x"), ("a", "y"), ("a", "y")]) == ["x/a", "y/a", "y/a (2)"]
    assert told_apart([("a", ""), ("a", "")]) == ["a", "a (2)"]
