"""The parts' figures, data and notes fit together: every source is filled, every hover box finds its columns."""

from __future__ import annotations

import json
import re
from base64 import b64decode

import numpy as np
import pytest
from parts_case import asked, connection, event, report, request

from analyzer.report.explore.data import build_explore
from analyzer.report.explore.document import explore_page, packed, script_json
from analyzer.report.explore.figures import Drawing, new_frame
from analyzer.report.explore.parts import EVERY_INSTANCE, part_drawings, part_notes, part_tables
from analyzer.report.explore.whole import Explore


def explored(*, reverse: bool = False) -> Explore:
    reports = [report(t, dp=dp, waiting=t % 4, running=3, kv_usage=0.5, record=2 * t + dp) for t in range(60) for dp in (0, 1)]
    rows = [request(t, ttft_s=0.2 + t, queue_s=0.1 + t / 2, prefill_s=0.1 * t, rid=f"r{t}", record=t) for t in range(40)]
    if reverse:
        reports, rows = reports[::-1], rows[::-1]
    found = build_explore(connection(scheduler=reports, requests=rows, events=[event(30, "retraction", requests=1)]), asked())
    assert found is not None
    return found


@pytest.fixture(scope="module")
def explore() -> Explore:
    return explored()


@pytest.fixture(scope="module")
def drawn(explore: Explore) -> tuple[Drawing, ...]:
    return part_drawings(explore, new_frame())


def test_every_figure_shares_the_time_axis(drawn: tuple[Drawing, ...]) -> None:
    assert [one.key for one in drawn] == ["scatter", "ttft-map", "lanes"]
    assert len({one.root.x_range for one in drawn}) == 1


def test_every_source_is_filled_with_the_columns_that_it_names(explore: Explore, drawn: tuple[Drawing, ...]) -> None:
    tables = part_tables(explore)
    filled = {**tables["i1"], **tables[EVERY_INSTANCE]}
    sources = {
        r.data_source.name: set(r.data_source.data)
        for one in drawn
        for r in one.root.renderers
        if r.data_source.name not in ("rules", "others")
    }
    assert {name: set(columns) for name, columns in filled.items()} == sources
    for columns in filled.values():
        assert len({len(column) for column in columns.values()}) == 1


def test_every_hover_box_finds_its_columns(drawn: tuple[Drawing, ...]) -> None:
    boxes = 0
    for one in drawn:
        for tool in one.root.tools:
            if type(tool).__name__ != "HoverTool":
                continue
            boxes += 1
            asked_for = set(re.findall(r"@(\w+)", " ".join(text for _title, text in tool.tooltips)))
            for renderer in tool.renderers:
                assert asked_for <= set(renderer.data_source.data)
    assert boxes == 5


def test_a_figure_of_an_instance_without_data_says_so(explore: Explore) -> None:
    assert part_notes(explore, "i9") == {
        "scatter": "No requests were recorded for this instance.",
        "ttft-map": "TTFT was not recorded for this instance.",
    }


def test_without_any_of_it_there_are_no_figures() -> None:
    empty = Explore(())
    assert part_drawings(empty, new_frame()) == ()
    assert part_tables(empty) == {}
    assert part_notes(empty, "i1") == {}


def test_texts_that_repeat_are_written_once() -> None:
    column = ["circle"] * 50 + ["\u03b1<"] * 50
    told = json.loads(script_json(packed(column)))
    assert told["t"] == ["circle", "\u03b1<"]
    assert [told["t"][n] for n in np.frombuffer(b64decode(told["d"]), dtype="<u2")] == column
    assert packed(["a", "b", "a"]) == ["a", "b", "a"]


def test_the_same_trace_gives_the_same_page_in_any_order_of_its_rows(explore: Explore) -> None:
    page, again = explore_page(explore), explore_page(explored(reverse=True))
    assert (page.data, page.document, page.words, page.moments) == (again.data, again.document, again.words, again.moments)
    assert len(page.moments) > 500
