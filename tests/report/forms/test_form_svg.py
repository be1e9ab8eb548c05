"""The picture that stands alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_fakes import HOSTILE, fleet, hostile, insufficient, l1_incident

from analyzer import language
from analyzer.report import fmt
from analyzer.report.charts import MAX_MARKS, Timeline
from analyzer.report.data import build_report
from analyzer.report.forms import svg
from analyzer.report.forms.pictures import report_picture
from analyzer.report.forms.svg import Picture, standalone_svg

SVG = "{http://www.w3.org/2000/svg}"
STYLES = Path(__file__).resolve().parents[3] / "templates" / "style"


def whole(fake: Callable[..., tuple]) -> Timeline:  # type: ignore[type-arg]
    timeline = build_report(*fake()).instances.rows[0].timeline
    assert timeline is not None
    return timeline


def drawn(fake: Callable[..., tuple]) -> Picture:  # type: ignore[type-arg]
    return standalone_svg(whole(fake))


@pytest.mark.parametrize("fake", [l1_incident, insufficient, fleet, hostile])
def test_it_is_well_formed_and_refers_to_nothing_outside(fake: Callable[..., tuple]) -> None:  # type: ignore[type-arg]
    picture = drawn(fake)
    root = ElementTree.fromstring(picture.svg)
    assert root.tag == f"{SVG}svg"
    assert (root.get("width"), root.get("height")) == (str(picture.width), str(picture.height))
    names = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert names <= {"svg", "style", "rect", "defs", "path", "circle", "text", "tspan", "line", "use", "title", "desc"}
    for element in root.iter():
        for key, value in element.attrib.items():
            assert not key.startswith("on")
            assert not key.endswith("href") or value.startswith("#mark-")
    style = next(root.iter(f"{SVG}style")).text or ""
    assert not re.search(r"url\(|@import|var\(|light-dark", style)


def test_its_text_is_text_and_hostile_text_too() -> None:
    title = fmt.clean(HOSTILE, 160)
    root = ElementTree.fromstring(standalone_svg(whole(l1_incident), title=HOSTILE).svg)
    words = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    assert words[0] == title
    assert "Requests waiting and running" in words
    assert "incident" in words


def test_everything_lies_within_the_picture() -> None:
    picture = drawn(l1_incident)
    root = ElementTree.fromstring(picture.svg)
    frames = [e for e in root.findall(f"{SVG}svg") if e.get("y")]
    assert len(frames) > MAX_MARKS // 20
    for frame in frames:
        assert float(frame.get("y", "0")) + float(frame.get("height", "0")) <= picture.height
        assert float(frame.get("x", "0")) + float(frame.get("width", "0")) <= picture.width
    assert all(float(t.get("y", "0")) <= picture.height for t in root.findall(f"{SVG}text"))


def test_the_same_timeline_gives_the_same_bytes() -> None:
    assert drawn(l1_incident) == drawn(l1_incident)


def test_every_curve_and_mark_of_the_page_has_its_colour() -> None:
    charts, base = (STYLES / "charts.css").read_text(), (STYLES / "base.css").read_text()
    colours = dict(re.findall(r"(--[\w-]+): light-dark\((#\w+),", base))
    lines = {name: colours[value] for name, value in re.findall(r"^\.s-([\w-]+) \{ --c: var\((--[\w-]+)\)", charts, re.MULTILINE)}
    bands = {name: colours[value] for name, value in re.findall(r"^\.band\.s-([\w-]+) \{ --c: var\((--[\w-]+)\)", charts, re.MULTILINE)}
    for name, (colour, _dashes, _opacity) in svg.CURVES.items():
        assert lines.get(name, bands.get(name)) == colour
        assert bands.get(name, lines.get(name)) == svg.BANDS.get(name, colour)
    marks = {name: colours[value] for name, value in re.findall(r"\.m-([\w-]+) \{ --c: var\((--[\w-]+)\)", charts)}
    assert marks == svg.MARKS


@pytest.mark.parametrize("fake", [l1_incident, insufficient, fleet])
def test_no_curve_is_without_a_colour(fake: Callable[..., tuple]) -> None:  # type: ignore[type-arg]
    for instance in build_report(*fake()).instances.rows:
        for timeline in (instance.timeline, instance.closeup, instance.story):
            if timeline is not None:
                assert {series.style for panel in timeline.panels for series in panel.series} <= set(svg.CURVES)
                assert {lane.key for lane in timeline.lanes} <= set(svg.MARKS)


def test_long_lines_are_broken_at_blanks_and_chinese_anywhere() -> None:
    words = "one two three " * 40
    lines = svg.wrapped(words.strip(), 12, 300)
    assert " ".join(lines) == words.strip()
    assert all(svg.text_width(line, 12) <= 300 for line in lines)
    chinese = "请求在队列里等待" * 20
    lines = svg.wrapped(chinese, 12, 300)
    assert "".join(lines) == chinese
    assert all(svg.text_width(line, 12) <= 300 for line in lines)


def test_it_speaks_the_language_of_the_moment() -> None:
    with language.use("zh"):
        assert "首个" in drawn(l1_incident).svg or "排队" in drawn(l1_incident).svg


def test_a_report_has_one_picture_that_names_the_worst_instance() -> None:
    picture = report_picture(build_report(*fleet()))
    assert picture is not None
    assert "10.0.3.2:30000" in picture.svg
