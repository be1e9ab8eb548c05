"""The report's data: order, caps, gaps, windows, and what is said where something is unknown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from report_fakes import (
    HOSTILE,
    T0,
    add_bucket,
    add_event,
    answered,
    at,
    connection,
    diagnosis,
    finding,
    fleet,
    hostile,
    instance,
    insufficient,
    l1_incident,
    source,
)

from analyzer.diagnosis.model import Evidence, MissingSignal, Peaks, Window
from analyzer.report.charts import Timeline
from analyzer.report.data import build_report
from analyzer.report.model import (
    MAX_CHARTED_INSTANCES,
    MAX_EVENT_ROWS,
    MAX_EVIDENCE,
    MAX_FACTS_PER_INSTANCE,
    MAX_NOTES,
    MAX_SOURCES,
    MAX_TABLE_ROWS,
)


def panel_keys(timeline: Timeline | None) -> list[str]:
    assert timeline is not None
    return [p.key for p in timeline.panels]


def test_the_title_case() -> None:
    r = build_report(*l1_incident())
    v = r.verdict
    assert v.finding.title == "L1-bound: the KV pool in HBM was full"
    assert (v.finding.cause, v.finding.tone, v.finding.confidence) == ("l1_bound", "bad", "high")
    assert v.window == Window(at(300), at(800))
    assert v.severity.duration_s == 500
    assert v.severity.capture_share == pytest.approx(500 / 1320)
    assert v.severity.ttft_p99_peak_s == 40.3
    assert v.severity.ttft_p99_before_s == 2.0
    assert v.severity.ttft_source == "client records"
    assert [(p.key, p.value) for p in v.peaks] == [
        ("waiting", 128),
        ("running", 42),
        ("kv_usage", 0.9987),
        ("retraction_events", 43),
        ("retracted_requests", 106),
    ]
    assert v.finding.rests_on[1].href == "#i1-q03"
    one = r.instances.rows[0]
    assert panel_keys(one.timeline) == ["ttft", "requests", "kv", "prompt", "gen"]
    assert one.timeline is not None
    assert [lane.key for lane in one.timeline.lanes] == ["retracted", "failure", "process"]
    assert one.timeline.axis.shade == (at(300).timestamp(), at(800).timestamp())
    assert one.closeup is None
    assert [f.cause for f in one.findings.rows] == ["reservation_bound"]
    assert r.findings.total == 0
    assert r.instance_rows.total == 0


def test_advice_is_capped_and_not_told_again_for_the_same_cause() -> None:
    con, found = l1_incident()
    advice = build_report(con, found).verdict.finding.advice
    assert [a.flag for a in advice.rows] == ["--mem-fraction-static", "--kv-cache-dtype", "--dp-size", ""]
    assert (advice.rows[0].current, advice.rows[1].current, advice.rows[1].versions) == ("0.88", "", "0.4.1 or later")
    assert advice.hidden == 1
    again = replace(found.verdict, sentence="Once more, later.")
    several = replace(found.instances[0], findings=(found.verdict, again, finding("crash", instance="pod-a", leave_alone=("It.",))))
    shown = build_report(con, replace(found, instances=(several,))).instances.rows[0].findings.rows
    assert [(f.cause, len(f.advice.rows), f.leave_alone.rows) for f in shown] == [("l1_bound", 0, ()), ("crash", 0, ("It.",))]


def test_null_buckets_and_missing_rows_are_gaps() -> None:
    con = connection()
    for i, waiting in enumerate([1, None, 0, 5]):
        add_bucket(con, i * 10, waiting=waiting)
    add_bucket(con, 60, waiting=2)  # the buckets at 40 and 50 have no row at all
    timeline = build_report(con, diagnosis(instance())).instances.rows[0].timeline
    assert timeline is not None
    (curve,) = timeline.panels[0].series
    assert [[p[2] for p in s.points] for s in curve.segments] == [[1], [0, 5], [2]]
    assert [s.end - T0.timestamp() for s in curve.segments] == [10, 40, 70]


def test_not_a_number_is_a_gap_too() -> None:
    con = connection()
    for second, value in ((0, 1.0), (10, float("nan")), (20, float("inf")), (30, 2.0)):
        add_bucket(con, second, waiting=value)
    timeline = build_report(con, diagnosis(instance())).instances.rows[0].timeline
    assert timeline is not None
    assert len(timeline.panels[0].series[0].segments) == 2


def test_a_new_run_breaks_the_curves_and_is_marked_even_without_a_start_line() -> None:
    con = connection()
    add_bucket(con, 0, waiting=1)
    add_bucket(con, 10, waiting=1, run_id="r2")
    timeline = build_report(con, diagnosis(instance())).instances.rows[0].timeline
    assert timeline is not None
    assert len(timeline.panels[0].series[0].segments) == 2
    assert timeline.axis.rules == ((at(10).timestamp(), "restart"),)


def test_run_ten_comes_after_run_nine() -> None:
    con = connection()
    for i in range(1, 11):
        add_bucket(con, i * 10, waiting=1, run_id=f"r{i}")
        add_event(con, i * 10, "start", run_id=f"r{i}")
    timeline = build_report(con, diagnosis(instance())).instances.rows[0].timeline
    assert timeline is not None
    assert [name for _, name in timeline.axis.rules] == ["start"] + ["restart"] * 9


def test_unreported_signals_are_named_and_no_panel_is_drawn() -> None:
    r = build_report(*insufficient())
    timeline = r.instances.rows[0].timeline
    assert panel_keys(timeline) == ["ttft", "requests"]
    assert timeline is not None
    assert timeline.panels[0].title == "Queue wait (estimate)"
    assert "TTFT was not recorded" in timeline.panels[0].note
    assert "KV cache: not reported in this time range." in timeline.notes
    assert r.verdict.finding.tone == "grey"
    assert [m.signal for m in r.verdict.missing] == ["KV usage"]
    assert r.verdict.severity.duration_s is None
    assert {p.key: p.value for p in r.verdict.peaks}["preemptions"] is None
    assert "retraction_events" not in {p.key for p in r.verdict.peaks}  # vLLM has none to report
    assert r.cut
    assert r.cut_sources.rows == ("vllm.log.gz",)


def test_an_open_window_is_shaded_to_the_end() -> None:
    timeline = build_report(*insufficient()).instances.rows[0].timeline
    assert timeline is not None
    assert timeline.axis.shade == (at(110).timestamp(), at(400).timestamp())


def test_cannot_tell_is_grey() -> None:
    questions = build_report(*insufficient()).instances.rows[0].questions
    assert {q.tone for q in questions if q.chip == "Cannot tell"} == {"grey"}


def test_usage_has_a_fixed_axis_and_says_when_it_was_above_it() -> None:
    con = connection()
    add_bucket(con, 0, kv_usage=1.02)
    timeline = build_report(con, diagnosis(instance())).instances.rows[0].timeline
    assert timeline is not None
    assert timeline.panels[0].top == 1.0
    assert "KV usage above 100 % was reported; it is drawn at 100 %." in timeline.notes


def test_the_three_states_are_shares_of_their_sum_and_need_all_three() -> None:
    con = connection()
    add_bucket(con, 0, l1_used_tokens=50, l1_evictable_tokens=30, l1_available_tokens=20)
    add_bucket(con, 10, l1_used_tokens=50, l1_available_tokens=20)
    add_bucket(con, 20, l1_used_tokens=0, l1_evictable_tokens=0, l1_available_tokens=0)
    timeline = build_report(con, diagnosis(instance())).instances.rows[0].timeline
    assert timeline is not None
    used, evictable, available = timeline.panels[0].series
    assert [s.points for s in available.segments] == [((T0.timestamp(), 0.8, 1.0),)]
    assert [s.points for s in used.segments] == [((T0.timestamp(), 0.0, 0.5),)]
    assert [s.points for s in evictable.segments] == [((T0.timestamp(), 0.5, 0.8),)]


def test_preemptions_only_counters_know_of_are_drawn() -> None:
    con = connection()
    for i in range(300):
        add_bucket(con, i * 10, preempted=2 if i % 3 == 0 else 0)
    timeline = build_report(con, diagnosis(instance(engine="vllm"))).instances.rows[0].timeline
    assert timeline is not None
    (lane,) = timeline.lanes
    assert lane.key == "preempted"
    assert sum(m.count for m in lane.marks) == 200
    assert len(lane.marks) <= 120
    assert lane.summary.startswith("200\u00a0requests in this time range")


def test_a_short_incident_gets_a_closeup() -> None:
    con = connection()
    for i in range(300):
        add_bucket(con, i * 10, waiting=1)
    one = instance(window=Window(at(1000), at(1100)))
    view = build_report(con, diagnosis(one)).instances.rows[0]
    assert view.closeup is not None
    assert (view.closeup.axis.start, view.closeup.axis.end) == (at(900).timestamp(), at(1200).timestamp())
    assert view.timeline is not None
    assert view.timeline.axis.end == at(3000).timestamp()


def test_a_window_outside_the_capture_is_not_shaded() -> None:
    con = connection()
    add_bucket(con, 0, waiting=1)
    one = instance(window=Window(at(5000), at(5100)))
    view = build_report(con, diagnosis(one)).instances.rows[0]
    assert view.closeup is None
    assert view.timeline is not None
    assert view.timeline.axis.shade is None


def test_one_stamp_from_a_broken_clock_does_not_stretch_the_axis() -> None:
    con = connection()
    add_bucket(con, 0, waiting=1)
    add_bucket(con, 10, waiting=1)
    add_event(con, -5, "start")
    add_event(con, 9e6, "warning")
    timeline = build_report(con, diagnosis(instance())).instances.rows[0].timeline
    assert timeline is not None
    assert (timeline.axis.start, timeline.axis.end) == (at(-5).timestamp(), at(20).timestamp())


def test_events_alone_still_make_a_timeline() -> None:
    con = connection()
    add_event(con, 5, "crash")
    view = build_report(con, diagnosis(instance())).instances.rows[0]
    assert view.timeline is not None
    assert view.timeline.panels == ()
    assert view.timeline.axis.rules == ((at(5).timestamp(), "crash"),)


def test_nothing_at_all_is_still_a_report() -> None:
    lone = finding("insufficient_data", "low")
    r = build_report(connection(), diagnosis(verdict=lone, findings=(lone,), checklist=()))
    assert r.instances.total == 1
    assert r.instances.rows[0].timeline is None
    assert r.totals.lines == 0


def test_a_flood_of_warnings_does_not_hide_the_crash() -> None:
    con = connection()
    con.execute(
        "INSERT INTO event (instance, run_id, ts, kind, source, text)"
        " SELECT 'pod-a', 'r1', ?::TIMESTAMPTZ + to_seconds(i), 'warning', 'x.log:' || i, 'w' FROM range(5000) t(i)",
        [T0],
    )
    add_event(con, 4990, "crash", source="x.log:9999")
    events = build_report(con, diagnosis(instance())).instances.rows[0].events
    assert events.total == 5001
    assert len(events.rows) == MAX_EVENT_ROWS
    assert events.rows[-1].kind == "Crash"
    times = [e.at for e in events.rows if e.at is not None]
    assert times == sorted(times)


def test_event_details_lead_back_to_their_line() -> None:
    events = build_report(*l1_incident()).instances.rows[0].events.rows
    retraction = next(e for e in events if e.kind == "Retraction")
    assert (retraction.ratio, retraction.reports) == ("0.31 → 0.52", "TP0")
    assert retraction.source == "server.log:4000"


def test_merged_events_say_how_many_lines_reported_them() -> None:
    con = connection()
    con.execute("ALTER TABLE event ALTER reported_by TYPE INTEGER USING NULL")
    add_event(con, 0, "abort", reported_by=4)
    assert build_report(con, diagnosis(instance())).instances.rows[0].events.rows[0].reports == "4 lines"


def test_the_table_is_bounded_and_sums_counts() -> None:
    con = connection()
    for i in range(1000):
        add_bucket(con, i * 10, waiting=i, retracted=1)
    view = build_report(con, diagnosis(instance())).instances.rows[0]
    assert len(view.table) <= MAX_TABLE_ROWS
    assert view.table_step_s == 210
    assert view.table[0].waiting == 20
    assert view.table[0].retracted == 21
    assert view.table[0].kv_usage is None


def test_many_buckets_are_thinned() -> None:
    con = connection()
    con.execute(
        "INSERT INTO timeline (instance, run_id, bucket_ts, bucket_s, waiting)"
        " SELECT 'pod-a', 'r1', ?::TIMESTAMPTZ + to_seconds(i), 1, CASE i WHEN 1234 THEN 999 ELSE i % 50 END"
        " FROM range(2000) t(i)",
        [T0],
    )
    timeline = build_report(con, diagnosis(instance())).instances.rows[0].timeline
    assert timeline is not None
    (curve,) = timeline.panels[0].series
    assert sum(len(s.points) for s in curve.segments) <= 600
    assert curve.peak == 999
    assert curve.peak_at == (T0 + timedelta(seconds=1234)).timestamp()


def test_instances_come_worst_first() -> None:
    r = build_report(*fleet(5))
    assert [i.name for i in r.instances.rows] == [f"10.0.3.{n}:30000" for n in (2, 3, 1, 4, 5)]
    assert [i.anchor for i in r.instances.rows] == ["i1", "i2", "i3", "i4", "i5"]
    assert [row.finding.short for row in r.instance_rows.rows] == ["L1-bound", "Crash"] + ["No incident"] * 3
    assert [f.cause for f in r.findings.rows] == ["skew"]


def test_cannot_tell_ranks_before_an_all_clear() -> None:
    clear = instance("a", "none")
    unknown = instance("b", "insufficient_data")
    bad = instance("c", "cap_bound")
    r = build_report(connection(), diagnosis(clear, unknown, bad, verdict=bad.verdict))
    assert [i.name for i in r.instances.rows] == ["c", "b", "a"]


def test_charts_are_capped_and_the_table_goes_on() -> None:
    r = build_report(*fleet(30))
    assert len(r.instances.rows) == MAX_CHARTED_INSTANCES
    assert r.instances.hidden == 18
    assert len(r.instance_rows.rows) == 30
    assert [row.anchor for row in r.instance_rows.rows[11:14]] == ["i12", "", ""]
    assert [i.name for i in r.instances.rows[9:]] == [f"10.0.3.{n}:30000" for n in (10, 11, 12)]


def test_curves_of_one_instance_do_not_hold_another_s() -> None:
    con = connection()
    add_bucket(con, 0, waiting=1)
    add_bucket(con, 0, instance="pod-b", waiting=50)
    r = build_report(con, diagnosis(instance(), instance("pod-b")))
    peaks = [i.timeline.panels[0].series[0].peak for i in r.instances.rows if i.timeline]
    assert sorted(p for p in peaks if p is not None) == [1, 50]


def test_answers_that_matter_are_expanded() -> None:
    questions = build_report(*l1_incident()).instances.rows[0].questions
    assert [q.number for q in questions if q.expanded] == [1, 2, 3, 4, 6, 7, 9, 14]
    assert [q.number for q in questions if q.basis] == [1, 3, 4, 6]
    assert questions[0].evidence.rows[1].value == "40.2\u00a0s"
    assert questions[0].evidence.rows[1].source == "client.jsonl:812"


def test_the_same_query_is_printed_once() -> None:
    r = build_report(*fleet(3))
    first, second = r.instances.rows[0].questions[0], r.instances.rows[1].questions[0]
    assert first.sql.startswith("SELECT")
    assert (second.sql, second.sql_at) == ("", "#i1-q01")


def test_missing_signals_are_merged_and_ranked_by_use() -> None:
    usage, client = MissingSignal("KV usage", "--a"), MissingSignal("client latency", "--b")
    checklist = (
        answered(1, "cannot_tell", missing=(client,)),
        answered(3, "cannot_tell", missing=(usage,)),
        answered(4, "cannot_tell", missing=(usage,)),
    )
    r = build_report(connection(), diagnosis(instance(checklist=checklist), instance("b", checklist=checklist)))
    assert [(m.signal, m.questions) for m in r.missing.rows] == [
        ("KV usage", (3, 4)),
        ("client latency", (1,)),
    ]


def test_line_counts_add_up_or_are_called_out() -> None:
    good = source()
    bad = source("b.log", other_lines=0)
    unknown = source("c.log", other_lines=None)
    r = build_report(connection(), diagnosis(instance(), sources=(good, bad, unknown)))
    assert [s.adds_up for s in r.sources.rows] == [True, False, None]
    assert r.totals.lines == 3 * 20_412
    assert r.totals.other == 182


def test_a_source_says_its_clock_and_version() -> None:
    sources = (
        source(),
        source("b.log", clock="outer", utc_offset_s=None, version_max="0.5.4", version_from="stated"),
        source("c.txt", clock=None, utc_offset_s=None, first_ts=None, last_ts=None, version_min=None,
               version_max=None, format="none", engines=None, wrapper=None),
        {"path": "d.log"},
    )  # fmt: skip
    rows = build_report(connection(), diagnosis(instance(), sources=sources)).sources.rows
    assert [s.clock for s in rows] == [
        "the log's own stamps, taken as UTC+02:00",
        "the collector's stamps",
        "no time stamps",
        "no time stamps",
    ]
    assert [s.version for s in rows] == ["0.5.4 to 0.5.9 (inferred)", "0.5.4 (stated)", "", ""]
    assert rows[0].read_as == "engine log, sglang, in kubectl"
    assert rows[3].adds_up is None


def test_facts_name_their_line_and_keep_ports_as_they_are() -> None:
    (group,) = build_report(*l1_incident()).facts.rows
    facts = {f.key: (f.value, f.source) for f in group.facts.rows}
    assert facts["max_total_num_tokens"] == ("196,608\u00a0tokens", "logs/pod-a/server.log:118")
    assert facts["kv_pool_bytes"][0] == "60\u00a0GiB"
    assert facts["arg.port"][0] == "30000"


def test_every_list_is_capped() -> None:
    many = instance(
        checklist=(answered(1, "yes", evidence=tuple(Evidence(f"e{i}", i) for i in range(99))),),
        peaks=Peaks(),
    )
    facts = tuple({"instance": "pod-a", "key": f"arg.{i}", "value": "1"} for i in range(999))
    r = build_report(
        connection(),
        diagnosis(
            many,
            facts=facts,
            sources=tuple(source(f"{i}.log") for i in range(500)),
            notes=tuple(str(i) for i in range(500)),
        ),
    )
    assert len(r.instances.rows[0].questions[0].evidence.rows) == MAX_EVIDENCE
    assert len(r.facts.rows[0].facts.rows) == MAX_FACTS_PER_INSTANCE
    assert (len(r.sources.rows), r.sources.total) == (MAX_SOURCES, 500)
    assert (len(r.notes.rows), r.notes.hidden) == (MAX_NOTES, 500 - MAX_NOTES)
    assert r.totals.lines == 500 * 20_412  # what is not listed still counts


def test_hostile_text_is_cleaned_but_kept_as_text() -> None:
    r = build_report(*hostile())
    assert "\x1b" in HOSTILE
    assert "\x1b" not in repr(r).replace("\\x1b", "\x1b")
    assert r.verdict.finding.sentence == "</script><img src=x onerror=1>[31m'\"&{{ 7*7 }}"
    assert r.instances.rows[0].timeline is not None


def test_the_same_input_gives_the_same_data() -> None:
    con, d = fleet(4)
    assert build_report(con, d) == build_report(con, d)
