"""The schema of the JSON: a valid one, with words for every field, and every sample's diagnosis fits it."""

from __future__ import annotations

import copy
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from analyzer import diagnose, ingest, open_trace
from analyzer.diagnosis.model import SCHEMA_VERSION
from analyzer.diagnosis.schema import MEANING, classes, schema
from analyzer.docs import SCHEMA_FILE, pages

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(p for p in (ROOT / "sample_traces").iterdir() if (p / "expected.json").is_file())
VALIDATOR = Draft202012Validator(schema())


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())
    assert json.loads((ROOT / "docs" / SCHEMA_FILE).read_text(encoding="utf-8")) == schema(), "run: make docs"


def test_every_field_has_words() -> None:
    assert {cls.__name__: {f.name for f in fields(cls)} for cls in classes()} == {name: set(words) for name, words in MEANING.items()}
    page = pages()["json.md"]
    for words in MEANING.values():
        assert all(text.endswith(".") and f"| {text} |" in page for text in words.values())
    assert f"Version {SCHEMA_VERSION}:" in page


def _document(sample: Path, trace: Path) -> dict[str, Any]:
    ingest([str(p) for p in sample.iterdir() if p.name not in ("expected.json", "README.md")], trace)
    with open_trace(trace) as opened:
        found = json.loads(json.dumps(diagnose(opened).to_dict(), allow_nan=False))
    assert isinstance(found, dict)
    return found


# One of each engine with all inputs, a crash, two processes and a recording; the others have no field that these lack.
EVERY_DAY = ("l1_bound_sglang", "crash_vllm", "restart_sglang", "recorded_l1_bound")


@pytest.mark.parametrize("sample", [pytest.param(p, id=p.name, marks=[] if p.name in EVERY_DAY else pytest.mark.thorough) for p in SAMPLES])
def test_every_sample_fits(sample: Path, tmp_path: Path) -> None:
    VALIDATOR.validate(_document(sample, tmp_path / "t.kvtrace"))


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return _document(ROOT / "sample_traces" / "cap_bound_vllm", tmp_path_factory.mktemp("schema") / "t.kvtrace")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 1),
        (("verdict", "cause"), "weather"),
        (("verdict", "advice"), "Add a replica."),
        (("verdict", "confidence"), None),
        (("window", "start"), "2026-11-30 07:08:09"),
        (("peaks", "running"), "8"),
        (("checklist", 0, "answer"), "maybe"),
        (("instances", 0, "weather"), "wet"),
    ],
)
def test_what_does_not_fit_is_found(document: dict[str, Any], path: tuple[Any, ...], value: object) -> None:
    VALIDATOR.validate(document)
    broken = copy.deepcopy(document)
    part = broken
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(ValidationError):
        VALIDATOR.validate(broken)


def test_a_missing_field_is_found(document: dict[str, Any]) -> None:
    broken = copy.deepcopy(document)
    del broken["verdict"]["leave_alone"]
    with pytest.raises(ValidationError):
        VALIDATOR.validate(broken)
