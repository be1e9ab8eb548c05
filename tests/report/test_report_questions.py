"""The walk through the checklist: each question's chart, its moment, how to read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_fakes import add_bucket, answered, at, connection, diagnosis, finding, insert, instance

from analyzer import diagnose, ingest, open_trace
from analyzer.diagnosis.model import Evidence, Window
from analyzer.report.data import build_report
from analyzer.report.model import QuestionView, ReportData
from analyzer.report.parts import render_parts
from analyzer.report.render import render_html

SAMPLES = Path(__file__).parents[2] / "sample_traces"
Walk = dict[str, dict[int, QuestionView]]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """The questions of some samples, by number."""
    found = {}
    for name in ("l1_bound_sglang", "cap_bound_sglang", "dp_sglang", "prefill_bound_vllm/server.log", "recorded_l1_bound"):
        path = tmp_path_factory.mktemp("walk") / "t.kvtrace"
        ingest([str(SAMPLES / name)], path)
        with open_trace(path) as trace:
            report = build_report(trace.con, diagnose(trace))
        found[name] = {q.number: q for q in report.instances.rows[0].questions}
    return found


def keys(question: QuestionView) -> list[str]:
    assert question.chart is not None
    return [p.key for p in question.chart.panels] + [lane.key for lane in question.chart.lanes]


def test_each_question_shows_what_it_is_read_from(walk: Walk) -> None:
    l1 = walk["l1_bound_sglang"]
    assert keys(l1[1]) == ["ttft"]
    assert keys(l1[3]) == ["kv"]
    assert keys(l1[4]) == ["requests", "kv"]
    assert keys(l1[6]) == ["ratio", "retracted"]
    assert keys(l1[7]) == ["demand"]
    assert keys(l1[9]) == ["hit"]
    assert l1[12].chart is None  # nothing was disaggregated
    assert l1[14].chart is None


def test_a_chart_says_where_its_numbers_were_read(walk: Walk) -> None:
    chart = walk["recorded_l1_bound"][4].chart
    assert chart is not None
    assert "Read from the metrics" in chart.panels[0].note


def test_the_cap_is_a_line_on_the_running_requests(walk: Walk) -> None:
    chart = walk["cap_bound_sglang"][5].chart
    assert chart is not None
    assert [(level.value, level.label) for level in chart.panels[0].levels] == [(8.0, "the cap: 8 running")]


def test_demand_is_read_against_what_the_pool_takes(walk: Walk) -> None:
    chart = walk["l1_bound_sglang"][7].chart
    assert chart is not None
    (panel,) = chart.panels
    (level,) = panel.levels
    assert level.label.startswith("the pool takes about")
    assert (panel.series[0].peak or 0) > level.value


def test_the_fullest_rank_is_drawn_against_the_emptiest(walk: Walk) -> None:
    chart = walk["dp_sglang"][11].chart
    assert chart is not None
    usage, waiting = chart.panels
    assert [s.name.split(":")[0] for s in usage.series] == ["fullest rank", "emptiest rank"]
    assert all(s.peak for s in usage.series)
    assert waiting.series[0].name.startswith("longest queue: dp")


def test_the_parts_of_ttft_add_up_to_the_bar(walk: Walk) -> None:
    parts = walk["recorded_l1_bound"][2].parts
    assert parts is not None
    assert [p.style for p in parts.parts] == ["queue", "prefill", "rest"]
    mean = next(e.value for e in walk["recorded_l1_bound"][2].evidence.rows if e.name == "TTFT, mean")
    assert mean == f"{parts.total:.1f}\u00a0s"
    assert str(render_parts(parts)).count("<rect") == 3


def test_ttft_that_is_not_known_as_a_whole_has_no_bar(walk: Walk) -> None:
    assert walk["prefill_bound_vllm/server.log"][2].parts is None


def test_every_question_says_how_it_is_read(walk: Walk) -> None:
    assert all(q.read for q in walk["l1_bound_sglang"].values())


def one_question(**values: object) -> ReportData:
    con = connection()
    add_bucket(con, 0, waiting=1)
    checklist = (answered(1, **values),)  # type: ignore[arg-type]
    window = Window(at(300), at(360))
    return build_report(con, diagnosis(instance(verdict=finding(instance="pod-a"), window=window, checklist=checklist)))


def test_an_answer_leads_to_its_moment_and_else_to_the_incident() -> None:
    own = Evidence("peak", 3, "requests", at(310), at(310))
    (question,) = one_question(answer="yes", evidence=(Evidence("none", 1), own)).instances.rows[0].questions
    assert question.moment == Window(at(310), at(310))
    (question,) = one_question(answer="partly").instances.rows[0].questions
    assert question.moment == Window(at(300), at(360))
    (question,) = one_question(answer="no").instances.rows[0].questions
    assert question.moment == Window(None, None)


def test_the_link_to_a_moment_carries_its_time_and_works_without_scripts() -> None:
    html = render_html(one_question(answer="yes"))
    start, end = (round(at(s).timestamp() * 1000) for s in (300, 360))
    assert f'<a class="moment" href="#i1-timeline" data-instance="i1" data-from="{start}" data-to="{end}">' in html
    assert 'id="i1-timeline"' in html


def test_evidence_that_nothing_told_is_named_and_takes_no_row() -> None:
    report = one_question(answer="yes", evidence=(Evidence("usage", 0.5, "share"), Evidence("mamba pool", None, "share")))
    (question,) = report.instances.rows[0].questions
    assert [e.name for e in question.evidence.rows] == ["usage"]
    assert question.unreported == ("mamba pool",)
    assert "Not reported: mamba pool." in render_html(report)


def test_a_gauge_that_was_not_told_for_long_leaves_a_gap() -> None:
    con = connection()
    for second in (0, 10, 200, 210):
        add_bucket(con, second, waiting=1)
    reports = [{"instance": "pod-a", "run_id": "r1", "ts": at(s), "cached_tokens": 1, "new_tokens": 3} for s in (0, 10, 200, 210)]
    insert(con, "_report", reports)
    lead = build_report(con, diagnosis(instance(checklist=(answered(9, "yes", id="cache_stopped_helping"),)))).instances.rows[0]
    chart = lead.questions[0].chart
    assert chart is not None
    (series,) = chart.panels[0].series
    start = at(0).timestamp()
    assert [(s.points[0][0] - start, s.end - start) for s in series.segments] == [(0.0, 40.0), (200.0, 220.0)]
    assert series.peak == 0.25
