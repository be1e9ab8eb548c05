"""vLLM's reports with work in hand and not one token."""

from __future__ import annotations

from typing import Any

import pytest
from sql_case import database, rows_of, stats


def report(t: float, running: int, prompt: float, gen: float, **more: Any) -> dict[str, Any]:
    return stats(t, running=running, waiting=0, kv_usage=0.1, prompt_tps=prompt, gen_tps=gen, **more)


BUSY = [report(t, 4, 500, 300) for t in range(0, 60, 10)]
STILL = [report(t, 2, 0, 0) for t in range(60, 200, 10)]


def test_reports_without_a_token_for_long_are_a_stall() -> None:
    con = database(scheduler=BUSY + STILL)
    assert rows_of(con, "SELECT start_ts, end_ts, still_s, running, waiting FROM _stall") == [(50, 190, 140.0, 2, 0)]


@pytest.mark.parametrize(
    "after",
    [
        pytest.param([report(200, 2, 12000, 10)], id="a long prefill, counted when its first token is out"),
        pytest.param([report(t, 0, 0, 0) for t in range(200, 400, 10)], id="idle afterwards"),
    ],
)
def test_what_comes_after_decides(after: list[dict[str, Any]]) -> None:
    burst = after[0]["prompt_tps"] > 0
    con = database(scheduler=BUSY + STILL + after)
    assert len(rows_of(con, "SELECT * FROM _stall")) == (0 if burst else 1)


def test_an_idle_engine_and_a_short_one_are_none() -> None:
    idle = [report(t, 0, 0, 0) for t in range(60, 400, 10)]
    short = [report(t, 2, 0, 0) for t in range(60, 100, 10)] + [report(100, 2, 10, 50)]
    assert rows_of(database(scheduler=BUSY + idle), "SELECT * FROM _stall") == []
    assert rows_of(database(scheduler=BUSY + short), "SELECT * FROM _stall") == []


def test_sglang_is_left_out_because_its_gauges_go_stale() -> None:
    stale = [{**r, "engine": "sglang"} for r in BUSY + STILL]
    assert rows_of(database(scheduler=stale), "SELECT * FROM _stall") == []
