"""Rows and verdict from made-up measurements: what is compared with what, and what is told of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from analyzer.comparison import said
from analyzer.comparison.deltas import ROWS, deltas, paired
from analyzer.comparison.judge import judge, load_ratio
from analyzer.comparison.measure import Measured, busy_rate
from analyzer.comparison.model import Change, Configuration, Delta, FactPair, Measurement, SideSummary
from analyzer.diagnosis.model import Window

NOTHING = Configuration((), (), (), same=5)
HOUR = (3600.0, 3600.0)


def value(number: float | None, source: str = "metrics", **more: Any) -> dict[str, Measurement]:
    return {source: Measurement(number, source=source, **more)}


def rows(a: Measured, b: Measured, lengths: tuple[float | None, float | None] = HOUR) -> dict[str, Delta]:
    return {d.id: d for d in deltas(a, b, lengths=lengths, incident=(True, True))}


def about(letter: str, **more: Any) -> SideSummary:
    known: dict[str, Any] = {
        "name": letter,
        "trace": letter,
        "instance": "pod",
        "engine": "vllm",
        "versions": "0.32.0",
        "runs": 1,
        "run_id": "r1",
        "window": Window(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=UTC)),
        "seconds": 3600.0,
        "cause": "l1_bound",
        "confidence": "high",
        "sentence": "It was full.",
        "incident": Window(None, None),
        "incidents": 1,
        "cut": False,
    }
    return SideSummary(**known | more)


def judged(a: Measured, b: Measured, configuration: Configuration = NOTHING, **of_b: Any) -> Change:
    return judge(about("A"), about("B", **of_b), tuple(rows(a, b).values()), configuration)


def exact(p50: float, *, spread: float = 0.05, n: int = 1000, source: str = "client") -> Measured:
    """TTFT percentiles with bounds of `spread` around them."""
    return {
        f"ttft_{name}": value(p50 * times, source, low=p50 * times * (1 - spread), high=p50 * times * (1 + spread), n=n)
        for name, times in (("p50", 1), ("p95", 3), ("p99", 5))
    }


def load(rate: float, prompt: float = 100.0, output: float = 50.0) -> Measured:
    return {
        "arrival_rate_busy": value(rate, "client"),
        "prompt_tokens": value(prompt, "client"),
        "output_tokens": value(output, "client"),
    }


def test_what_one_side_lacks_is_not_zero() -> None:
    d = rows({"waiting_peak": value(9.0)}, {})["waiting_peak"]
    assert (d.difference, d.ratio, d.direction) == (None, None, "cannot_tell")
    assert said.value(d.b, d.unit) == "not reported"


def test_the_first_source_that_both_have_is_compared() -> None:
    a = value(1.0, "client") | value(2.0, "histogram")
    b = value(4.0, "histogram")
    assert [m.value for m in paired(a, b)] == [2.0, 4.0]


def test_without_a_common_source_nothing_is_told_apart() -> None:
    d = rows({"ttft_p50": value(9.0, "client")}, {"ttft_p50": value(0.1, "histogram")})["ttft_p50"]
    assert (d.direction, d.note) == ("cannot_tell", "different sources")
    assert said.basis(d) == "A: client records; B: histograms"


def test_log_and_metrics_tell_the_same_and_it_is_said() -> None:
    d = rows({"waiting_mean": value(20.0, "log")}, {"waiting_mean": value(1.0, "metrics")})["waiting_mean"]
    assert (d.direction, d.note) == ("better", "from different sources")


def test_percentiles_whose_bounds_overlap_are_no_change() -> None:
    wide = rows(exact(1.0, spread=0.5), exact(1.5, spread=0.5))["ttft_p50"]
    assert (wide.direction, wide.note) == ("cannot_tell", "may be chance: the 95 % bounds overlap")
    narrow = rows(exact(1.0), exact(1.5))["ttft_p50"]
    assert narrow.direction == "worse"
    near = rows(exact(1.0), exact(1.05))["ttft_p50"]
    assert near.direction == "neither"


def test_longer_than_can_be_told_is_worse_than_what_was_measured() -> None:
    short, long_ = value(1.0, "client", low=0.9, high=1.1), value(30.0, "client", low=29.0, at_least=True)
    assert rows({"ttft_p99": short}, {"ttft_p99": long_})["ttft_p99"].direction == "worse"
    assert rows({"ttft_p99": long_}, {"ttft_p99": short})["ttft_p99"].direction == "better"
    both = rows({"ttft_p99": long_}, {"ttft_p99": long_})["ttft_p99"]
    assert (both.difference, both.ratio, both.direction) == (None, None, "cannot_tell")
    assert said.value(Measurement(30.0, at_least=True), "s") == "over 30\u00a0s"


def test_counts_of_unequal_captures_are_left_to_their_rates() -> None:
    told = {"incident_s": value(100.0, "incident"), "incident_share": value(0.1, "incident")}
    none = {"incident_s": value(0.0, "incident"), "incident_share": value(0.0, "incident")}
    unequal = rows(told, none, (1000.0, 5000.0))
    assert (unequal["incident_s"].direction, unequal["incident_share"].direction) == ("cannot_tell", "better")
    assert rows(told, none)["incident_s"].direction == "better"


def test_a_handful_of_retractions_is_chance() -> None:
    few = rows({"thrown_out_per_hour": value(3.0, "log", n=3, of=1.0)}, {"thrown_out_per_hour": value(6.0, "log", n=6, of=1.0)})
    assert few["thrown_out_per_hour"].direction == "cannot_tell"
    many = rows({"thrown_out_per_hour": value(30.0, "log", n=30, of=1.0)}, {"thrown_out_per_hour": value(90.0, "log", n=90, of=1.0)})
    assert many["thrown_out_per_hour"].direction == "worse"


def test_load_is_neither_better_nor_worse() -> None:
    told = rows(load(1.0), load(9.0))
    assert told["arrival_rate_busy"].direction == "neither"
    assert all(r.wish == "none" for r in ROWS if r.group == "load")


def test_no_incident_is_said_instead_of_a_value() -> None:
    d = {d.id: d for d in deltas({"ttft_p99_incident": value(9.0, "client")}, {}, lengths=HOUR, incident=(True, False))}[
        "ttft_p99_incident"
    ]
    assert (said.value(d.b, d.unit), d.direction) == ("no incident", "cannot_tell")


def test_idle_time_does_not_change_the_rate_a_request_meets() -> None:
    steady = [(float(i), 1.0) for i in range(0, 300)]
    idle = [*steady, (5000.0, 1.0)]
    assert busy_rate(steady) == pytest.approx(1.0, rel=0.03)
    assert busy_rate(idle) == pytest.approx(1.0, rel=0.03)
    assert busy_rate([(0.0, 1.0)]) is None
    assert busy_rate([]) is None


def test_load_counts_tokens_where_both_tell_them() -> None:
    assert load_ratio(rows(load(2.0), load(1.0, prompt=200.0, output=100.0))) == pytest.approx(1.0)
    rate_only = {"arrival_rate_busy": value(2.0, "client")}
    assert load_ratio(rows(rate_only, load(1.0))) == pytest.approx(0.5)
    assert load_ratio(rows({}, load(1.0))) is None


def test_a_log_that_tells_prompts_alone_still_tells_the_load() -> None:
    prompts = [{"arrival_rate_busy": value(1.0, "log"), "prompt_tokens": value(n, "log")} for n in (6000.0, 2000.0)]
    assert load_ratio(rows(*prompts)) == pytest.approx(1 / 3)


def test_better_under_the_same_load_is_better() -> None:
    change = judged(exact(9.0) | load(1.0), exact(0.1) | load(1.02), cause="none")
    assert (change.outcome, change.numbers, change.same_cause) == ("better", "better", False)
    assert "TTFT P99 went from 45\u00a0s to 500\u00a0ms" in change.sentence
    assert "The verdict of A, L1-bound, is gone: B shows no incident." in change.sentence
    assert not [w for w in change.weakens if "load" in w]


def test_better_under_less_load_is_not_proven() -> None:
    change = judged(exact(9.0) | load(1.0), exact(0.1) | load(0.7))
    assert (change.outcome, change.numbers) == ("cannot_tell", "better")
    assert "30\u00a0% lower" in change.sentence
    assert change.same_cause


def test_worse_under_more_load_is_not_proven_and_better_under_more_is() -> None:
    assert judged(exact(0.1) | load(1.0), exact(9.0) | load(3.0)).outcome == "cannot_tell"
    assert judged(exact(9.0) | load(1.0), exact(0.1) | load(3.0)).outcome == "better"


def test_a_crash_is_not_excused_by_load() -> None:
    lost = {"error_share": value(0.0, "client", n=0, of=1000)}, {"error_share": value(0.2, "client", n=200, of=1000)}
    change = judged(lost[0] | load(1.0), lost[1] | load(3.0), cause="crash")
    assert change.outcome == "worse"


def lost(share: float) -> Measured:
    return {"error_share": value(share, "client", n=round(1000 * share), of=1000)}


def test_failures_against_percentiles_are_no_clear_change_whichever_side_comes_first() -> None:
    failing, slow = exact(0.1) | lost(0.5), exact(9.0) | lost(0.0)
    assert judged(failing, slow).outcome == "no_clear_change"
    assert judged(slow, failing).outcome == "no_clear_change"


def test_the_excuse_of_load_is_the_same_in_both_directions() -> None:
    fast, slow = exact(0.1) | load(1.0), exact(9.0) | load(1.22)
    assert judged(fast, slow).outcome == "cannot_tell"
    assert judged(slow, fast).outcome == "cannot_tell"


def test_a_percentile_of_so_few_requests_that_it_has_no_bounds_is_no_change() -> None:
    one = {f"ttft_{name}": value(0.9, "client", n=1) for name in ("p50", "p95", "p99")}
    slow = {f"ttft_{name}": value(119.0, "client", n=1) for name in ("p50", "p95", "p99")}
    assert {rows(one, slow)[i].direction for i in one} == {"cannot_tell"}
    assert judged(one, slow).outcome == "cannot_tell"


def test_incidents_found_in_different_ways_are_not_compared() -> None:
    a, b = ({"incident_share": value(0.4, source)} for source in ("queue", "first tokens"))
    assert rows(a, b)["incident_share"].direction == "cannot_tell"


def test_what_went_the_other_way_is_said() -> None:
    change = judged(exact(9.0) | {"waiting_mean": value(1.0)}, exact(0.1) | {"waiting_mean": value(20.0)})
    assert change.outcome == "better"
    assert "Not all went that way; worse: Waiting, mean." in change.weakens


def test_unknown_load_is_said() -> None:
    change = judged(exact(9.0), exact(0.1))
    assert change.outcome == "better"
    assert any("a different load cannot be ruled out" in w for w in change.weakens)


def test_better_and_worse_percentiles_are_no_clear_change() -> None:
    b = exact(0.5) | {"ttft_p99": value(60.0, "client", low=50.0, high=70.0, n=1000)}
    change = judged(exact(1.0), b)
    assert change.outcome == "no_clear_change"
    assert "TTFT P99 worse" in change.sentence
    assert "TTFT P50 better" in change.sentence


def test_faster_tokens_for_fewer_requests_are_no_improvement() -> None:
    a = exact(9.0) | {"error_share": value(0.0, "client", n=0, of=1000)}
    b = exact(0.1) | {"error_share": value(0.3, "client", n=300, of=1000)}
    assert judged(a, b).outcome == "no_clear_change"


def test_the_queue_decides_where_first_tokens_do_not_tell() -> None:
    change = judged({"waiting_mean": value(40.0)}, {"waiting_mean": value(0.0)})
    assert change.outcome == "better"
    assert "TTFT was recorded by neither side: the queue stands in for it." in change.weakens


def test_nothing_in_common_cannot_be_told() -> None:
    assert judged({"waiting_mean": value(40.0)}, {}).outcome == "cannot_tell"


def test_what_weakens_is_said() -> None:
    configuration = Configuration(
        (FactPair("arg.model", "a", "b", "", "", ""),), (), (), same=1, within_b=("arg.max_num_seqs",)
    )  # fmt: skip
    a, b = exact(1.0, n=40) | load(1.0), exact(1.0) | load(1.0, prompt=400.0, output=20.0)
    change = judged(a, b, configuration, seconds=100.0, cut=True, runs=2, engine="sglang")
    told = " ".join(change.weakens)
    for part in (
        "The engines differ: vllm and sglang.",
        "The models differ: a and b.",
        "B's load was 2.8 times A's",
        "another mix",
        "The captures differ in length: 1\u00a0h and 1\u00a0min\u00a040\u00a0s.",
        "TTFT of A is of 40 requests only",
        "An input of B was cut short",
        "B holds 2 process lifetimes, and between them changed: max_num_seqs.",
    ):
        assert part in told


def test_settings_that_changed_are_among_the_reasons_and_a_seed_is_not() -> None:
    changed = FactPair("arg.max_num_seqs", "2", "64", "", "", ""), FactPair("arg.seed", "1", "2", "", "", "", incidental=True)
    change = judged(exact(9.0), exact(0.1), Configuration(changed, (), (), same=3))
    assert "Changed settings: max_num_seqs from 2 to 64." in change.reasons
