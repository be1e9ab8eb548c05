"""Comparisons of sample traces: fixes that work, windows of one trace, instances, and what cannot be compared."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from comparison_sides import Sides

import analyzer
from analyzer.comparison.compare import compare
from analyzer.comparison.configuration import incidental
from analyzer.comparison.curves import figure, since, ticks
from analyzer.comparison.model import Comparison
from analyzer.comparison.side import side
from analyzer.errors import KvpmError
from analyzer.language import use
from analyzer.report.charts import TimeAxis

RECORDED = datetime(2026, 11, 30, 7, tzinfo=UTC)


@pytest.fixture(scope="module")
def fixed(side_of: Sides) -> Comparison:
    return compare(side_of("l1_bound_sglang"), side_of("healthy_sglang"))


def test_a_healthy_server_after_an_l1_bound_one_has_better_numbers(fixed: Comparison) -> None:
    assert fixed.change.numbers == "better"
    assert fixed.a.cause == "l1_bound"
    assert fixed.b.cause == "none"
    assert not fixed.change.same_cause
    p95 = fixed.delta("ttft_p95")
    assert p95.a.source == p95.b.source == "client"
    assert p95.a.value is not None
    assert p95.b.value is not None
    assert p95.a.value > 30 > 1 > p95.b.value
    assert p95.direction == "better"
    assert fixed.delta("incident_share").b.value == 0.0


def test_the_lighter_load_is_held_against_it(fixed: Comparison) -> None:
    assert fixed.change.outcome == "cannot_tell"
    assert any("lower than A's" in w for w in fixed.change.weakens)
    assert any("The models differ" in w for w in fixed.change.weakens)


def test_a_p99_of_few_requests_is_not_told_apart(fixed: Comparison) -> None:
    p99 = fixed.delta("ttft_p99")
    assert p99.b.n is not None
    assert p99.b.n < 300
    assert (p99.direction, p99.note) == ("cannot_tell", "may be chance: too few requests for this percentile")


def test_what_one_side_does_not_report_is_none(fixed: Comparison) -> None:
    l2 = fixed.delta("l2_used_share")
    assert l2.a.value is not None
    assert (l2.b.value, l2.difference, l2.direction) == (None, None, "cannot_tell")


def test_settings_are_compared_by_key(fixed: Comparison) -> None:
    changed = {f.key: (f.a, f.b) for f in fixed.configuration.changed}
    assert changed["arg.mem_fraction_static"] == ("0.8", "0.87")
    assert fixed.configuration.same > 20
    assert {f.key for f in fixed.configuration.only_a} >= {"l2_capacity_tokens"}
    incidental_ones = {f.key for f in fixed.configuration.changed if f.incidental}
    assert "mem_left_bytes" in incidental_ones
    assert not incidental("arg.max_running_requests")


def test_a_side_compared_with_itself_has_no_change(side_of: Sides) -> None:
    both = side_of("l1_bound_sglang")
    same = compare(both, both)
    assert same.change.outcome == same.change.numbers == "no_clear_change"
    assert {d.difference for d in same.deltas} <= {0.0, None}
    assert {d.direction for d in same.deltas if d.difference is not None} == {"neither"}
    assert not any(pair.changed for pair in same.answers)
    assert same.configuration.changed == ()
    assert same.change.weakens == ()


def test_two_windows_of_one_trace(side_of: Sides) -> None:
    before = side_of("recorded_l1_bound", until=RECORDED.replace(minute=8, second=20))
    during = side_of("recorded_l1_bound", since=RECORDED.replace(minute=8, second=25), until=RECORDED.replace(minute=9, second=50))
    change = compare(before, during)
    assert (change.a.cause, change.b.cause) == ("none", "l1_bound")
    assert change.change.numbers == "worse"
    assert change.a.window.end is not None
    assert change.b.window.start is not None
    assert change.a.window.end < change.b.window.start
    thrown = change.delta("thrown_out")
    assert thrown.a.value == 0
    assert thrown.b.value is not None
    assert 300 < thrown.b.value < 378
    waited = change.delta("queue_wait")
    assert waited.a.value is not None
    assert waited.b.value is not None
    assert waited.a.value < 0.1 < 10 < waited.b.value


def test_another_cause_is_said(side_of: Sides) -> None:
    change = compare(side_of("l1_bound_sglang"), side_of("cap_bound_sglang"))
    assert (change.a.cause, change.b.cause) == ("l1_bound", "cap_bound")
    assert "The verdict of A, L1-bound, is gone; now it is Cap-bound." in change.change.sentence


def test_a_log_alone_and_records_share_no_ttft(side_of: Sides) -> None:
    bare = compare(side_of("l1_bound_sglang", only=("server.log",)), side_of("l1_bound_sglang"))
    p99 = bare.delta("ttft_p99")
    assert p99.a.value is None
    assert p99.direction == "cannot_tell"
    assert "TTFT was recorded by one side only." in bare.change.weakens
    # the queue is told by both logs, and it is the same one
    assert bare.change.numbers == "no_clear_change"


def test_histograms_are_compared_where_one_side_has_nothing_finer(side_of: Sides) -> None:
    scraped = side_of("l1_bound_sglang", only=("server.log", "metrics.prom.gz"))
    p95 = compare(side_of("l1_bound_sglang"), scraped).delta("ttft_p95")
    assert p95.a.source == p95.b.source == "histogram"
    assert p95.direction == "neither"
    whole = compare(side_of("l1_bound_sglang"), side_of("l1_bound_sglang")).delta("ttft_p95")
    assert whole.a.value is not None
    assert p95.a.low is not None
    assert p95.a.high is not None
    assert p95.a.low <= whole.a.value <= p95.a.high


def test_different_sources_are_not_compared(side_of: Sides) -> None:
    scraped = side_of("l1_bound_sglang", only=("server.log", "metrics.prom.gz"))
    told = side_of("healthy_sglang", only=("server.log", "client.jsonl.gz"))
    change = compare(scraped, told)
    p50 = change.delta("ttft_p50")
    assert {p50.a.source, p50.b.source} == {"histogram", "client"}
    assert p50.direction == "cannot_tell"
    assert any("different sources" in w for w in change.change.weakens)
    # the queue is there on both sides, so that something can be said
    assert change.change.numbers == "better"


def test_a_log_without_preemptions_is_not_zero_preemptions(side_of: Sides) -> None:
    blind = compare(side_of("recorded_l1_bound", only=("server.log",)), side_of("recorded_l1_bound")).delta("thrown_out")
    assert blind.a.value is None
    assert blind.b.value == 378
    assert blind.direction == "cannot_tell"


def test_a_restart_within_a_side_is_said(side_of: Sides) -> None:
    change = compare(side_of("restart_sglang"), side_of("healthy_sglang"))
    assert change.a.runs == 2
    assert "kv_capacity_tokens" in change.configuration.within_a
    assert any("A holds 2 process lifetimes, and between them changed" in w for w in change.change.weakens)


def test_an_instance_that_is_not_there_is_named(side_of: Sides) -> None:
    there = side_of("dp_sglang")
    with pytest.raises(KvpmError, match="B holds no instance 'pod-9'") as error:
        side(there.trace, there.diagnosis, letter="B", instance="pod-9")
    assert there.instance.instance in error.value.hint


def test_the_instance_called_alike_is_taken_else_the_worst(side_of: Sides) -> None:
    there = side_of("dp_sglang")
    others = tuple(replace(there.instance, instance=name) for name in ("worst", "pod-b"))
    told = replace(there.diagnosis, instances=others)
    assert side(there.trace, told, letter="B", like="pod-b").instance.instance == "pod-b"
    assert side(there.trace, told, letter="B", like="gone").instance.instance == "worst"
    with pytest.raises(KvpmError, match="B holds no instance of an engine"):
        side(there.trace, replace(there.diagnosis, instances=()), letter="B")


def test_the_json_is_whole_and_says_its_version_first(fixed: Comparison) -> None:
    document = fixed.to_dict()
    text = json.dumps(document, allow_nan=False)
    assert next(iter(document)) == "schema_version"
    assert len(document["deltas"]) == len(fixed.deltas)
    assert document["a"]["window"]["start"].endswith("Z")
    assert json.loads(text) == document


def test_the_public_call_gives_the_same(side_of: Sides, fixed: Comparison) -> None:
    got = analyzer.compare(side_of("l1_bound_sglang").trace, side_of("healthy_sglang").trace)
    assert got.change == fixed.change
    assert got.deltas == fixed.deltas
    zh = analyzer.compare(side_of("l1_bound_sglang").trace, side_of("healthy_sglang").trace, lang="zh")
    assert [d.a.value for d in zh.deltas] == [d.a.value for d in fixed.deltas]
    assert zh.change.outcome == fixed.change.outcome


def test_curves_begin_where_their_side_begins(side_of: Sides) -> None:
    a, b = side_of("l1_bound_sglang"), side_of("healthy_sglang")
    drawn = figure(a, b)
    assert drawn is not None
    assert drawn.axis.start == 0
    starts = [s.segments[0].points[0][0] for p in drawn.panels for s in p.panel.series if p.panel.key == "waiting"]
    assert starts == [0.0, 0.0]
    peaks = {s.style: s.peak for p in drawn.panels for s in p.panel.series if p.panel.key == "waiting"}
    assert peaks == {"side-a": float(a.instance.peaks.waiting or 0), "side-b": 0.0}
    assert {p.panel.key for p in drawn.panels} >= {"ttft", "waiting", "running", "kv", "thrown", "prefill", "decode"}


def test_curves_aligned_by_incident_put_it_at_zero(side_of: Sides) -> None:
    a, b = side_of("l1_bound_sglang"), side_of("healthy_sglang")
    drawn = figure(a, b, "incident")
    assert drawn is not None
    assert drawn.axis.start < 0
    assert drawn.lanes[0].marks[0].start == 0
    assert "B has no incident: it is drawn from its start." in drawn.notes
    assert 0.0 in ticks(drawn.axis)


def test_moments_of_the_axis_carry_their_sign() -> None:
    assert [since(s) for s in (-90.0, 0.0, 60.0)] == ["−1\u00a0min\u00a030\u00a0s", "0\u00a0s", "+1\u00a0min"]
    assert len(ticks(TimeAxis(0, 400 * 86400))) <= 9


def test_the_language_changes_words_only(side_of: Sides, fixed: Comparison) -> None:
    with use("zh"):
        zh = compare(side_of("l1_bound_sglang"), side_of("healthy_sglang"))
    assert [(d.id, d.direction) for d in zh.deltas] == [(d.id, d.direction) for d in fixed.deltas]
