"""The fleet's questions: tiny rows of a dataset, a view, the expected rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

from analyzer.diagnosis.thresholds import thresholds
from analyzer.fleet.dataset.reader import create_fleet_views
from analyzer.fleet.dataset.schema import TABLES

T0 = datetime(2026, 11, 30, 7, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def incident(instance: str, start: float | None, end: float | None, cause: str = "l1_bound", **columns: Any) -> dict[str, Any]:
    times = {"start_ts": None if start is None else at(start), "end_ts": None if end is None else at(end)}
    return {"capture": "c", "instance": instance, "cause": cause, "confidence": "high", **times, **columns}


def minute(instance: str, t: float, **columns: Any) -> dict[str, Any]:
    return {"capture": "c", "instance": instance, "day": at(t).date(), "ts": at(t), **columns}


def ask(sql: str, **tables: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    con = duckdb.connect(":memory:")
    con.execute("SET TimeZone = 'UTC'")
    for name, value in thresholds({}).items():
        con.execute(f"SET VARIABLE {name} = {value!r}::DOUBLE")
    for name, table in TABLES.items():
        con.register("_rows", pa.Table.from_pylist(tables.get(name, []), schema=table.arrow))
        con.execute(f"CREATE TABLE {name} AS FROM _rows")
        con.unregister("_rows")
    create_fleet_views(con)

    def plain(value: Any) -> Any:
        return (value - T0).total_seconds() / 60 if isinstance(value, datetime) else round(value, 4) if isinstance(value, float) else value

    return [tuple(plain(v) for v in row) for row in con.execute(sql).fetchall()]


def test_an_incident_is_in_each_hour_that_it_went_on_in_and_begins_in_one() -> None:
    found = ask(
        "SELECT hour_ts, cause, incidents, begun, instances, incident_s, waiting_peak FROM cause_by_hour",
        incidents=[
            incident("a", 50, 70, waiting_peak=9),
            incident("b", 55, 58, waiting_peak=20),
            incident("b", 61, 62),
            incident("c", 65, 66, "crash"),
            incident("d", None, 30, "restart"),
            incident("e", None, None, "hang"),
        ],
    )
    assert found == [
        (0, "l1_bound", 2, 2, 2, 780.0, 20),
        (0, "restart", 1, 1, 1, 0.0, None),
        (60, "l1_bound", 2, 1, 2, 660.0, 9),
        (60, "crash", 1, 1, 1, 60.0, None),
    ]


def test_which_servers_went_first_in_each_wave() -> None:
    rows = [
        incident("a", 10, 20, waiting_peak=5),
        incident("b", 8, 12, "crash"),
        incident("c", 24, 26),
        incident("a", 25, 30, "cap_bound", waiting_peak=7),
        # five minutes and a bit after the last of them ended
        incident("c", 35.1, 36),
        incident("d", 35.1, 40, "restart"),
    ]
    assert ask("SELECT wave, place, instance, after_s, cause, incidents, waiting_peak FROM wave_order", incidents=rows) == [
        (1, 1, "b", 0.0, "crash", 1, None),
        (1, 2, "a", 120.0, "l1_bound", 2, 7),
        (1, 3, "c", 960.0, "l1_bound", 1, None),
        (2, 1, "c", 0.0, "l1_bound", 1, None),
        (2, 1, "d", 0.0, "restart", 1, None),
    ]
    assert ask("SELECT wave, start_ts, end_ts, instances, incidents, first_instance, first_cause, causes FROM wave", incidents=rows) == [
        (1, 8.0, 30.0, 3, 4, "b", "crash", ["crash", "l1_bound"]),
        (2, 35.1, 40.0, 2, 2, "c", "l1_bound", ["l1_bound", "restart"]),
    ]


def test_the_room_that_a_server_had_and_what_bounds_it_first() -> None:
    full = {"l1_capacity_tokens": 1000.0, "cap": 10.0}
    rows = [
        minute("a", 1, running=4, waiting=0, kv_usage=0.5, l1_free_tokens=500.0, cap_free=6.0, **full),
        minute("a", 2, running=9, waiting=3, kv_usage=0.8, l1_free_tokens=200.0, cap_free=1.0, **full),
        minute("b", 1, running=2, waiting=0, kv_usage=0.99, l1_free_tokens=10.0, cap_free=8.0, **full),
        # the same minute from a second capture, which saw less of it
        minute("b", 1, running=1, waiting=0, kv_usage=0.1, l1_free_tokens=900.0, cap_free=9.0, **full),
        minute("c", 61),
    ]
    told = "instance, hour_ts, kv_usage_peak, l1_free_tokens, cap_free, tightest, waiting_peak, minutes, full_minutes, waiting_minutes"
    assert ask(f"SELECT {told} FROM headroom", minutes=rows) == [
        ("a", 0, 0.8, 200.0, 1.0, "cap", 3, 2, 0, 1),
        ("b", 0, 0.99, 10.0, 8.0, "l1", 0, 1, 1, 0),
        # what nobody told is not known to be free
        ("c", 60, None, None, None, None, None, 1, 0, 0),
    ]
    assert ask("FROM fleet_headroom", minutes=rows) == [
        (0, 2, 1000.0, 200.0, 0.2, 9, 3, 1),
        (60, 1, None, None, None, None, None, 0),
    ]
