"""The index's data: what is counted, the order of captures, and what time they share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest
from fleet_fakes import START, fleet, many, mixed, record, summary

from analyzer.diagnosis.model import Cause, Diagnosis, Finding, IncidentDiagnosis, InstanceDiagnosis, Peaks, Window
from analyzer.fleet.index import MAX_ROWS, build_index, pool_text
from analyzer.fleet.model import Incident, Summary
from analyzer.fleet.periods import MAX_LANES, periods
from analyzer.fleet.summarise import MAX_INCIDENTS, summarise
from analyzer.report.severity import Severity


def names(data: Any, key: str) -> list[str]:
    return [row.name for group in data.groups if group.key == key for row in group.rows.rows]


def test_captures_are_listed_by_what_is_known_of_them() -> None:
    data = build_index(mixed())
    assert data.total == 6
    assert data.counts == {"incident": 3, "unknown": 1, "fine": 1}
    assert names(data, "unknown") == ["dark"]
    assert names(data, "fine") == ["calm"]
    assert [f.name for f in data.failures.rows] == ["broken"]


def test_what_cannot_be_told_is_never_among_what_is_fine() -> None:
    data = build_index(fleet(record("dark", summary("insufficient_data", "high"))))
    assert (names(data, "fine"), names(data, "unknown")) == ([], ["dark"])
    assert [c.tone for c in data.causes] == ["grey"]


def test_the_worst_comes_first() -> None:
    def slow(seconds: float | None, **given: Any) -> Severity:
        return Severity(duration_s=300.0, ttft_p99_peak_s=seconds, **given)

    data = build_index(
        fleet(
            record("minor", summary(severity=slow(2.0))),
            record("severe-unsure", summary(confidence="low", severity=slow(90.0))),
            record("severe-slower", summary(severity=slow(80.0))),
            record("severe", summary(severity=slow(40.0))),
            record("major", summary(severity=slow(12.0))),
            record("not-known", summary(severity=slow(None))),
            record("lost", summary("crash", severity=Severity())),
        )
    )
    assert names(data, "incident") == ["severe-slower", "severe", "lost", "severe-unsure", "major", "minor", "not-known"]


def test_verdicts_are_counted_the_most_frequent_first_and_the_all_clear_last() -> None:
    causes: list[Cause] = ["none", "none", "none", "cap_bound", "l1_bound", "l1_bound", "crash"]
    data = build_index(fleet(*(record(f"c{n}", summary(cause)) for n, cause in enumerate(causes))))
    assert [(c.cause, c.count) for c in data.causes] == [("l1_bound", 2), ("crash", 1), ("cap_bound", 1), ("none", 3)]


def test_caps_keep_what_there_was() -> None:
    data = build_index(many(MAX_ROWS * 3 // 2 + 600))
    rows = next(g for g in data.groups if g.key == "incident").rows
    assert len(rows.rows) == MAX_ROWS
    assert rows.hidden > 0
    assert (data.lanes, data.lanes_total) == (MAX_LANES, rows.total)


def test_captures_of_one_outage_share_an_axis_and_those_of_another_day_do_not() -> None:
    today = [record("a", summary(at=0)), record("b", summary(at=1800))]
    tomorrow = record("c", summary(at=86_400))
    found = periods([(r, r.report) for r in (tomorrow, *today)])
    assert [[lane.name for lane in p.lanes] for p in found] == [["a", "b"], ["c"]]
    assert found[0].range == Window(START - timedelta(seconds=120), START + timedelta(seconds=2220))


def test_an_incident_without_an_end_reaches_to_that_of_its_capture() -> None:
    said = summary(incidents=(Incident(START, None, "hang", "pod-0"), Incident(None, START, "crash", "pod-0")))
    (period,) = periods([(record("a", said), "a.html")])
    open_end, open_start = period.lanes[0].bars
    assert open_end.end == period.axis.end
    assert open_start.start == period.axis.start


def test_a_capture_whose_incident_has_no_time_is_counted_and_not_drawn() -> None:
    data = build_index(fleet(record("a", summary(incidents=()))))
    assert (data.periods, data.undrawn) == ((), 1)


def test_pools_that_differ_are_a_range() -> None:
    assert [pool_text(p) for p in ((1000, 1000), (1000, 2000), None)] == ["1,000", "1,000 to 2,000", "not reported"]


@pytest.mark.parametrize(
    "said", [summary(), summary("insufficient_data", missing=("x",)), summary(pool_tokens=None, cut=True, incidents=())]
)
def test_a_summary_comes_back_from_json_as_it_was(said: Summary) -> None:
    assert Summary.from_json(orjson.loads(orjson.dumps(said.to_json()))) == said


def diagnosis(verdict: Finding, *incidents: IncidentDiagnosis, **given: Any) -> Diagnosis:
    one = InstanceDiagnosis("pod-0", "vllm", "0.11.2", 1, verdict, (verdict,), verdict.window, Peaks(), (), incidents)
    facts = given.pop("facts", ())
    sources = ({"first_ts": "2026-11-30T06:00:00Z", "last_ts": "2026-11-30T08:00:00Z"}, {"first_ts": None, "last_ts": None})
    return Diagnosis("0", "t", verdict, (verdict,), verdict.window, Peaks(**given), (), (one,), facts, sources)


def during(start: float, end: float) -> Window:
    return Window(START + timedelta(seconds=start), START + timedelta(seconds=end))


def test_a_summary_holds_what_the_engine_told_and_no_more() -> None:
    told = (("pod-0", "2000"), ("pod-0", "x"), ("other", "9"), ("pod-0", "1000"))
    facts = tuple({"key": "kv_capacity_tokens", "instance": instance, "value": value} for instance, value in told)
    verdict = Finding("l1_bound", "high", "It was\x00 full.\u202e Yes.", "pod-0", during(0, 60))
    said = summarise(diagnosis(verdict, facts=facts, preemptions=4), Severity(), cut=False)
    assert said.pool_tokens == (1000, 2000)
    assert (said.retracted, said.waiting, said.kv_usage) == (4, None, None)
    assert said.sentence == "It was full. Yes."
    assert said.engine == "vllm 0.11.2"
    assert said.covers == Window(START - timedelta(hours=1), START + timedelta(hours=1))


def test_a_crash_stands_in_for_the_queue_that_it_left_and_for_no_other() -> None:
    queue = Finding("cap_bound", "medium", "It queued.")
    verdict = Finding("crash", "high", "It died.", "pod-0", during(100, 101))
    said = summarise(
        diagnosis(verdict, IncidentDiagnosis(1, during(90, 300), (queue,), ()), IncidentDiagnosis(2, during(900, 1000), (queue,), ())),
        Severity(),
        cut=False,
    )
    assert [(i.cause, i.start) for i in said.incidents] == [("crash", during(100, 0).start), ("cap_bound", during(900, 0).start)]


def test_of_very_many_incidents_the_longest_are_kept_in_their_order() -> None:
    found = [IncidentDiagnosis(n, during(n * 100, n * 100 + n), (Finding("l1_bound", "low", "x"),), ()) for n in range(MAX_INCIDENTS + 5)]
    said = summarise(diagnosis(Finding("l1_bound", "low", "x", "pod-0"), *found), Severity(), cut=True)
    assert [i.start for i in said.incidents] == [f.window.start for f in found[5:]]
    assert said.cut
