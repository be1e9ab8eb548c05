"""The curves of the section: gauges over each other, and P99 TTFT against the size of a pool."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from parsed_page import Page
from replay_fakes import L1_TOKENS, L2_TOKENS, T0, observed, study, vllm_study, what_if

from analyzer.diagnosis.model import Window
from analyzer.replay.model import ObservedCurve, Study
from analyzer.replay.result import Curves, Replayed
from analyzer.report.charts import Series
from analyzer.report.replay.draw import render_ladder
from analyzer.report.replay.gauges import gauges, means
from analyzer.report.replay.ladder import ladders

NEVER = Window(None, None)


def numbers(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("starts", "ends", "first", "last", "idle", "expected"),
    [
        # a stretch that ends within a bucket; nothing is known of the rest
        ((0.0,), (15.0,), (4.0,), (4.0,), None, [4.0, 4.0, None]),
        # the same where the server is idle then
        ((0.0,), (15.0,), (4.0,), (4.0,), 0.0, [4.0, 2.0, 0.0]),
        # what rises evenly has the mean of each bucket's middle
        ((0.0,), (30.0,), (0.0,), (30.0,), None, [5.0, 15.0, 25.0]),
        # two stretches in one bucket, weighed by their time, and a hole
        ((0.0, 4.0, 25.0), (4.0, 10.0, 30.0), (10.0, 0.0, 7.0), (10.0, 0.0, 7.0), None, [4.0, None, 7.0]),
        ((), (), (), (), None, [None, None, None]),
        ((), (), (), (), 0.0, [0.0, 0.0, 0.0]),
    ],
)
def test_means_are_weighed_by_time(
    starts: tuple[float, ...],
    ends: tuple[float, ...],
    first: tuple[float, ...],
    last: tuple[float, ...],
    idle: float | None,
    expected: list[float | None],
) -> None:
    told = means(numbers(0, 10, 20, 30), numbers(*starts), numbers(*ends), numbers(*first), numbers(*last), idle=idle)
    assert [None if v is None else round(v, 9) for v in told] == expected


def curve_of(told: Study, key: str, name: str) -> Series:
    chart = gauges(told, NEVER)
    assert chart is not None
    panel = next(p for p in chart.panels if p.key == key)
    return next(s for s in panel.series if s.name == name)


def test_both_curves_lie_where_they_were() -> None:
    start = T0.timestamp()
    seen = curve_of(study(), "waiting", "observed")
    assert seen.peak == 120.0
    assert seen.peak_at == start + 300
    made = curve_of(study(), "waiting", "replayed")
    assert made.peak == 112.0
    assert made.peak_at == start + 310


def test_what_was_not_reported_is_a_gap_and_idle_is_none() -> None:
    assert len(curve_of(study(), "waiting", "observed").segments) == 2
    curves = Curves([0.0, 600.0], [100.0, 700.0], [1, 1], [3, 3], [5, 5], [10.0, 10.0], [10.0, 10.0], [0.0, 0.0], [0, 0], [0, 0], [0, 0])
    plain = study()
    idle = replace(plain, calibration=replace(plain.calibration, unchanged=Replayed([], curves, 700.0, 20)))
    made = curve_of(idle, "waiting", "replayed")
    assert len(made.segments) == 1
    assert {p[2] for p in made.segments[0].points} == {0.0, 5.0}
    assert {p[2] for s in curve_of(idle, "kv", "replayed").segments for p in s.points} == {0.0, 0.5}


def test_a_gauge_that_was_not_recorded_is_not_drawn() -> None:
    chart = gauges(study(), NEVER)
    assert chart is not None
    assert [p.key for p in chart.panels] == ["waiting", "kv"]
    assert gauges(study(observed=replace(observed(), waiting=None, kv_usage=None)), NEVER) is None


def test_a_sample_that_is_no_number_is_not_drawn() -> None:
    curve = ObservedCurve((0.0, 10.0, 20.0), (1.0, math.nan, 3.0), "")
    drawn = curve_of(study(observed=replace(observed(), waiting=curve)), "waiting", "observed")
    assert [p[2] for s in drawn.segments for p in s.points] == [1.0, 3.0, 3.0, 3.0]
    assert len(drawn.segments) == 2


def test_the_incident_is_shaded_as_far_as_it_was_replayed() -> None:
    chart = gauges(study(), Window(T0 - timedelta(seconds=60), T0 + timedelta(seconds=30)))
    assert chart is not None
    assert chart.axis.shade == (T0.timestamp(), T0.timestamp() + 30)
    assert gauges(study(start=None), Window(T0, T0)) is not None


def test_a_long_recording_is_drawn_with_few_points() -> None:
    drawn = curve_of(study(observed=observed(0.05)), "waiting", "observed")
    assert 2 < sum(len(s.points) for s in drawn.segments) <= 182


def test_a_ladder_holds_each_size_once_and_the_present_one() -> None:
    l1, l2 = ladders(study())
    assert [round(r.tokens / L1_TOKENS, 2) for r in l1.rungs] == [0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0]
    assert [r.tokens for r in l2.rungs] == [0.0, L2_TOKENS, 2 * L2_TOKENS]
    assert [r.now for r in l2.rungs] == [False, True, False]
    assert l1.rungs[3].p99_s == 38.9
    assert (l1.floor_s, l1.top_s) == (l2.floor_s, l2.top_s) == (1.0, 200.0)
    assert not l1.rungs[0].trusted
    assert "never" in l1.rungs[0].hint
    assert "not trusted" in l1.rungs[0].hint


def test_waits_of_one_size_have_an_axis_from_zero() -> None:
    (l1,) = ladders(study(what_ifs=(what_if("l1_tokens", 2.0, 20.0),)))
    # the error of the P50 is half: the present P99 may be 38.9 s / (1 - 0.532)
    assert l1.rungs[0].high_s == pytest.approx(83.1, abs=0.05)
    assert (l1.floor_s, l1.top_s) == (0.0, 100.0)


@pytest.mark.parametrize(
    ("least", "most", "ends", "lines"),
    [
        (9.7, 223.0, (5.0, 500.0), ["5 s", "10 s", "20 s", "50 s", "100 s", "200 s", "500 s"]),
        (2.0, 50.0, (2.0, 50.0), ["2 s", "5 s", "10 s", "20 s", "50 s"]),
        (0.21, 9_000.0, (0.2, 10_000.0), ["1 s", "10 s", "100 s", "1k s", "10k s"]),
    ],
)
def test_waits_far_apart_have_a_logarithmic_axis_that_begins_and_ends_near_them(
    least: float, most: float, ends: tuple[float, float], lines: list[str]
) -> None:
    made = (what_if("l1_tokens", 0.5, most), what_if("l1_tokens", 2.0, least))
    made = tuple(replace(w, low_s=None, high_s=None) for w in made)
    unknown = replace(study().calibration, measures=())
    (ladder,) = ladders(study(what_ifs=made, unchanged=replace(study().unchanged, ttft_p99_s=least), calibration=unknown))
    assert (ladder.floor_s, ladder.top_s) == ends
    drawn = re.findall(r'class="tick" x="-6"[^>]*>([^<]+)<', str(render_ladder(ladder, uid="u")))
    assert drawn == lines


def test_without_an_l2_there_is_one_ladder_and_without_a_change_none() -> None:
    assert [ladder.key for ladder in ladders(vllm_study())] == ["l1"]
    assert ladders(study(what_ifs=())) == ()
    added = replace(vllm_study(), what_ifs=(what_if("l2_tokens", 4096, 30.0, times=False),))
    assert [r.tokens for r in ladders(added)[0].rungs] == [0.0, 4096.0]


def places(svg: str, css: str) -> list[tuple[float, float]]:
    uses = [a for tag, a in Page(svg).elements if tag == "use" and (a.get("class") or "").startswith(css)]
    return [(float((a["x"] or "").rstrip("%")), float(a["y"] or "")) for a in uses]


def test_the_drawing_has_a_mark_for_each_size_and_higher_is_longer() -> None:
    l1, l2 = ladders(study())
    svg = str(render_ladder(l1, uid="u"))
    marks = places(svg, "rung")
    assert [x for x, _ in marks] == sorted(x for x, _ in marks)
    assert all(a < b for (_, a), (_, b) in pairwise(marks[1:]))
    assert svg.count("#mark-triangle") == 1
    assert svg.count('class="rung doubtful"') == 1
    assert svg.count('class="band s-l1"') == 1
    # the present size of both, on one axis, at one height
    now = marks[3][1]
    assert places(str(render_ladder(l2, uid="v")), "rung")[1][1] == now
    assert Page(svg).faults == []


def test_names_of_sizes_do_not_overprint() -> None:
    l1, _ = ladders(study())
    svg = str(render_ladder(l1, uid="u"))
    axis = svg[svg.index('class="axis"') :]
    at = sorted(float(x) for x in re.findall(r'x="([\d.]+)%" y="14"', axis))
    assert len(at) >= 4
    assert all(b - a >= 11.9 for a, b in pairwise(at))
    assert ">now</text>" in axis


def test_all_waits_without_end_can_be_drawn() -> None:
    endless = study(what_ifs=(what_if("l1_tokens", 2.0, math.inf),), unchanged=replace(study().unchanged, ttft_p99_s=None))
    (ladder,) = ladders(endless)
    svg = str(render_ladder(ladder, uid="u"))
    assert svg.count("#mark-triangle") == 1
    assert "nan" not in svg


def test_the_present_size_has_the_error_of_all_others() -> None:
    l1, l2 = ladders(study())
    for now in (l1.rungs[3], l2.rungs[1]):
        assert now.low_s is not None
        assert now.high_s is not None
        assert now.low_s < 38.9 < now.high_s


def waits(svg: str) -> list[tuple[float, float, float]]:
    """Left, right and baseline of each wait beside its mark, in pixels of a narrow drawing."""
    found = []
    for x, base, anchor, text in re.findall(r'class="wait[^"]*" x="([\d.]+)%" y="([\d.]+)" text-anchor="(\w+)">([^<]+)<', svg):
        width, at = 6.4 * len(text), 2.9 * float(x)
        left = at - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        found.append((left, left + width, float(base)))
    return found


def test_the_waits_stand_beside_their_marks_and_do_not_overprint() -> None:
    l1, l2 = ladders(study())
    drawn = [waits(str(render_ladder(ladder, uid="u"))) for ladder in (l1, l2)]
    # seven of eight are waits, of which those that are close together at the right are one
    assert [len(d) for d in drawn] == [6, 3]
    for boxes in drawn:
        for i, (left, right, base) in enumerate(boxes):
            assert left >= 0
            assert right <= 290
            assert not [o for o in boxes[:i] if left < o[1] and o[0] < right and abs(base - o[2]) < 13]
    svg = str(render_ladder(l1, uid="u"))
    for wait in ("38.9\u00a0s", "2.1\u00a0s"):
        assert f">{wait}</text>" in svg


def test_no_pool_is_called_off() -> None:
    assert [r.label for r in ladders(study())[1].rungs] == ["off", "now", "×2"]
