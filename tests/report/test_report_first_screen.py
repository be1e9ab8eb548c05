"""The first screen: the verdict's sentence, how bad it was, the three numbers and the picture."""

from __future__ import annotations

import math

import pytest
from report_fakes import add_bucket, add_question_1, answered, at, connection, diagnosis, finding, insert, instance, l1_incident

from analyzer.diagnosis.model import Cause, IncidentDiagnosis, Window
from analyzer.language import use
from analyzer.report import fmt
from analyzer.report.data import build_report
from analyzer.report.model import KeyNumber, ReportData
from analyzer.report.render import render_html
from analyzer.report.severity import Severity, grade

NBSP = "\u00a0"


@pytest.mark.parametrize(
    ("text", "first", "rest"),
    [
        ("One thing. Another thing.", "One thing.", "Another thing."),
        ("Since 0.5.9 of server.log it was so. 9 more.", "Since 0.5.9 of server.log it was so.", "9 more."),
        ("It was full, i.e. no room. Then it was not.", "It was full, i.e. no room.", "Then it was not."),
        ("池已满。使用率 95.5 %。", "池已满。", "使用率 95.5 %。"),
        ("No end", "No end", ""),
        ("", "", ""),
    ],
)
def test_the_headline_is_the_first_sentence(text: str, first: str, rest: str) -> None:
    assert fmt.headline(text) == (first, rest)


@pytest.mark.parametrize(
    ("cause", "severity", "level"),
    [
        ("l1_bound", Severity(ttft_p99_peak_s=40.0, ttft_p99_before_s=2.0), "severe"),
        ("l1_bound", Severity(ttft_p99_peak_s=8.0, ttft_p99_before_s=2.0), "major"),
        ("l1_bound", Severity(ttft_p99_peak_s=4.0, ttft_p99_before_s=2.0), "minor"),
        ("l1_bound", Severity(ttft_p99_peak_s=12.0), "major"),
        ("l1_bound", Severity(wait_est_peak_s=66.0), "severe"),
        ("l1_bound", Severity(wait_est_peak_s=2.0), "minor"),
        ("l1_bound", Severity(ttft_never=3), "severe"),
        ("decode_bound", Severity(ttft_p99_peak_s=0.2, ttft_p99_before_s=0.01, token_times=4.0), "major"),
        ("hang", Severity(), "severe"),
        ("l1_bound", Severity(), "unknown"),
        ("crash", Severity(ttft_p99_peak_s=0.5, ttft_p99_before_s=0.5), "severe"),
    ],
)
def test_the_grade_follows_what_users_felt(cause: Cause, severity: Severity, level: str) -> None:
    assert grade(cause, "bad", severity).level == level


def test_what_is_not_known_is_never_graded_as_harmless() -> None:
    assert grade("insufficient_data", "grey", Severity()).tone == "grey"
    assert grade("l1_bound", "bad", Severity()).tone == "grey"
    assert grade("none", "good", Severity()).level == "none"


def test_the_grade_says_what_it_rests_on_and_that_the_truth_is_longer() -> None:
    assert grade("l1_bound", "bad", Severity(ttft_p99_peak_s=40.0, ttft_p99_before_s=2.0)).why == "P99 TTFT 20 times that of other times"
    longer = grade("l1_bound", "bad", Severity(ttft_p99_peak_s=40.0, ttft_p99_before_s=2.0, ttft_open=True))
    assert longer.why == "P99 TTFT more than 20 times that of other times"


def numbers(report: ReportData) -> dict[str, KeyNumber]:
    return {n.key: n for n in report.verdict.numbers}


def incident(**q01: object) -> ReportData:
    """Usual until 40 s, then ten seconds of trouble, then another one that is of no matter here."""
    con = connection()
    con.execute("SET VARIABLE full_usage = 0.9")
    for n in range(4):
        add_bucket(con, 10 * n, waiting=0, running=1, kv_usage=0.1)
    states = {"l1_used_tokens": 97, "l1_evictable_tokens": 2, "l1_available_tokens": 1}
    add_bucket(con, 40, waiting=90, running=30, kv_usage=0.97, **states)
    add_bucket(con, 60, waiting=300, running=77, kv_usage=1.0)
    add_question_1(con, start_ts=at(40), end_ts=at(50), **q01)
    full = answered(3, "yes", id="l1_full")
    return build_report(con, diagnosis(instance(window=Window(at(40), at(49)), checklist=(full,))))


