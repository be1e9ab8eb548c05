"""TTFT as a map: exact from requests, and by a histogram's own buckets where only metrics tell it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from parts_case import asked, connection, metrics, ms, report, request

from analyzer.report.explore.ttft_map import SOURCE, build_ttft_map


def histogram_rows() -> dict[str, object]:
    from sql_case import histogram

    points = [
        (0, {0.1: 0, 1.0: 0, math.inf: 0}),
        (10, {0.1: 3, 1.0: 5, math.inf: 5}),
        (20, {0.1: 3, 1.0: 5, math.inf: 9}),
    ]
    return {**metrics(histogram("ttft_s", points)), "scheduler": [report(t) for t in (0, 10, 20)]}


def test_requests_are_counted_exactly_by_arrival() -> None:
    found = build_ttft_map(connection(requests=[request(0.2, ttft_s=0.5), request(0.4, ttft_s=0.5), request(5, ttft_s=20.0)]), asked())
    assert found is not None
    one = found.mapped[0]
    assert one.exact
    assert one.count.tolist() == [2, 1]
    assert one.left.tolist() == [ms(0), ms(5)]
    assert one.low[0] <= 0.5 <= one.high[0]
    assert one.low[1] <= 20 <= one.high[1]


def test_one_without_a_first_token_is_not_in_it_and_that_is_said() -> None:
    found = build_ttft_map(connection(requests=[request(0, ttft_s=0.5), request(1, status="unfinished")]), asked())
    assert found is not None
    assert found.mapped[0].count.sum() == 1
    assert "without a first token" in found.note("i1")


def test_a_histogram_gives_its_own_buckets_between_scrapes() -> None:
    found = build_ttft_map(connection(**histogram_rows()), asked())
    assert found is not None
    one = found.mapped[0]
    assert not one.exact
    cells = [tuple(map(float, cell)) for cell in zip(one.left, one.right, one.low, one.high, one.count, strict=True)]
    assert cells == [
        (ms(0), ms(10), 0.0, pytest.approx(0.1), 3.0),
        (ms(0), ms(10), pytest.approx(0.1), 1.0, 2.0),
        (ms(10), ms(20), 1.0, math.inf, 4.0),
    ]
    columns = found.tables()["i1"][SOURCE]
    assert columns["range"] == ["up to 100\u00a0ms", "100\u00a0ms to 1\u00a0s", "over 1\u00a0s"]
    # Neither end of a logarithmic axis can be drawn as it is.
    assert np.isfinite(np.asarray(columns["top"])).all()
    assert np.asarray(columns["bottom"]).min() > 0
    assert "histograms" in found.note("i1")


def test_the_fullest_cell_has_the_full_colour_and_no_cell_none() -> None:
    rows = [request(0, ttft_s=0.5) for _ in range(50)] + [request(60, ttft_s=5.0)]
    found = build_ttft_map(connection(requests=rows), asked())
    assert found is not None
    shade = np.asarray(found.tables()["i1"][SOURCE]["shade"])
    assert shade.max() == 1
    assert 0.1 < shade.min() < 0.5
    assert "50" in found.note("i1")


def test_where_nobody_tells_ttft_there_is_no_map() -> None:
    assert build_ttft_map(connection(scheduler=[report(0, running=1, waiting=0)]), asked()) is None
