"""Charts: round axes, gaps that stay gaps, extremes that survive thinning, and safe text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.report import charts
from analyzer.report.charts import Lane, Mark, Panel, Segment, Series, TimeAxis

AXIS = TimeAxis(0.0, 100.0)


def tens(count: int) -> list[tuple[float, float]]:
    """Buckets of ten seconds."""
    return [(i * 10.0, i * 10.0 + 10) for i in range(count)]


def parse(markup: str) -> ElementTree.Element:
    """The markup as XML: it has to be well-formed."""
    return ElementTree.fromstring(markup)


def test_unknown_buckets_are_gaps_and_never_zero() -> None:
    found = charts.segments(tens(6), [1.0, 2.0, None, None, 5.0, None])
    assert [(s.points, s.end) for s in found] == [
        (((0.0, 0.0, 1.0), (10.0, 0.0, 2.0)), 20.0),
        (((40.0, 0.0, 5.0),), 50.0),
    ]


def test_a_break_ends_a_curve_between_known_values() -> None:
    found = charts.segments(tens(4), [1.0, 1.0, 1.0, 1.0], breaks=[2])
    assert [s.end for s in found] == [20.0, 40.0]


def test_nothing_known_draws_nothing() -> None:
    assert charts.segments(tens(3), [None, None, None]) == ()
    assert charts.segments([], []) == ()


def test_gaps_survive_thinning() -> None:
    values: list[float | None] = [float(i % 7) for i in range(5000)]
    values[2500:2600] = [None] * 100
    found = charts.segments(tens(5000), values, limit=600)
    assert len(found) == 2
    assert found[0].end == 25_000.0
    assert found[1].points[0][0] >= 26_000.0


@pytest.mark.parametrize(
    ("top", "integer", "ticks"),
    [
        (40.2, False, (0, 20, 40, 60)),
        (1.0, False, (0, 0.25, 0.5, 0.75, 1.0)),
        (3, True, (0, 1, 2, 3)),
        (128, True, (0, 50, 100, 150)),
        (0.02, False, (0, 0.005, 0.01, 0.015, 0.02)),
        (0, True, (0, 1)),
        (float("nan"), False, (0, 1)),
    ],
)
def test_y_ticks_are_round(top: float, integer: bool, ticks: tuple[float, ...]) -> None:
    assert charts.nice_ticks(top, integer=integer) == ticks


@given(st.floats(1e-9, 1e15), st.booleans())
def test_y_ticks_cover_the_data(top: float, integer: bool) -> None:
    ticks = charts.nice_ticks(top, integer=integer)
    assert ticks[-1] >= top * (1 - 1e-6) or ticks[-1] >= round(top, 12)
    assert 2 <= len(ticks) <= 8


def test_time_ticks_are_round_utc_times() -> None:
    midnight = 1_796_083_200  # 2026-12-01
    assert charts.time_ticks(midnight - 700, midnight + 800, 6) == (
        (midnight - 600, "23:50"),
        (midnight - 300, "23:55"),
        (midnight, "1 Dec"),
        (midnight + 300, "00:05"),
        (midnight + 600, "00:10"),
    )
    assert charts.time_ticks(0.2, 3.9)[0] == (1, "00:00:01")


@given(st.floats(0, 4e9), st.floats(0.5, 4e9))
def test_time_ticks_are_bounded(start: float, span: float) -> None:
    assert len(charts.time_ticks(start, start + span)) <= 17


def test_usage_is_always_drawn_from_0_to_100_per_cent() -> None:
    low = Series("usage", "usage", charts.segments(tens(2), [0.01, 0.02]))
    svg = charts.render_panel(Panel("kv", "KV", "share", (low,), top=1.0), AXIS, uid="a")
    labels = [t.text for t in parse(svg).iter("text")]
    assert labels == ["0%", "25%", "50%", "75%", "100%"]


def test_a_curve_holds_until_the_end_of_its_bucket() -> None:
    curve = Series("x", "waiting", (Segment(((0.0, 0.0, 1.0), (50.0, 0.0, 0.0)), 100.0),))
    svg = parse(charts.render_panel(Panel("r", "R", "requests", (curve,)), AXIS, uid="a"))
    assert [p.get("d") for p in svg.iter("path")] == ["M0 6H500V114H1000"]


def test_a_band_lies_between_its_edges() -> None:
    band = Series("x", "used", (Segment(((0.0, 0.5, 1.0), (50.0, 0.25, 0.5)), 100.0),), band=True)
    svg = parse(charts.render_panel(Panel("r", "R", "share", (band,), top=1.0), AXIS, uid="a"))
    assert [p.get("d") for p in svg.iter("path")] == ["M0 6H500V60H1000L1000 87H500L500 60H0Z"]


def test_a_picture_has_a_title_and_says_its_peaks() -> None:
    curve = Series("waiting", "waiting", charts.segments(tens(4), [3.0, None, 7.0, 1.0]))
    svg = parse(charts.render_panel(Panel("r", "Requests", "requests", (curve,)), AXIS, uid="u1"))
    assert svg.get("role") == "img"
    assert svg.get("aria-labelledby") == "u1-t u1-d"
    title, desc = svg.find("title"), svg.find("desc")
    assert title is not None
    assert (title.get("id"), title.text) == ("u1-t", "Requests")
    assert desc is not None
    assert desc.text == "waiting: highest bucket 7\u00a0requests at 00:00:20, 1 gap."


def test_window_and_restarts_are_in_every_panel() -> None:
    axis = TimeAxis(0.0, 100.0, (20.0, 60.0), ((50.0, "restart"),))
    svg = parse(charts.render_panel(Panel("r", "R", "s", ()), axis, uid="a"))
    shade = next(e for e in svg.iter("rect") if e.get("class") == "shade")
    assert (shade.get("x"), shade.get("width")) == ("20%", "40%")
    assert [e.get("x1") for e in svg.iter("line") if e.get("class") == "rule"] == ["50%"]
    names = [t.text for t in parse(charts.render_axis(axis, labels=True)).iter("text")]
    assert names[:2] == ["incident", "restart"]


def test_text_is_escaped_in_marks_titles_and_legends() -> None:
    bad = "</title><script>alert(1)</script>"
    lane = Lane("failure", bad, "cross", (Mark(1, 2, 1, bad),), bad)
    panel = Panel("r", bad, "s", (Series(bad, "waiting", ()),))
    for markup in (
        charts.render_lane(lane, AXIS, uid="a"),
        charts.render_panel(panel, AXIS, uid="b"),
        charts.render_axis(TimeAxis(0, 9, (1, 2), ((3, bad),)), labels=True),
    ):
        assert "<script" not in markup
        parse(markup)


def test_attributes_are_escaped() -> None:
    assert charts.element("a", {"x": '"><b>', "y": None}, "<") == '<a x="&#34;&gt;&lt;b&gt;">&lt;</a>'


def test_bars_grow_with_the_count_and_one_is_still_seen() -> None:
    lane = Lane("retracted", "R", "bar", (Mark(0, 10, 1, "a"), Mark(10, 20, 400, "b")))
    svg = parse(charts.render_lane(lane, AXIS, uid="a"))
    assert [e.get("height") for e in svg.iter("rect")] == ["5", "20"]


def test_numbers_in_attributes_are_short() -> None:
    curve = Series("x", "waiting", charts.segments(tens(9), [i / 7 for i in range(9)]))
    svg = charts.render_panel(Panel("r", "R", "s", (curve,)), TimeAxis(0, 93), uid="a")
    assert not re.search(r"\d\.\d{3}", svg)
