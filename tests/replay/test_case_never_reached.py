"""Failed requests are a load only where the engine had them: by what it said it had in hand, and by when it lived."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from case_traces import instance_of, opened

from analyzer.replay.case.never_reached import never_reached
from analyzer.replay.case.requests import records

_T0 = datetime(2026, 1, 2, tzinfo=UTC)
Row = dict[str, Any]


def _row(at_s: float, lasts_s: float | None) -> Row:
    return {"arrival_ts": _T0 + timedelta(seconds=at_s), "finish_ts": None, "e2e_s": lasts_s}


# One request in hand all the time, and one of 2 s every 5 s.
_OTHERS = [_row(0.0, 60.0), *(_row(5.0 * k, 2.0) for k in range(12))]
_FAILED = [_row(20.2, 10.0), _row(21.2, 9.5), _row(22.2, 9.0)]


def _on_their_way(rows: Sequence[Row], at_s: float) -> int:
    at = _T0 + timedelta(seconds=at_s)
    return sum(r["arrival_ts"] <= at < r["arrival_ts"] + timedelta(seconds=r["e2e_s"]) for r in rows)


def _told(
    in_hand: Callable[[float], float], failed: Sequence[Row] = _FAILED, *, events: Sequence[tuple[str, float]] = (), hung: bool = False
) -> dict[int, bool]:
    """What is told of failed requests by a server that reports every second what `in_hand` gives, its pool fuller each time but `hung`."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE scheduler_clean (instance VARCHAR, run_id VARCHAR, ts TIMESTAMPTZ, record BIGINT, kind VARCHAR, basis VARCHAR, "
        "running DOUBLE, waiting DOUBLE, kv_used_tokens BIGINT, kv_usage DOUBLE)"
    )
    con.execute("CREATE TABLE event (instance VARCHAR, run_id VARCHAR, ts TIMESTAMPTZ, kind VARCHAR)")
    con.execute("CREATE TABLE run (instance VARCHAR, run_id VARCHAR, start_ts TIMESTAMPTZ, shutdown_ts TIMESTAMPTZ, last_ts TIMESTAMPTZ)")
    at = {kind: _T0 + timedelta(seconds=s) for kind, s in events}
    con.execute("INSERT INTO run VALUES ('s', 'r1', ?, NULL, ?)", [at.get("start"), at.get("crash", _T0 + timedelta(seconds=60))])
    for kind, ts in at.items():
        con.execute("INSERT INTO event VALUES ('s', 'r1', ?, ?)", [ts, kind])
    for second in range(60):
        moment = second + 0.5
        con.execute(
            "INSERT INTO scheduler_clean VALUES ('s', 'r1', ?, ?, 'stats', 'metrics', ?, 0, NULL, ?)",
            [_T0 + timedelta(seconds=moment), second, in_hand(moment), 0.1 if hung else second / 100],
        )
    return never_reached(con, "s", "r1", _OTHERS, failed)


def test_an_engine_that_had_only_the_others_in_hand_never_had_them() -> None:
    assert _told(lambda at: _on_their_way(_OTHERS, at)) == {0: True, 1: True, 2: True}


def test_an_engine_that_had_more_in_hand_had_them() -> None:
    assert _told(lambda at: _on_their_way([*_OTHERS, *_FAILED], at)) == {0: False, 1: False, 2: False}


def test_load_that_is_always_there_beside_the_records_is_no_sign_of_them() -> None:
    assert _told(lambda at: 7 + _on_their_way(_OTHERS, at)) == {0: True, 1: True, 2: True}


def test_fewer_than_reports_and_records_differ_by_anyway_cannot_be_told() -> None:
    uneven = [0, 6, 2, 9, 4]
    assert _told(lambda at: uneven[int(at) % 5] + _on_their_way(_OTHERS, at)) == {}


def test_a_scheduler_that_hangs_tells_nothing() -> None:
    assert _told(lambda _at: 2, hung=True) == {}


def test_one_that_failed_between_two_reports_cannot_be_told() -> None:
    assert _told(lambda at: _on_their_way(_OTHERS, at), [_row(20.6, 1.2)]) == {}


@pytest.mark.parametrize(
    ("events", "away"), [([("start", 10.0), ("ready", 40.0)], [0, 1]), ([("crash", 21.5)], [2]), ([("start", 30.2)], [0])]
)
def test_a_process_that_was_not_up_had_none(events: list[tuple[str, float]], away: list[int]) -> None:
    failed = [_row(20.2, 9.0), _row(21.2, 11.0), _row(22.2, 30.0)]
    told = _told(lambda at: _on_their_way([*_OTHERS, *failed], at), failed, events=events)
    assert [i for i, never in told.items() if never] == away


@pytest.mark.parametrize(("had_them", "left"), [(True, 17), (False, 15)])
def test_only_those_that_the_engine_had_are_replayed(had_them: bool, left: int, tmp_path: Path) -> None:
    begin = _T0.timestamp()
    answered = [(4.0 * k, 3.0) for k in range(15)]
    failed = [(20.2, 10.0, "connection reset by peer"), (21.2, 9.5, "HTTP 502")]
    client = [
        {"id": f"a{k}", "send": begin + at, "ttft": 0.1, "e2e": e2e, "prompt_tokens": 50, "output_tokens": 9, "error": None}
        for k, (at, e2e) in enumerate(answered)
    ] + [
        {"id": f"f{k}", "send": begin + at, "ttft": None, "e2e": e2e, "prompt_tokens": 50, "output_tokens": None, "error": error}
        for k, (at, e2e, error) in enumerate(failed)
    ]
    scrapes = []
    for second in range(60):
        at = second + 0.5
        n = sum(a <= at < a + e for a, e in answered) + (sum(a <= at < a + e for a, e, _error in failed) if had_them else 0)
        scrapes.append(
            f"# scrape_ts {begin + at}\n"
            f'vllm:num_requests_running{{engine="0",model_name="m"}} {n}\nvllm:num_requests_waiting{{engine="0",model_name="m"}} 0\n'
            f'vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} {second / 100}\n'
        )
    rows = "".join(json.dumps(r) + "\n" for r in sorted(client, key=lambda r: r["send"]))
    with opened(tmp_path, {"client.jsonl": rows, "metrics.prom": "".join(scrapes)}) as trace:
        found = records(trace.con, instance_of(trace), "r1")
    assert found is not None
    assert len(found.told) == left
