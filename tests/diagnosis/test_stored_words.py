"""Texts that a trace holds are said in the language of the moment: none that a reader can write is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer import language
from analyzer.diagnosis import stored_words
from analyzer.diagnosis.stored_words import BECAUSE, ENDS, NOTES, NOTHING, stored, stored_reasons
from analyzer.formats.load import registry
from analyzer.parsers.metrics import long_table, result

ANALYZER = Path(stored_words.__file__).resolve().parents[1]
_LISTS = ("notes", "decisions")
_CALLS = {"_mark_cut": 0, "_name": 3, "_rename": 3}


def shape(template: str) -> str:
    """A template with its fields unnamed."""
    return re.sub(r"\{[^{}]*\}", "{}", template)


def written(folder: str) -> Iterator[str]:
    """Shapes of the literal texts that the code of a folder appends to notes, or gives as a reason."""
    for path in sorted((ANALYZER / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            place = _CALLS.get(called)
            if called == "append" and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value).endswith(_LISTS):
                place = 0
            if called == "result" and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "rows":
                place = 0
            if place is not None and len(node.args) > place:
                yield from shapes(node.args[place])


def shapes(node: ast.expr) -> Iterator[str]:
    """The shapes that an expression can have."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    elif isinstance(node, ast.IfExp):
        yield from shapes(node.body)
        yield from shapes(node.orelse)
    elif isinstance(node, ast.BinOp):
        yield from (f"{left}{{}}" for left in shapes(node.left))


def test_every_way_in_which_a_process_ends_is_known() -> None:
    texts = {f.text for f in registry().formats if f.set.get("kind") in ("crash", "oom")}
    assert texts == set(ENDS)


@pytest.mark.parametrize("folder", ["parsers", "sources", "trace"])
def test_every_note_and_reason_in_the_code_is_known(folder: str) -> None:
    known = {shape(t) for t in (*BECAUSE, *NOTHING, *NOTES)}
    # a pattern that --instance names is said as it was given, and one line puts a number before a text of a table
    found = set(written(folder)) - {"--instance {}", "{} {}"}
    assert found
    assert sorted(found - known) == []


def test_what_a_dump_holds_instead_is_known() -> None:
    assert {long_table._NO_TABLE, long_table._UNNAMED, result._MIXED} <= set(NOTHING)
    assert {result.NO_ZONE, result.CUT} <= set(NOTES)


def test_a_stored_text_keeps_its_numbers_in_another_language() -> None:
    text = "KV allocation failed: wanted 4096 tokens, 12 available"
    assert stored(text) == text
    with language.use("zh"):
        said = stored(text)
    assert said != text
    assert "4096" in said
    assert "12" in said


def test_a_text_that_is_not_known_stays_as_it_is() -> None:
    with language.use("zh"):
        assert stored("something {else} happened") == "something {else} happened"
        assert stored(None) == ""


def test_several_reasons_are_said_each() -> None:
    reasons = "folder of the source; two engines"
    assert stored_reasons(reasons) == reasons
    with language.use("zh"):
        said = stored_reasons(reasons)
    assert "folder" not in said
    assert "engines" not in said
