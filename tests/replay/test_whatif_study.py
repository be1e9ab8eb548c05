"""A whole study: grid, processes, goals, and how it is told in words and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest
from whatif_cases import SGLANG, VLLM, calibrated, case, outcome, requests, with_settings

from analyzer import language
from analyzer.errors import ExitCode, KvpmError
from analyzer.replay import parallel
from analyzer.replay.as_json import document, to_dict
from analyzer.replay.goal import parse as goal
from analyzer.replay.grid import grid
from analyzer.replay.knobs import KNOBS, parse
from analyzer.replay.model import Case, Change, Measure, NoReplay, SettingRow, Study, WhatIf
from analyzer.replay.parallel import measure_all
from analyzer.replay.settings import L2, Settings
from analyzer.replay.step_time import StepTime
from analyzer.replay.study import Asked, study_case
from analyzer.replay.text import text
from analyzer.replay.what_if import measure
from analyzer.replay.words import ranked, sentence, setting, spoken


def _study(of: Case, asked: Asked | None = None) -> Study:
    return study_case(of, asked or Asked(), calibrated(of), jobs=1)


@pytest.fixture(scope="module")
def whole() -> Study:
    """A burst that a small pool cannot hold, everything tried, and a goal."""
    of = replace(case(), setting_rows=(SettingRow("l1_tokens", "2048", "read", "server.log:7"), SettingRow("overlap", "off", "assumed")))
    return _study(of, Asked((parse("l1_tokens=x1.25,max_running=x2"),), ((goal("ttft_p99<2s"), "l1_tokens"),)))


@pytest.mark.parametrize(("settings", "others"), [(SGLANG, {"step_tokens"}), (VLLM, {"conservativeness", "chunked_prefill_tokens"})])
def test_the_grid_tries_each_knob_of_the_engine(settings: Settings, others: set[str]) -> None:
    tried, skipped = grid(case(settings))
    assert {c.knob for (c,) in tried} == set(KNOBS) - others
    assert len(skipped) == len(others)
    assert all("no setting of" in why for why in skipped)
    assert len(set(tried)) == len(tried)


def test_the_grid_around_an_l2_and_one_without() -> None:
    there, _skipped = grid(case(replace(SGLANG, l2=L2(4096, 1000.0, 16))))
    assert [c.text for (c,) in there if c.knob == "l2_tokens"] == ["l2_tokens=x0", "l2_tokens=x1", "l2_tokens=x2"]
    without, _skipped = grid(case())
    assert [c.text for (c,) in without if c.knob == "l2_tokens"] == ["l2_tokens=2048", "l2_tokens=4096"]


def test_the_grid_leaves_out_what_cannot_be() -> None:
    tried, skipped = grid(with_settings(case(), chunked_prefill_tokens=None, max_running=1))
    assert not any(c.knob == "chunked_prefill_tokens" for (c,) in tried)
    assert [c.text for (c,) in tried if c.knob == "max_running"] == ["max_running=x2"]
    assert any("prefill chunk: not set here" in why for why in skipped)
    assert any("running cap: max_running=x0.5 comes to 0" in why for why in skipped)


def test_answers_are_capped_where_they_end() -> None:
    """Clients that ask for far more than comes: a cap there cuts nothing off."""
    tried, _skipped = grid(case(given=requests(5, output=20, asks=1000)))
    assert [c.text for (c,) in tried if c.knob == "max_new_tokens"] == ["max_new_tokens=x0.5", "max_new_tokens=24"]


def test_more_of_what_was_short_helps(whole: Study) -> None:
    p99 = {w.changes[0].text: w.outcome.ttft_p99_s for w in whole.what_ifs if len(w.changes) == 1}
    now = whole.unchanged.ttft_p99_s
    assert now is not None
    assert p99["l1_tokens=x2"] is not None
    assert p99["l1_tokens=x2"] < 0.7 * now
    assert p99["l2_tokens=4096"] == now
    (answer,) = whole.goals
    assert answer.outcome is not None
    assert answer.outcome.ttft_p99_s is not None
    assert answer.outcome.ttft_p99_s < 2


def test_what_was_asked_for_comes_first_and_once() -> None:
    found = _study(case(), Asked((parse("l1_tokens=x2"), parse("l1_tokens=x0.8"), parse("l1_tokens=x2"))))
    told = [",".join(c.text for c in w.changes) for w in found.what_ifs]
    assert told[:2] == ["l1_tokens=x2", "l1_tokens=x0.8"]
    assert len(set(told)) == len(told)
    only = _study(case(), Asked((parse("l1_tokens=x2"),), grid=False))
    assert len(only.what_ifs) == 1
    assert only.skipped == ()


def test_a_mistake_is_told_before_anything_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyzer.replay.study.measure_all", lambda *a, **k: pytest.fail("replayed"))
    with pytest.raises(KvpmError, match="no setting of SGLang"):
        _study(case(), Asked((parse("step_tokens=x2"),)))
    with pytest.raises(KvpmError, match="on or off"):
        _study(case(), Asked(goals=((goal("ttft_p99<2s"), "prefix_sharing"),)))


SETS = [(), parse("l1_tokens=x2"), parse("max_running=x0.5"), parse("arrival_rate=x0.5")]


def test_processes_give_the_same_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_FEW", 0)
    shown: list[tuple[int, int]] = []
    found = measure_all(case(), SETS, jobs=2, told=lambda done, of: shown.append((done, of)))
    assert found == [measure(case(), changes) for changes in SETS]
    assert shown == [(n, 4) for n in range(5)]


def test_what_a_process_refuses_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_FEW", 0)
    with pytest.raises(KvpmError, match="no setting of SGLang") as caught:
        measure_all(case(), [*SETS, parse("step_tokens=x2")], jobs=2)
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_few_replays_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "spread", lambda *_, **__: pytest.fail("a process"))
    assert len(measure_all(case(), SETS, jobs=2)) == 4
    assert measure_all(case(), [], jobs=2) == []


def test_the_best_comes_first() -> None:
    rows = [
        WhatIf((), outcome(p99, p50), None, None, trusted=True)
        for p99, p50 in ((3.0, 1.0), (None, None), (inf, 2.0), (1.0, 0.5), (3.0, 0.2))
    ]
    assert [(w.outcome.ttft_p99_s, w.outcome.ttft_p50_s) for w in ranked(rows)] == [
        (1.0, 0.5),
        (3.0, 0.2),
        (3.0, 1.0),
        (inf, 2.0),
        (None, None),
    ]


def test_the_text_has_all_of_it(whole: Study) -> None:
    told = text([whole], to_file=True).replace("\u00a0", " ")
    assert "The replay fits what was recorded: good." in told
    assert sentence(whole).replace("\u00a0", " ").split(";")[0] in told
    for part in ("nothing changed", "L1 × 2 (4,096 tokens)", "prefix sharing off", "step budget: no setting of SGLang", "server.log:7"):
        assert part in told
    assert "L1 × 1.25 (2,560 tokens), running cap × 2 (64 requests)" in told
    assert "Goal ttft_p99<2s by l1_tokens:" in told
    assert max(map(len, told.splitlines())) <= 130


def test_untrusted_rows_say_why() -> None:
    of = case()
    low = study_case(of, Asked(), calibrated(of, "low"), jobs=1)
    assert not any(w.trusted for w in low.what_ifs)
    told = text([low], to_file=True)
    assert "do not rely on what follows" in told
    assert "(1) not to be relied on: the replay with nothing changed does not fit what was recorded" in told
    assert "not to be relied on" in sentence(low)


def test_no_replay_says_what_to_record() -> None:
    told = text([NoReplay("a\x1b[31m server", "there is no pool size", "keep the start-up lines")], to_file=True)
    assert told == "a[31m server: no replay: there is no pool size\n  What it takes: keep the start-up lines\n"


def test_json_has_all_of_it(whole: Study) -> None:
    made = json.loads(json.dumps(document([whole, NoReplay("other", "why", "how")]), allow_nan=False))
    first, second = made["servers"]
    assert second == {"instance": "other", "replayed": False, "reason": "why", "hint": "how"}
    assert first["trust"] == "good"
    by_name = {w["set"]: w for w in first["what_ifs"]}
    twice = by_name["l1_tokens=x2"]
    assert twice["changes"] == [{"knob": "l1_tokens", "flag": "--mem-fraction-static", "unit": "tokens", "from": 2048, "to": 4096}]
    assert twice["ttft_p99_ratio"] == pytest.approx(twice["ttft_p99_s"] / first["unchanged"]["ttft_p99_s"])
    assert by_name["l1_tokens=x1.25,max_running=x2"]["changes"][1]["to"] == 64
    replayed = first["curves"]["replayed"]
    assert len({len(v) for v in replayed.values()}) == 1
    assert max(replayed["waiting"]) <= first["unchanged"]["max_waiting"]
    assert 0 < max(replayed["kv_usage"]) <= 1
    assert first["goals"][0]["set"].startswith("l1_tokens=")


def test_json_has_no_infinity() -> None:
    of = with_settings(case(), l1_tokens=64)
    made = to_dict(_study(of, Asked(grid=False)))
    assert made["unchanged"]["ttft_p99_s"] is None
    assert made["unchanged"]["ttft_p99_s_unbounded"] is True
    json.dumps(made, allow_nan=False)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("l1_tokens=x1.25", "25 % more L1"),
        ("l1_tokens=x0.75", "25 % less L1"),
        ("l1_tokens=4096", "twice the L1"),
        ("l1_tokens=x0.5", "half the L1"),
        ("l1_tokens=x4", "4 times the L1"),
        ("l1_tokens=5k", "2.5 times the L1"),
        ("arrival_rate=x3", "3 times the load"),
        ("l2_tokens=4096", "an L2 of 4,096 tokens"),
        ("l2_tokens=0", "no L2"),
        ("max_running=x2", "running cap at 64 requests"),
        ("prefix_sharing=off", "prefix sharing off"),
        ("arrival_rate=x0.5", "half the load"),
        ("l1_tokens=x2,max_running=x2", "L1 × 2 (4,096 tokens), running cap × 2 (64 requests)"),
    ],
)
def test_changes_in_a_sentence(typed: str, told: str) -> None:
    assert spoken(parse(typed), case()).replace("\u00a0", " ") == told


@pytest.mark.parametrize(
    ("typed", "told"),
    [("l2_tokens=0", "L2 off"), ("l2_tokens=4k", "L2 4,096 tokens"), ("conservativeness=x0.5", "conservativeness × 0.5 (0.5)")],
)
def test_changes_in_a_table(typed: str, told: str) -> None:
    assert setting(parse(typed), case()).replace("\u00a0", " ") == told


def _sentence(rows: Sequence[tuple[str, float]], now: float = 40.0) -> str:
    of = case(replace(SGLANG, l2=L2(4096, 1000.0, 16)))
    what_ifs = tuple(WhatIf(parse(typed), outcome(p99), None, None, trusted=True) for typed, p99 in rows)
    return sentence(Study(of, calibrated(of), outcome(now), what_ifs)).replace("\u00a0", " ")


def test_the_sentence_that_settles_it() -> None:
    rows = [("l1_tokens=x1.1", 30.0), ("l1_tokens=x1.25", 3.0), ("l1_tokens=x2", 1.0), ("l2_tokens=x1", 40.0), ("l2_tokens=x2", 40.0)]
    assert _sentence(rows) == "Twice the L2 leaves P99 TTFT at 40 s; 25 % more L1 brings it to 3 s."
    assert _sentence([*rows[:4], ("l2_tokens=x2", 4.0)]).startswith("Twice the L2 takes P99 TTFT from 40 s to 4 s;")


def test_an_assumption_about_l2_is_told_with_it() -> None:
    of = case()
    rows = (WhatIf(parse("l2_tokens=4096"), outcome(9.0), None, None, trusted=False, why_not="it is assumed"),)
    told = sentence(Study(of, calibrated(of), outcome(40.0), rows)).replace("\u00a0", " ")
    assert told == "An L2 of 4,096 tokens takes P99 TTFT from 40 s to 9 s (it is assumed)."


def test_what_helps_and_is_doubtful_is_told_with_its_doubt_and_not_as_nothing() -> None:
    of = case()
    rows = (
        WhatIf(parse("l1_tokens=x2"), outcome(40.0), None, None, trusted=True),
        WhatIf(parse("max_running=x2"), outcome(4.0), None, None, trusted=False, why_not="batches that large were not recorded"),
    )
    told = sentence(Study(of, calibrated(of), outcome(40.0), rows)).replace("\u00a0", " ")
    assert told.endswith("brings it to 4 s (batches that large were not recorded).")
    assert "no setting" not in told


def test_where_l1_does_not_help_the_sentence_says_what_does() -> None:
    rows = [("l2_tokens=x2", 40.0), ("l1_tokens=x1.25", 39.0), ("l1_tokens=x2", 38.0), ("max_running=x2", 1.0)]
    assert (
        _sentence(rows)
        == "Twice the L2 leaves P99 TTFT at 40 s; twice the L1 leaves it at 38 s; running cap at 64 requests brings it to 1 s."
    )
    # less load, or shorter answers, are no settings of the server
    other = [*rows[:3], ("arrival_rate=x0.5", 1.0), ("max_new_tokens=x0.5", 1.0)]
    assert _sentence(other) == "Twice the L2 leaves P99 TTFT at 40 s; twice the L1 leaves it at 38 s; no setting that was tried helps."


def test_the_sentence_where_no_token_came() -> None:
    assert (
        _sentence([("l2_tokens=x2", inf), ("l1_tokens=x2", 3.0)], inf)
        == "With twice the L2 not every first token comes; twice the L1 brings it to 3 s."
    )
    assert _sentence([("l2_tokens=x2", 9.0)], inf) == "Twice the L2 brings P99 TTFT to 9 s."
    assert _sentence([]) == ""


def test_the_sentence_is_said_in_chinese_too(whole: Study) -> None:
    with language.use("zh"):
        told = sentence(whole)
        made = text([whole], to_file=True)
    assert "TTFT" in told
    assert told != sentence(whole)
    assert "what was recorded" not in made


def test_changes_are_told_one_on_top_of_the_other() -> None:
    both = (Change("l2_tokens", 2048, times=False), Change("l1_tokens", 2, times=True))
    assert setting(both, case()).replace("\u00a0", " ") == "L2 2,048 tokens, L1 × 2 (4,096 tokens)"


def _measured(*measures: Measure, p99: float = 40.0) -> str:
    """The text of a study that came to this P99 and was held against the capture so."""
    of = case()
    study = Study(of, replace(calibrated(of), measures=measures), outcome(p99), ())
    return " ".join(text([study], to_file=True).replace("\u00a0", " ").split())


def test_two_percentiles_of_one_replay_are_explained() -> None:
    measure = Measure("ttft_p99", "s", 20.0, 21.0, 0.05, 0.05, 0.15, True)
    assert "P99 TTFT with nothing changed is 21 s where it is held against the capture" in _measured(measure)
    assert "and 40 s among the what-ifs, for those go on until all are served." in _measured(measure)
    assert "held against the capture, for it" not in _measured(measure, p99=21.01)


@pytest.mark.parametrize(("replayed", "error", "told"), [(30.0, 0.0, "inside the bucket ±0 %"), (50.0, 0.25, "25 % +25 %")])
def test_a_percentile_of_a_histogram_is_told_with_its_bucket(replayed: float, error: float, told: str) -> None:
    said = _measured(Measure("ttft_p99", "s", 33.0, replayed, error, error, 0.15, error <= 0.15, bucket=(20.0, 40.0)))
    assert f"P99 TTFT 20 to 40 s {replayed:g} s {told}" in said
    assert "TTFT was read off a histogram" in said


def test_a_bucket_without_an_end_is_no_infinity_in_json() -> None:
    of = case()
    measure = Measure("ttft_p99", "s", 33.0, 50.0, 0.0, 0.0, 0.15, True, bucket=(20.0, inf))
    study = Study(of, replace(calibrated(of), measures=(measure,)), outcome(50.0), ())
    (row,) = json.loads(json.dumps(to_dict(study), allow_nan=False))["fit"]
    assert (row["bucket_low"], row["bucket_high"], row["bucket_high_unbounded"]) == (20.0, None, True)
    assert "P99 TTFT over 20 s" in _measured(measure)


def test_what_an_error_is_a_share_of_is_said_below_the_table() -> None:
    told = _measured(Measure("running", "requests", 20.0, 21.0, 0.05, 0.05, 0.1, True))
    assert "of a curve it is the mean distance as a share of the range recorded" in told
    assert "histogram" not in told


def test_an_empty_table_says_how_to_fill_it(whole: Study) -> None:
    assert "No change was asked for: --set l1_tokens=x1.25 tries one" in _measured()
    assert "No change was asked for" not in text([whole], to_file=True)


def test_the_step_time_is_told_with_its_units_and_the_stalls_are_in_json() -> None:
    of = case()
    step = StepTime(0.007, 0.00002, 0.0002, attended_s=3e-10)
    stalled = replace(of, fitted=replace(of.fitted, step_time=step, stalls=((3.0, 1.5), (9.0, 0.5))))
    study = Study(stalled, calibrated(of), outcome(2.0), ())
    told = " ".join(text([study], to_file=True).replace("\u00a0", " ").split())
    terms = "7 ms + 20 µs per new token (prefill or decode) + 200 µs per request in the batch"
    assert f"A step takes {terms} + 0.3 ns per pair of a prefill token and a token before it." in told
    made = to_dict(study)["step_time"]
    assert (made["stalled_s"], made["stalls"][1]) == (2.0, {"at_s": 9.0, "seconds": 0.5})
    assert (made["attended_s"], made["pauses"]) == (3e-10, [])


@pytest.mark.parametrize("settings", [with_settings(case(VLLM), num_blocks=9), with_settings(case(), l1_tokens=128)])
def test_requests_that_never_fit_are_told_with_those_behind_them(settings: Case) -> None:
    study = study_case(settings, Asked(grid=False), calibrated(case()), jobs=1)
    told = " ".join(text([study], to_file=True).split())
    never, behind = study.unchanged.never, study.unchanged.open
    assert never
    assert f"nothing changed: {never} request" in told
    assert ("get no first token, behind" in told) == bool(behind)
