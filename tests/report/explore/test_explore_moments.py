"""What stands around a retraction, a preemption or a crash, and what is left out where there are many."""

from __future__ import annotations

import json
from typing import Any

import pytest
from parts_case import HOSTILE, asked, connection, event, metrics, ms, report, request, series

from analyzer.report.explore import moments
from analyzer.report.explore.moments import Around, Moments, build_moments


def built(**tables: Any) -> Moments:
    found = build_moments(connection(**tables), asked())
    assert found is not None
    return found


def only(**tables: Any) -> Around:
    return built(**tables).around[0]


LOAD = [report(t, running=5 - (t > 10), waiting=int(t > 10), kv_usage=0.9 + t / 200) for t in range(0, 20, 2)]


def test_the_scheduler_before_and_after_a_retraction() -> None:
    one = only(scheduler=LOAD, events=[event(11, "retraction", requests=1, tokens=500, ratio_before=0.1, ratio_after=0.6)])
    (moment,) = one.moments
    assert (moment.start, moment.end, moment.kind) == (ms(11), ms(11), "retraction")
    assert moment.title == "12:00:11 Retraction: 1\u00a0request"
    assert moment.detail == "Tokens concerned: 500. new_token_ratio went from 0.1 to 0.6."
    assert [row[0] for row in moment.reports] == [
        "-7\u00a0s",
        "-5\u00a0s",
        "-3\u00a0s",
        "-1\u00a0s",
        "+1\u00a0s",
        "+3\u00a0s",
        "+5\u00a0s",
        "+7\u00a0s",
    ]
    assert [row[2] for row in moment.reports] == ["5"] * 4 + ["4"] * 4
    assert moment.reports[0][7] == "server.log:3"


def test_a_report_of_the_same_second_comes_after_where_its_line_does() -> None:
    one = only(
        scheduler=[report(10, running=5, record=7), report(10, running=4, record=9)],
        events=[event(10, "retraction", requests=1, record=8)],
    )
    assert [row[2] for row in one.moments[0].reports] == ["5", "4"]
    early = only(scheduler=[report(10, running=4, record=9)] * 5, events=[event(10, "retraction", requests=1, record=8)])
    assert len(early.moments[0].reports) == moments.MAX_REPORTS


def test_a_rank_that_is_named_is_looked_at_alone() -> None:
    reports = [report(t, dp=dp, running=10 * dp + 1) for t in range(0, 20, 2) for dp in (0, 1)]
    one = only(scheduler=reports, events=[event(11, "retraction", requests=1, dp=1)])
    assert {row[1] for row in one.moments[0].reports} == {"1"}
    assert {row[2] for row in one.moments[0].reports} == {"11"}


def test_requests_in_flight_with_their_age_and_phase() -> None:
    rows = [
        request(0, rid="gone", ttft_s=1.0, e2e_s=5.0),
        request(2, rid="runs", ttft_s=1.0, e2e_s=30.0, output_tokens=200),
        request(8, rid="waits", ttft_s=20.0, e2e_s=40.0),
        request(9, rid="pends", status="unfinished"),
        request(50, rid="later", ttft_s=1.0, e2e_s=2.0),
        request(1, rid="unsaid", status="error"),
    ]
    one = only(events=[event(10, "retraction", requests=1)], requests=rows)
    moment = one.moments[0]
    seen = {one.requests[n][0]: (age, phase) for n, age, phase in moment.requests}
    assert seen == {
        "runs": ("8\u00a0s", "decode"),
        "waits": ("2\u00a0s", "no first token yet"),
        "pends": ("1\u00a0s", "no first token yet"),
    }
    assert moment.flight == "3 recorded requests were in flight; 1 had a first token."


def test_of_many_in_flight_the_named_and_the_thrown_out_come_first() -> None:
    rows = [request(n / 100, rid=f"r{n}", ttft_s=0.5, e2e_s=60.0) for n in range(50)]
    rows[40] |= {"retractions": 1}
    one = only(events=[event(10, "preemption", requests=1, rid="r45")], requests=rows)
    moment = one.moments[0]
    shown = [one.requests[n][0] for n, _age, _phase in moment.requests]
    assert len(shown) == moments.MAX_REQUESTS
    assert shown[0] == "r45"
    assert "r40" in shown
    assert moment.flight.endswith("Showing 12.")


def test_lines_around_it_are_held_once_and_counted() -> None:
    events = [event(10 + n / 10, "retraction", requests=1, dp=n) for n in range(20)]
    one = only(events=events)
    assert len(one.lines) == 20
    assert all(len(m.lines) == moments.MAX_LINES for m in one.moments)
    assert one.moments[0].more == "8 more lines are near."
    assert one.lines[0][1:] == ("Retraction", "retraction", "server.log:1")