EXACT = {"observer": "client", "inside_n": 200, "ttft_p99_inside_s": 41.0, "ttft_p99_outside_s": 2.0}


def test_the_three_numbers_are_of_the_incident() -> None:
    found = numbers(incident(**EXACT))
    assert (found["ttft"].before, found["ttft"].value) == (f"2{NBSP}s", f"41{NBSP}s")
    assert found["ttft"].detail == "at other times, and in the incident; from client records"
    assert (found["waiting"].value, found["waiting"].detail) == ("90", "in the incident, up to 30 running")
    assert found["l1"].value == "full"
    assert found["l1"].detail == f"at its fullest 97{NBSP}% used, 2{NBSP}% evictable, 1{NBSP}% empty, in the incident"


def test_a_p99_among_requests_without_a_first_token_is_the_least_it_can_be() -> None:
    report = incident(**EXACT | {"ttft_p99_inside_s": math.inf, "ttft_p99_at_least_s": 45.0})
    assert numbers(report)["ttft"].value == f"over 45{NBSP}s"
    assert report.verdict.grade.why.startswith("P99 TTFT more than 22")


def lost_requests(cause: Cause, refused: int) -> ReportData:
    """A process that is gone from 40 s on, ready again at 90 s; requests that are refused every second from 41 s on."""
    con = connection()
    add_bucket(con, 0, waiting=0, running=1)
    add_question_1(con, **EXACT)
    rows = [{"arrival_ts": at(41 + n), "finish_ts": at(41 + n), "status": "error", "censored": False} for n in range(refused)]
    rows.append({"arrival_ts": at(100), "ttft_s": 0.5, "status": "finished", "censored": False})
    rows.append({"arrival_ts": at(150), "finish_ts": at(151), "status": "error", "censored": False})
    insert(con, "request_best", [{"instance": "pod-a", **row} for row in rows])
    return build_report(con, diagnosis(instance(cause=cause, window=Window(at(40), at(42)))))


def test_of_a_lost_process_counts_who_got_nothing_until_somebody_was_served_again() -> None:
    report = lost_requests("restart", 30)
    number = numbers(report)["ttft"]
    assert (number.value, number.before) == ("", "")
    assert number.detail == "30 requests never got a first token, TTFT of those that were served says nothing about them"
    assert report.verdict.severity.served_again_s == 60.5
    assert report.verdict.grade.why == "the process itself was lost, 30 requests never got a first token"
    assert "after the process was lost" in render_html(report)


def test_requests_that_failed_in_a_queue_are_among_the_slowest() -> None:
    assert lost_requests("l1_bound", 30).verdict.severity.ttft_never == 2  # those in flight in the window
    con = connection()
    add_bucket(con, 0, waiting=1)
    add_question_1(con, start_ts=at(0), end_ts=at(60), **EXACT)
    rows = [{"instance": "pod-a", "arrival_ts": at(n), "finish_ts": at(n + 30), "status": "error", "censored": False} for n in range(20)]
    insert(con, "request_best", rows)
    report = build_report(con, diagnosis(instance(window=Window(at(0), at(60)))))
    assert numbers(report)["ttft"].value == f"over 41{NBSP}s"
    assert numbers(report)["ttft"].detail.endswith("20 requests never got a first token")


def test_a_number_that_nothing_told_has_no_value_and_says_so() -> None:
    con = connection()
    add_bucket(con, 0)
    add_question_1(con, wait_est_peak_s=66.0)
    d = diagnosis(instance(window=Window(at(0), at(10)), checklist=(answered(3, "cannot_tell", id="l1_full"),)))
    found = numbers(build_report(con, d))
    assert [n.value for n in found.values()] == ["", "", ""]
    assert found["ttft"].detail == f"not recorded; the wait in the queue was an estimated 1{NBSP}min{NBSP}6{NBSP}s at worst"
    assert found["waiting"].detail == "not reported"
    assert found["l1"].detail == "cannot tell"
    html = render_html(build_report(con, d))
    assert html.count('class="key unknown"') == 3


