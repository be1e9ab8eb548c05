"""Readers of single values, Python literals and version ranges."""

from __future__ import annotations

import pytest

from analyzer.formats.pyrepr import read_repr
from analyzer.formats.values import READERS, as_int64
from analyzer.formats.versions import VersionRange, version_key


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        ("int", "24", 24), ("int", "446,736", 446736), ("int", "-1", -1), ("int", "4,46", None), ("int", "24x", None), ("int", "", None),
        ("int", "9223372036854775807", 2**63 - 1), ("int", "9223372036854775808", None), ("int", "1" * 5000, None), ("int", "²", None),
        ("rank", "7", 7), ("rank", "40000", None), ("rank", "-1", None),
        ("float", "0.62", 0.62), ("float", "5.12e+09", 5.12e9), ("float", "0.", None), ("float", "nan", None), ("float", "1e999", None),
        ("percent", "96.8%", 0.968), ("percent", "96.8", None), ("percent", "nan%", None),
        ("bool", "True", True), ("bool", "Tru", None),
        ("leading_int", "1 waiting to start", 1), ("leading_int", "x waiting", None),
        ("reqs", "24 reqs", 24), ("reqs", "24", None), ("tokens", "1204 tokens", 1204), ("tokens/s", "812.4 tokens/s", 812.4),
        ("ms", "12.3", 0.0123), ("us", "1,000", 0.001), ("bytes", "12", 12),
        ("GiB", "54.53", 58551141663), ("GB", "8.00", 8_000_000_000), ("GiB", "1e30", None),
        ("text", "a\udcff", "a\\udcff"), ("text", "é", "é"),
    ],
)  # fmt: skip
def test_readers_are_strict(reader: str, text: str, value: object) -> None:
    assert READERS[reader](text) == value


def test_a_column_can_hold_it() -> None:
    assert as_int64(-(2**63)) == -(2**63)
    assert as_int64(2**63) is None


@pytest.mark.parametrize(
    ("text", "value", "whole"),
    [
        ("{'a': 1, 'b': [True, None, 2.5]}", {"a": 1, "b": [True, None, 2.5]}, True),
        ('{"a": true, "b": null}', {"a": True, "b": None}, True),
        ("ServerArgs(x='a\\'b', y=-1, z=(1, 2))", {"x": "a'b", "y": -1, "z": [1, 2]}, True),
        ("Namespace(f=<function at 0x1>, g=torch.bfloat16, h='')", {"f": "<function at 0x1>", "g": "torch.bfloat16", "h": ""}, True),
        ("[]", [], True), ("{}", {}, True), ("3", 3, True), ("x", "x", True),
        ("{'a': 1, 'b': 16", {"a": 1}, False),  # 16 may be all that is left of 16384
        ("{'a': 1, 'b': 16,", {"a": 1, "b": 16}, False),
        ("{'a': 1, 'b': Tru", {"a": 1}, False),
        ("{'a': 1, 'b': 'text", {"a": 1}, False),
        ("{'a': 1, 'b': <obj", {"a": 1}, False),
        ("{'a': 1, 'b': {'c': 2, 'd'", {"a": 1, "b": {"c": 2}}, False),
        ("{'a': [1, 2", {"a": [1]}, False),
        ("", None, False), ("{'a'", {}, False),
        ("{'n': " + "9" * 5000 + "}", {"n": "9" * 5000}, True),
        ("{'n': inf}", {"n": None}, True),
    ],
)  # fmt: skip
def test_literals_as_far_as_they_go(text: str, value: object, whole: bool) -> None:
    assert read_repr(text) == (value, whole)


def test_a_cut_anywhere_never_gives_another_value() -> None:
    text = "ServerArgs(model_path='m/x', tp_size=16, ratio=0.25, on=True, none=None, deep={'k': [10, 20], 's': 'a, b'}, last=131072)"
    whole, _ = read_repr(text)
    for end in range(len(text)):
        part, complete = read_repr(text[:end])
        assert not complete or end == 0 or "(" not in text[:end]
        for key, value in part.items() if isinstance(part, dict) else ():
            assert value == whole[key] or (key == "deep" and _within(value, whole[key]))


def _within(part: object, whole: object) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(v == whole[k] or _within(v, whole[k]) for k, v in part.items())
    if isinstance(part, list) and isinstance(whole, (list, dict)):
        return part == list(whole)[: len(part)]
    return part == whole


def test_depth_is_bounded() -> None:
    assert read_repr("[" * 5000)[1] is False


@pytest.mark.parametrize(("less", "more"), [("0.4.6.post5", "0.4.9"), ("0.5.9", "0.5.12"), ("0.4.1", "0.4.1.post7"), ("0.8.5", "0.11.2")])
def test_versions_are_numbers(less: str, more: str) -> None:
    assert version_key(less) < version_key(more)
    assert version_key("0.33.0+cu128") == (0, 33, 0)


def test_a_range_narrows_and_a_statement_wins() -> None:
    known = VersionRange()
    assert known.bounds() == (None, None, None)
    known.narrow("0.5.5", "")
    known.narrow("0.4.6", "0.5.7")
    assert known.bounds() == ("0.5.5", "0.5.7", "inferred")
    known.state("0.5.6")
    assert known.bounds() == ("0.5.6", "0.5.6", "stated")
    known.state("0.5.7")
    assert known.conflict


def test_lines_of_two_versions_infer_nothing() -> None:
    known = VersionRange()
    known.narrow("0.5.9", "")
    known.narrow("", "0.5.3")
    assert known.conflict
    assert known.bounds() == (None, None, None)