def test_a_burst_of_crash_lines_is_one_moment_and_the_first_start_is_none() -> None:
    one = only(
        scheduler=LOAD,
        events=[event(0, "start"), *(event(12 + n, "crash", text=f"line {n}") for n in range(4)), event(40, "start", run_id="r2")],
    )
    assert [(m.kind, m.start, m.end) for m in one.moments] == [("crash", ms(12), ms(15)), ("start", ms(40), ms(40))]
    assert one.moments[0].detail == "4 lines, 12:00:12 to 12:00:15."
    assert one.moments[1].title == "12:00:40 Restart"


def test_what_only_a_counter_tells_is_between_two_scrapes() -> None:
    one = only(scheduler=LOAD, **metrics(series("preemptions_total", [(0, 0), (5, 0), (10, 3), (15, 3)])))
    (moment,) = one.moments
    assert (moment.kind, moment.start, moment.end) == ("preemption", ms(5), ms(10))
    assert "By a counter that rose between the scrapes at 12:00:05 and 12:00:10." in moment.detail


def test_a_line_is_not_told_again_by_its_counter() -> None:
    one = only(
        events=[event(7, "retraction", requests=3)],
        **metrics(series("retracted_requests_total", [(0, 0), (5, 0), (10, 3)])),
    )
    assert [m.start for m in one.moments] == [ms(7)]


def test_a_line_that_seems_to_come_before_its_scrapes_gap_is_not_told_again() -> None:
    """A line is stamped to the second, a scrape to the millisecond."""
    one = only(
        events=[event(5, "retraction", requests=3)],
        **metrics(series("retracted_requests_total", [(0.2, 0), (5.2, 0), (10.2, 3)])),
    )
    assert [m.start for m in one.moments] == [ms(5)]


def test_a_flood_of_one_kind_hides_no_other() -> None:
    floods = [event(n * 10, "abort", requests=5) for n in range(100)]
    one = only(events=[*floods, event(3, "crash"), *(event(400 + n, "retraction", requests=n) for n in range(1, 31))])
    kinds = [m.kind for m in one.moments]
    assert len(kinds) == moments.MAX_MOMENTS
    assert kinds.count("crash") == 1
    assert kinds.count("retraction") >= 19
    assert one.total == 131
    assert "Showing 40 of 131" in one.note.replace("\u00a0", " ")
    # The largest of a kind stay.
    assert "30\u00a0requests" in " ".join(m.title for m in one.moments)


def test_what_is_not_known_is_a_dash_and_never_zero() -> None:
    one = only(scheduler=[report(9)], events=[event(10, "retraction")], requests=[request(8, rid=None, status="unfinished")])
    moment = one.moments[0]
    assert moment.title == "12:00:10 Retraction"
    assert moment.detail == ""
    assert moment.reports == (("-1\u00a0s", "–", "–", "–", "–", "–", "–", "server.log:1"),)
    assert one.requests[0] == ("–", "12:00:08", "–", "–", "–", "–", "–", "unfinished at the end")


def test_text_of_others_is_cleaned_and_stays_text() -> None:
    found = built(
        events=[event(10, "crash", text=HOSTILE * 5, rid=HOSTILE)],
        requests=[request(9, rid=HOSTILE, status="unfinished")],
    )
    text = json.dumps(found.document(), ensure_ascii=False)
    assert "\\u001b" not in text
    assert "\u202e" not in text
    assert all(len(cell) < 400 for line in found.around[0].lines for cell in line)


def test_nothing_happened() -> None:
    assert build_moments(connection(scheduler=LOAD), asked()) is None
    assert build_moments(connection(scheduler=LOAD, events=[event(0, "start"), event(1, "ready"), event(2, "warning")]), asked()) is None


def test_many_instances_share_what_the_page_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"pod-{n}" for n in range(12))
    rows = [event(n, "retraction", instance=name, requests=1) for name in names for n in range(50)]
    found = build_moments(connection(events=rows), asked(*names))
    assert found is not None
    assert [len(one.moments) for one in found.around] == [moments.MAX_ON_PAGE // 12] * 12


def test_the_same_trace_gives_the_same_document() -> None:
    tables = {
        "scheduler": LOAD,
        "events": [event(11, "retraction", requests=1), event(11, "abort")],
        "requests": [request(8, ttft_s=9.0, e2e_s=30.0)],
    }
    assert json.dumps(built(**tables).document()) == json.dumps(built(**tables).document())
