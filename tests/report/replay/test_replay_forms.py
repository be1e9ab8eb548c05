"""The section in Markdown and JSON, and when a report has one at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from markdown_it import MarkdownIt
from replay_fakes import L1_TOKENS, goal, study, vllm_study
from report_fakes import HOSTILE, connection, diagnosis, finding, insert, instance, l1_incident

from analyzer.diagnosis.model import Cause, Diagnosis
from analyzer.errors import KvpmError
from analyzer.replay.case.configured import Configured
from analyzer.replay.model import Case, NoReplay, Study
from analyzer.replay.settings import L2, Sglang
from analyzer.replay.study import Asked
from analyzer.report.data import build_report
from analyzer.report.forms.data_json import render_json
from analyzer.report.forms.markdown import render_markdown
from analyzer.report.model import ReportData
from analyzer.report.render import render_html
from analyzer.report.replay.data import Told
from analyzer.report.replay.make import replay_of
from analyzer.report.replay.model import Failed, LeftOut
from analyzer.trace.reader import Trace


def report(told: Told | None) -> ReportData:
    with patch("analyzer.report.data.build_explore", return_value=None):
        return build_report(*l1_incident(), replay=told, inputs=("incident.kvtrace",))


def test_markdown_has_the_sentence_the_rows_and_the_fit() -> None:
    told = render_markdown(report(study(goals=(goal(),))))
    part = told[told.index("## What would have helped") : told.index("## Checklist")]
    assert "Trust: good." in part
    html = MarkdownIt("commonmark").enable("table").render(part)
    assert html.count("<table>") == 2
    assert "1 more are in the HTML report." in part
    assert "| TTFT P99 | 40.2 s | 38.9 s | 3.2 % | yes |".replace(" s", "\u00a0s").replace(" %", "\u00a0%") in part
    assert "Twice the L1 is the least." in part
    assert "`kvpm replay incident.kvtrace`" in part


def test_markdown_without_trust_says_so_first() -> None:
    part = render_markdown(report(study("low"))).partition("## What would have helped")[2]
    assert part.strip().startswith("**The replay is not to be relied on")
    assert "No row is trusted: the unchanged replay does not fit" in part
    assert part.partition("## Checklist")[0].count("Not trusted") == 12


@pytest.mark.parametrize(
    "told", [NoReplay(HOSTILE, HOSTILE, HOSTILE), replace(study(), skipped=(), goals=(replace(goal(), said=HOSTILE),))]
)
def test_markdown_keeps_hostile_text_text(told: Told) -> None:
    part = render_markdown(report(told))
    assert "<img" not in part
    assert "<img" not in MarkdownIt("commonmark", {"html": True}).render(part)


def test_all_forms_write_the_same_numbers() -> None:
    told = report(study())
    html = re.sub(r"<[^>]*>", " ", render_html(told))
    page, markdown = (" ".join(unescape(form).split()) for form in (html, render_markdown(told)))
    document = json.loads(render_json(told))["replay"]["study"]
    for row in document["rows"]["rows"]:
        written = [" ".join(value.split()) for value in (row["p99"], row["band"], row["against"]) if value]
        assert row["p99"]
        for value in written:
            assert value in page
            assert value in markdown
    for rung in (r for ladder in document["ladders"] for r in ladder["rungs"]):
        assert " ".join(rung["p99"].split()) in markdown
    for fit in document["fits"]:
        for value in (fit["observed"], fit["replayed"], fit["error"]):
            assert " ".join(value.split()) in page
            assert " ".join(value.split()) in markdown


def test_markdown_without_a_replay_says_nothing() -> None:
    assert "What would have helped" not in render_markdown(report(None))


def test_json_has_all_of_it_and_null_where_there_is_none() -> None:
    document = json.loads(render_json(report(study())))
    told = document["replay"]
    assert told["state"] == "studied"
    assert told["study"]["trust"] == "good"
    assert told["study"]["rows"]["total"] == 13
    endless = next(e for e in document["not_finite"] if e["at"].startswith("/replay/study/ladders/0/rungs/0/p99_s"))
    assert endless["was"] == "infinity"
    assert json.loads(render_json(report(None)))["replay"] is None


def traced(requests: int, reports: int, *, tokens: int = 50) -> Trace:
    """A trace of so many recorded requests, each with a prompt of `tokens` and 50 that are made, and reports of the scheduler."""
    con = connection()
    if requests:
        insert(con, "request_best", [{"instance": "pod-a", "prompt_tokens": tokens, "output_tokens": 50} for _ in range(requests)])
    con.execute("INSERT INTO scheduler (instance, new_tokens) SELECT 'pod-a', 100 FROM range(?)", [reports])
    made: Any = SimpleNamespace(con=con)
    return cast("Trace", made)


SMALL = traced(1, 10)


def asked_of(cause: Cause = "l1_bound") -> Diagnosis:
    return diagnosis(instance(cause=cause, verdict=finding(cause, instance="pod-a")))


@contextmanager
def found(case: Case | NoReplay) -> Iterator[list[Asked]]:
    """`case` stands for what the trace holds; tells what was asked of it."""
    studied: list[Asked] = []

    def study_case(case: Case, asked: Asked, *, jobs: int | None, told: object) -> Study:
        studied.append(asked)
        return study()

    with patch("analyzer.replay.case.build.case_of", return_value=case), patch("analyzer.replay.study.study_case", study_case):
        yield studied


def test_a_small_incident_is_replayed_unasked_with_what_settles_it() -> None:
    with found(study().case) as studied:
        told = replay_of(SMALL, asked_of())
    assert isinstance(told, Study)
    assert "kvpm replay" in told.skipped[-1]
    tried = [",".join(c.text for c in changes) for changes in studied[0].changes]
    assert tried == [
        "l1_tokens=x0.75", "l1_tokens=x1.25", "l1_tokens=x1.5", "l1_tokens=x2",
        "l2_tokens=x0", "l2_tokens=x2", "max_running=x2", "arrival_rate=x0.75",
    ]  # fmt: skip
    assert not studied[0].grid


def test_where_there_is_no_l2_one_is_tried() -> None:
    with found(vllm_study().case) as studied:
        replay_of(SMALL, asked_of())
    assert [c.text for (c,) in studied[0].changes if c.knob == "l2_tokens"] == ["l2_tokens=196608", "l2_tokens=393216"]


def test_asked_for_all_is_tried() -> None:
    with found(study().case) as studied:
        told = replay_of(SMALL, asked_of(), asked=True)
    assert studied == [Asked()]
    assert isinstance(told, Study)
    assert told.skipped == study().skipped


def test_nothing_is_replayed_against_the_readers_will_or_where_nothing_broke() -> None:
    with found(study().case) as studied:
        assert replay_of(SMALL, asked_of(), asked=False) is None
        assert replay_of(SMALL, asked_of("none")) is None
        assert studied == []
        assert isinstance(replay_of(SMALL, asked_of("none"), asked=True), Study)


def test_what_cannot_be_replayed_says_so() -> None:
    none = NoReplay("pod-a", "no request was recorded")
    with found(none) as studied:
        assert replay_of(SMALL, asked_of(), asked=True) is none
    assert studied == []


@pytest.mark.parametrize(
    ("requests", "reports", "tokens", "block_tokens", "large"),
    [
        (5_700, 5, 50, None, True),
        (5_500, 50_000, 50, None, False),
        (0, 6_100, 50, None, True),
        (0, 6_000, 50, None, False),
        (300, 5, 3_000, 16, False),
        (300, 5, 3_000, 1, True),
        (0, 5_000, 50, 1, True),
        (0, 5_000, 50, 16, False),
    ],
)
def test_a_large_one_is_left_out_unless_it_is_asked_for(
    requests: int, reports: int, tokens: int, block_tokens: int | None, large: bool
) -> None:
    given = traced(requests, reports, tokens=tokens)
    settings = Sglang(L1_TOKENS, 64, l2=L2(400_000, 2e5, block_tokens) if block_tokens else None)
    known = Configured("sglang", "0.5.6", settings, (), ())
    with (
        found(study().case) as studied,
        patch("analyzer.replay.case.configured.configured", return_value=known),
        patch("analyzer.replay.case.facts.run_to_replay", return_value="r1"),
    ):
        unasked = replay_of(given, asked_of())
        assert (unasked == LeftOut("pod-a", requests, 50 * requests)) == large
        assert len(studied) == (not large)
        assert isinstance(replay_of(given, asked_of(), asked=True), Study)


def longer(case: Case, times: int) -> Case:
    """The case with so many times the requests."""
    return replace(case, workload=replace(case.workload, requests=case.workload.requests * times))


def test_what_turns_out_to_be_large_is_left_out_as_well() -> None:
    with found(longer(study().case, 300)) as studied:
        assert replay_of(SMALL, asked_of()) == LeftOut("pod-a", 6_000, 600_000)
        assert studied == []
        assert isinstance(replay_of(SMALL, asked_of(), asked=True), Study)


@pytest.mark.parametrize(("prompt", "tried"), [(1_000, 2), (100_000, 0)])
def test_an_l2_that_is_not_there_is_tried_where_that_is_quick(prompt: int, tried: int) -> None:
    case = study(settings=Sglang(L1_TOKENS, 64)).case
    requests = tuple(replace(r, prompt_tokens=prompt) for r in case.workload.requests * 5)
    with found(replace(case, workload=replace(case.workload, requests=requests))) as studied:
        told = replay_of(SMALL, asked_of())
    assert isinstance(told, Study)
    assert [c.knob for (c,) in studied[0].changes].count("l2_tokens") == tried
    assert any("an L2 where there is none" in s for s in told.skipped) == (not tried)


@pytest.mark.parametrize(
    ("cause", "more"),
    [
        ("l1_bound", set()),
        ("reservation_bound", {"conservativeness=x0.5"}),
        ("prefill_bound", {"chunked_prefill_tokens=x2"}),
    ],
)
def test_what_the_verdict_points_at_is_tried_too(cause: Cause, more: set[str]) -> None:
    case = study(settings=Sglang(L1_TOKENS, 64, chunked_prefill_tokens=2_048, l2=L2(400_000, 2e5, 64))).case
    with found(case) as studied:
        replay_of(SMALL, asked_of(cause))
    tried = {c.text for (c,) in studied[0].changes}
    assert tried & {"conservativeness=x0.5", "chunked_prefill_tokens=x2"} == more


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KvpmError("the engine has no such knob"), "the engine has no such knob"),
        (ZeroDivisionError("by zero\nand more"), "ZeroDivisionError: by zero"),
    ],
)
def test_a_replay_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str) -> None:
    monkeypatch.delenv("KVPM_DEBUG", raising=False)
    with found(study().case), patch("analyzer.replay.study.study_case", side_effect=error):
        assert replay_of(SMALL, asked_of()) == Failed("pod-a", reason)
    with patch("analyzer.replay.case.build.case_of", side_effect=error):
        assert replay_of(SMALL, asked_of()) == Failed("pod-a", reason)


def test_a_developer_sees_where_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVPM_DEBUG", "1")
    with patch("analyzer.replay.case.build.case_of", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
        replay_of(SMALL, asked_of())


def test_every_field_is_in_the_documentation() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "report-forms.md").read_text(encoding="utf-8")
    told = json.loads(render_json(report(study())))["replay"]
    names = {*told, *told["study"]} - {"instance"}
    assert [n for n in sorted(names) if f"`{n}`" not in text] == []
