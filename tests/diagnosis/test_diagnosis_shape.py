"""The diagnosis as data: its JSON form, the fourteen questions, their evidence and their thresholds."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from diagnosing import diagnosis_of
from hard_cases import decode, prefill, retract, sg, sg_start, stats, vl, vl_start

from analyzer.diagnosis.model import SCHEMA_VERSION, Answer, Cause, Confidence
from analyzer.diagnosis.questions import questions
from analyzer.diagnosis.thresholds import thresholds

PACKAGE = Path(__file__).resolve().parents[2] / "analyzer" / "diagnosis"
IDS = [
    "ttft_broke", "ttft_split", "l1_full", "queue_on_l1", "queue_on_cap", "retracted", "demand_over_ceiling", "l2_bottleneck",
    "cache_stopped_helping", "prefill_bottleneck", "load_skewed", "pd_queues", "outside_scheduler", "config_asked_for_it",
]  # fmt: skip
PEAKS = {"running", "waiting", "kv_usage", "retraction_events", "retracted_requests", "preemptions", "notes"}
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def _full(queue: int = 20) -> str:
    return "".join(decode(t, 20, 0.97, queue, 400) + prefill(t + 1, 1, 300, 0.96, 19, queue, cached=40 + t % 3) for t in range(0, 120, 3))


CASES: dict[str, str | dict[str, str]] = {
    "l1_bound": sg_start(-80) + _full() + retract(121),
    "none": vl_start(-80) + "".join(stats(t, 4, 0, 0.1) for t in range(0, 60, 10)),
    "cap_bound": vl_start(-80, cap=4) + "".join(stats(t, 4, 20, 0.1) for t in range(0, 100, 10)),
    "crash": sg_start(-80) + _full(0) + sg(125, "Scheduler hit an exception: Traceback (most recent call last):"),
    "insufficient_data": vl(0, "Available routes are:", file="launcher.py"),
    "two": {"a/s.log": sg_start(-80) + _full(), "b/s.log": vl_start(-80) + "".join(stats(t, 4, 0, 0.1) for t in range(0, 60, 10))},
    "an 'odd' name": {"an 'odd' name/s.log": sg_start(-80) + _full()},
}


@pytest.fixture(scope="module", params=CASES)
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    found = json.loads(json.dumps(diagnosis_of(CASES[request.param]).to_dict(), allow_nan=False))
    assert isinstance(found, dict)
    return found


def test_questions_are_complete_and_in_order() -> None:
    assert list(questions()) == IDS
    for number, question in enumerate(questions().values(), 1):
        assert question.number == number
        assert re.fullmatch(rf"q{number:02d}_\w+", question.view)
        assert question.title.endswith("?")
        assert len(question.why) > 100
        assert question.advice.endswith(".")
        for flags in question.signals.values():
            assert set(flags) >= {"sglang", "vllm"}
            assert all(flags.values())


def test_every_threshold_is_documented_and_used() -> None:
    entries = tomllib.loads((PACKAGE / "thresholds.toml").read_text(encoding="utf-8"))
    sources = "".join(p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py"))
    sources += "".join(p.read_text(encoding="utf-8") for p in (PACKAGE.parents[1] / "sql").rglob("*.sql"))
    for name, entry in entries.items():
        assert set(entry) == {"value", "unit", "doc"}, name
        assert len(entry["doc"]) > 5, name
        assert f"'{name}'" in sources or f'"{name}"' in sources, f"{name} is used by nothing"
    assert set(thresholds()) == set(entries)


def test_top_level(document: dict[str, Any]) -> None:
    assert next(iter(document)) == "schema_version"
    assert document["schema_version"] == SCHEMA_VERSION
    assert set(document) == {
        "schema_version", "tool_version", "trace", "verdict", "findings", "window", "peaks", "checklist", "instances", "facts", "sources",
        "notes", "warnings", "cut", "thresholds",
    }  # fmt: skip
    assert document["verdict"] == document["findings"][0]
    _check(document)
    for instance in document["instances"]:
        assert {"instance", "engine", "versions", "runs"} <= set(instance)
        _check(instance)
        assert all(f["instance"] == instance["instance"] for f in instance["findings"])
    if document["instances"]:
        worst = document["instances"][0]
        for key in ("verdict", "window", "peaks", "checklist"):
            assert document[key] == worst[key], key
        assert sum(len(i["findings"]) for i in document["instances"]) == len(document["findings"])


def _check(part: dict[str, Any]) -> None:
    assert set(part["peaks"]) == PEAKS
    assert set(part["window"]) == {"start", "end"}
    assert part["verdict"] == part["findings"][0]
    for finding in part["findings"]:
        assert finding["cause"] in get_args(Cause)
        assert finding["confidence"] in get_args(Confidence)
        assert finding["sentence"].endswith(".")
        assert " None" not in finding["sentence"]
        assert "nan" not in finding["sentence"].split()
        assert set(finding["rests_on"]) <= set(IDS)
        assert finding["advice"]
        for advice in finding["advice"]:
            assert advice["action"].endswith(".")
            assert " None" not in advice["action"] + advice["moves"] + advice["cost"]
            assert "{" not in advice["action"] + advice["moves"] + advice["cost"]
        assert all(sentence.endswith(".") for sentence in finding["leave_alone"])
        for moment in finding["window"].values():
            assert moment is None or MOMENT.fullmatch(moment)
    for name, value in part["peaks"].items():
        if name != "notes" and value is None and part["checklist"]:
            assert part["peaks"]["notes"].get(name), f"{name} is null without a reason"
    if part["checklist"]:
        assert [a["id"] for a in part["checklist"]] == IDS
    for answer in part["checklist"]:
        _check_answer(answer)


def _check_answer(answer: dict[str, Any]) -> None:
    assert answer["answer"] in get_args(Answer)
    assert answer["sentence"]
    assert " None" not in answer["sentence"]
    if answer["answer"] == "cannot_tell":
        assert answer["missing"], answer["id"]
    for missing in answer["missing"]:
        assert missing["signal"]
        assert missing["flag"]
    for evidence in answer["evidence"]:
        assert evidence["name"]
        for key in ("start", "end"):
            assert evidence[key] is None or MOMENT.fullmatch(evidence[key])
        assert not evidence["source"] or re.search(r":\d+$", evidence["source"])


@pytest.mark.parametrize("case", ["l1_bound", "two", "an 'odd' name"])
def test_every_answers_sql_gives_its_row(case: str) -> None:
    first = diagnosis_of(CASES[case])
    sql: dict[str, Any] = {f"{i.instance} {a.id}": a.sql for i in first.instances for a in i.checklist}
    assert len(sql) == 14 * len(first.instances)
    diagnosis_of(CASES[case], queries=sql)
    assert all(len(rows) == 1 for rows in sql.values())


def test_a_source_leads_back_to_its_line() -> None:
    log = CASES["l1_bound"]
    assert isinstance(log, str)
    evidence = {e.name: e for a in diagnosis_of(log).checklist for e in a.evidence}
    lines = log.splitlines()

    def line(name: str) -> str:
        return lines[int(evidence[name].source.rsplit(":", 1)[1]) - 1]

    assert "max_total_num_tokens=100000" in line("capacity")
    assert "Retract" in line("retraction events")
    assert "token usage: 0.97" in line("KV usage, highest")
    assert "#queue-req: 20" in line("waiting, highest")


def test_a_green_instance_does_not_hide_another() -> None:
    assert diagnosis_of(CASES["two"]).verdict.cause == "l1_bound"
    unknown = {"a/s.log": str(CASES["none"]), "b/s.log": sg_start(-80)}
    found = diagnosis_of(unknown)
    assert found.verdict.cause == "insufficient_data"
    assert [i.verdict.cause for i in found.instances] == ["insufficient_data", "none"]


def test_an_uncovered_version_is_at_most_medium() -> None:
    log = vl_start(-80, cap=4, version="0.99.0") + "".join(stats(t, 4, 20, 0.1) for t in range(0, 100, 10))
    assert diagnosis_of(log).verdict.confidence == "medium"
    covered = vl_start(-80, cap=4, version="0.32.0") + "".join(stats(t, 4, 20, 0.1) for t in range(0, 100, 10))
    assert diagnosis_of(covered).verdict.confidence == "high"