def test_a_few_reports_with_room_in_the_pool_are_no_all_clear() -> None:
    con = connection()
    con.execute("SET VARIABLE full_usage = 0.9")
    add_bucket(con, 0, waiting=0, kv_usage=0.0)
    d = diagnosis(instance(cause="insufficient_data", checklist=(answered(3, "no", id="l1_full"),)))
    assert numbers(build_report(con, d))["l1"].value == ""


def test_slow_first_tokens_have_a_grade_where_the_cause_cannot_be_told() -> None:
    assert grade("insufficient_data", "grey", Severity(ttft_p99_peak_s=45.0, ttft_p99_before_s=2.0)).level == "severe"
    assert grade("insufficient_data", "grey", Severity(ttft_p99_peak_s=45.0, whole_capture=True)).level == "unknown"


def test_the_picture_has_ttft_load_l1_and_retractions_on_one_axis_with_the_incident() -> None:
    lead = build_report(*l1_incident()).instances.rows[0]
    assert lead.story is not None
    assert [p.key for p in lead.story.panels] == ["ttft", "requests", "kv"]
    assert {"retracted", "failure"} <= {lane.key for lane in lead.story.lanes}
    assert lead.story.axis.shade is not None
    kv = lead.story.panels[2]
    assert [s.style for s in kv.series] == ["used", "evictable", "available", "usage", "l2"]
    assert [level.value for level in kv.levels] == [1.0]


def test_the_capacity_line_names_the_pool_and_two_pools_of_two_runs() -> None:
    con = connection()
    add_bucket(con, 0, kv_usage=0.5, l1_capacity_tokens=1000)
    assert capacity(con) == f"L1 capacity: 1,000{NBSP}tokens"
    add_bucket(con, 10, kv_usage=0.5, l1_capacity_tokens=2000, run_id="r2")
    assert capacity(con) == f"L1 capacity: 1,000 to 2,000{NBSP}tokens"


def capacity(con: object) -> str:
    story = build_report(con, diagnosis(instance())).instances.rows[0].story  # type: ignore[arg-type]
    assert story is not None
    return next(p for p in story.panels if p.key == "kv").levels[0].label


def test_the_first_sentence_comes_first_and_the_rest_below() -> None:
    con = connection()
    add_bucket(con, 0, waiting=1)
    d = diagnosis(instance(verdict=finding(sentence="The pool was full. 9 requests were retracted.", instance="pod-a")))
    html = render_html(build_report(con, d))
    assert '<p class="sentence">The pool was full.</p>' in html
    assert html.index("9\u00a0requests were retracted.") > html.index('id="why"')


def test_several_incidents_are_listed_in_the_order_of_time_and_shaded() -> None:
    con = connection()
    for n in range(60):
        add_bucket(con, 10 * n, waiting=1)
    incidents = tuple(
        IncidentDiagnosis(number, Window(at(start), at(start + 60)), (finding(sentence=f"Incident {number}."),), ())
        for number, start in ((1, 300), (2, 100))
    )
    report = build_report(con, diagnosis(instance(window=incidents[0].window, incidents=incidents)))
    lead = report.instances.rows[0]
    assert [(row.number, row.finding.headline) for row in lead.incidents.rows] == [(2, "Incident 2."), (1, "Incident 1.")]
    assert lead.timeline is not None
    start = at(0).timestamp()
    assert lead.timeline.axis.shade == (start + 300, start + 360)
    assert lead.timeline.axis.others == ((start + 100, start + 160),)
    html = render_html(report)
    assert 'class="shade other"' in html
    assert "Incident 2." in html


def test_one_incident_is_no_list() -> None:
    con = connection()
    add_bucket(con, 0, waiting=1)
    one = IncidentDiagnosis(1, Window(at(0), at(10)), (finding(),), ())
    assert build_report(con, diagnosis(instance(incidents=(one,)))).instances.rows[0].incidents.rows == ()


def test_the_first_screen_speaks_chinese() -> None:
    with use("zh"):
        html = render_html(build_report(*l1_incident()))
    screen = html[html.index('id="verdict"') : html.index('id="why"')]
    for english in ("Severe", "Peak waiting", "at other times", "L1 capacity", "not known", "Retractions"):
        assert english not in screen
