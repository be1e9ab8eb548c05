"""Requests as points: where each stands, what took its time, and which are kept where there are too many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parts_case import HOSTILE, asked, connection, ms, operation, request

from analyzer.report.explore import requests
from analyzer.report.explore.requests import FATES, LEAST_S, WHY, Requests, Scattered, build_requests


def built(*rows: dict[str, Any], **tables: Any) -> Requests:
    found = build_requests(connection(requests=rows, **tables), asked())
    assert found is not None
    return found


def only(*rows: dict[str, Any], **tables: Any) -> Scattered:
    return built(*rows, **tables).scattered[0]


def classes(one: Scattered) -> list[str]:
    return [WHY[w][0] for w in one.why]


def fates(one: Scattered) -> list[str]:
    return [tuple(FATES)[f] for f in one.fate]


def test_a_request_stands_at_its_arrival_and_ttft() -> None:
    one = only(request(1.5, ttft_s=0.25), request(0, ttft_s=2.0))
    assert one.arrival.tolist() == [ms(0), ms(1.5)]
    assert one.shown.tolist() == [2.0, 0.25]
    assert fates(one) == ["answered", "answered"]


def test_what_took_most_of_ttft_is_told_by_the_requests_own_parts() -> None:
    one = only(
        request(0, ttft_s=10, queue_s=8, prefill_s=1.5),
        request(1, ttft_s=10, queue_s=1, prefill_s=7),
        request(2, ttft_s=10, queue_s=1, prefill_s=1),
        request(3, ttft_s=10, prefill_s=9),
        request(4, ttft_s=10, queue_s=2),
    )
    assert classes(one) == ["queue", "prefill", "rest", "unknown", "rest"]


def test_a_load_from_l2_counts_where_it_took_more_than_half() -> None:
    loads = [operation(1, "load", rid="a", duration_s=6.0), operation(1, "load", rid="b", duration_s=2.0)]
    one = only(request(0, rid="a", ttft_s=10, queue_s=8), request(1, rid="b", ttft_s=10, queue_s=8), cache_ops=loads)
    assert classes(one) == ["load", "queue"]
    assert one.told["load"] == ("6\u00a0s", "2\u00a0s")


def test_one_that_is_pending_stands_at_the_age_it_had_at_the_end() -> None:
    one = only(request(0, ttft_s=1.0, e2e_s=5.0, status="finished"), request(10, status="unfinished"), request(70, ttft_s=0.5))
    assert fates(one) == ["answered", "waiting", "answered"]
    assert one.shown[1] == 60
    assert one.status[1] == "still waiting at the end"
    columns = built(request(0, ttft_s=1.0), request(10, status="unfinished"), request(70, ttft_s=0.5)).tables()["i1"]["requests-unknown"]
    assert columns["first"] == ["1\u00a0s", "over 1\u00a0min, none at the end", "500\u00a0ms"]
    assert columns["marker"] == ["circle", "triangle", "circle"]


def test_retracted_and_failed_ones_have_their_own_markers() -> None:
    one = only(
        request(0, ttft_s=1.0, retractions=2),
        request(1, status="error", e2e_s=4.0),
        request(2, status="aborted", ttft_s=1.0),
        request(3, ttft_s=1.0, retractions=0),
    )
    assert fates(one) == ["retracted", "failed", "failed", "answered"]
    assert one.shown[1] == 4


def test_what_has_no_place_is_counted() -> None:
    found = built(request(0, ttft_s=1.0), request(1, status="error"), request(2, ttft_s=float("nan")))
    assert found.scattered[0].total == 1
    assert "so not drawn: 2 requests." in found.note("i1")


def test_what_nobody_recorded_is_said_once_and_a_single_gap_in_the_hover_box() -> None:
    found = built(request(0, ttft_s=1.0, prompt_tokens=1200, queue_s=0.5), request(1, ttft_s=1.0, queue_s=0.5))
    assert found.told == {"prompt", "queue"}
    assert "Not recorded: Prefill, Load from L2, Output tokens, Cached tokens, Retractions." in found.note("i1")
    columns = found.tables()["i1"]["requests-queue"]
    assert columns["prompt"] == ["1,200", "not reported"]
    assert "prefill" not in columns


def test_the_telling_and_the_slowest_stay_and_the_rest_is_thinned_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_POINTS", 40)
    monkeypatch.setattr(requests, "MIN_POINTS", 40)
    rows = [request(n, ttft_s=1.0 + n % 7 / 10, rid=str(n)) for n in range(1000)]
    rows[500] |= {"ttft_s": 90.0}
    rows[7] |= {"retractions": 1}
    rows[999] |= {"status": "unfinished", "ttft_s": None}
    found = built(*rows)
    one = found.scattered[0]
    assert one.total == 1000
    assert 30 <= len(one.arrival) <= 40
    assert {"500", "7", "999"} <= set(one.rid)
    # Of every fifth of the time there are some.
    assert np.histogram(one.arrival, bins=5, range=(ms(0), ms(999)))[0].min() >= 4
    assert "of 1,000" in found.note("i1").replace("\u00a0", " ")


def test_the_scale_is_logarithmic_where_ttft_spreads_widely() -> None:
    assert not built(request(0, ttft_s=0.2), request(1, ttft_s=4.0)).logarithmic
    wide = built(request(0, ttft_s=0.0), request(1, ttft_s=4.0))
    assert wide.logarithmic
    assert wide.tables()["i1"]["requests-unknown"]["shown"][0] == np.float32(LEAST_S)


def test_ids_of_others_are_cleaned_and_cut() -> None:
    one = only(request(0, ttft_s=1.0, rid=HOSTILE * 3))
    assert "\x1b" not in one.rid[0]
    assert "\u202e" not in one.rid[0]
    assert len(one.rid[0]) < 60


def test_without_requests_there_is_nothing() -> None:
    assert build_requests(connection(), asked()) is None
    assert build_requests(connection(requests=[request(0, ttft_s=1.0, arrival_ts=None)]), asked()) is None


def test_the_same_requests_give_the_same_columns_in_any_order() -> None:
    rows = [request(n % 5, ttft_s=1.0 + n, rid=str(n), record=n) for n in range(30)]
    first, second = built(*rows).tables(), built(*reversed(rows)).tables()
    for name, columns in first["i1"].items():
        for key, column in columns.items():
            assert list(column) == list(second["i1"][name][key])
