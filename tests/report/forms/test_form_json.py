"""The report's data as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from report_fakes import fleet, hostile, insufficient, l1_incident

from analyzer.diagnosis.model import Diagnosis
from analyzer.report.data import build_report
from analyzer.report.forms.data_json import SCHEMA_VERSION, render_json
from analyzer.report.model import ReportData

Fake = Callable[[], tuple[duckdb.DuckDBPyConnection, Diagnosis]]
DOC = Path(__file__).resolve().parents[3] / "docs" / "report-forms.md"


def at(document: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        document = document[int(key) if isinstance(document, list) else key.replace("~1", "/").replace("~0", "~")]
    return document


@pytest.mark.parametrize("fake", [l1_incident, insufficient, fleet, hostile])
def test_it_is_strict_json_in_ascii_and_the_same_each_time(fake: Fake) -> None:
    text = render_json(build_report(*fake()))
    text.encode("ascii")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    document = json.loads(text, parse_constant=refuse)
    assert next(iter(document)) == "schema_version"
    assert document["schema_version"] == SCHEMA_VERSION
    assert text == render_json(build_report(*fake()))


def test_it_has_the_charts_points_and_the_questions_sentences() -> None:
    report = build_report(*l1_incident())
    document = json.loads(render_json(report))
    timeline = report.instances.rows[0].timeline
    assert timeline is not None
    panel = document["instances"]["rows"][0]["timeline"]["panels"][0]
    assert panel["series"][0]["segments"][0]["points"][0] == list(timeline.panels[0].series[0].segments[0].points[0])
    assert document["verdict"]["window"]["start"] == "2026-11-30T07:05:00Z"
    questions = document["instances"]["rows"][0]["questions"]
    assert [q["sentence"] for q in questions] == [q.sentence for q in report.instances.rows[0].questions]


def test_what_is_not_finite_is_null_and_says_what_it_was() -> None:
    report = build_report(*l1_incident())
    severity = replace(report.verdict.severity, ttft_p99_peak_s=math.inf, duration_s=math.nan)
    document = json.loads(render_json(replace(report, verdict=replace(report.verdict, severity=severity))))
    told = {entry["at"]: entry["was"] for entry in document["not_finite"]}
    assert told["/verdict/severity/ttft_p99_peak_s"] == "infinity"
    assert told["/verdict/severity/duration_s"] == "not a number"
    assert all(at(document, pointer) is None for pointer in told)


def test_every_field_of_the_report_is_in_the_documentation() -> None:
    text = DOC.read_text(encoding="utf-8")
    names = {f.name for f in fields(ReportData)} - {"schema_version"} | {"schema_version", "diagnosis_schema_version", "not_finite"}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []
