"""What follows from other columns, for many rows as for each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from analyzer.parsers.request_records.completion import as_array, as_microseconds, completed, rounded
from analyzer.trace.batch_file import whole
from analyzer.trace.schema import TABLES

SECONDS = st.one_of(st.floats(0, 31_536_000), st.floats(0, 100).map(lambda s: round(s, 4)), st.floats(-5, 5))
DURATIONS = st.none() | st.floats(0, 5000) | st.integers(0, 9).map(float)
MOMENTS = st.none() | st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 2), timezones=st.just(UTC))
ROWS = st.fixed_dictionaries(
    {
        **dict.fromkeys(("arrival_ts", "first_token_ts", "finish_ts"), MOMENTS),
        **dict.fromkeys(("ttft_s", "e2e_s", "decode_s", "itl_mean_s", "arrival_rel_s"), DURATIONS),
        "output_tokens": st.none() | st.integers(0, 1 << 62),
        "status": st.sampled_from(["finished", "unfinished", "aborted", "error", None]),
        "error": st.sampled_from(["timeout", None]),
    }
)


def completed_one(row: dict[str, Any]) -> dict[str, Any]:
    """The same of one row, said in the plainest way."""
    row = dict(row)
    arrival = row["arrival_ts"]
    for moment, duration in (("first_token_ts", "ttft_s"), ("finish_ts", "e2e_s")):
        if arrival is None or (moment == "finish_ts" and row["status"] == "unfinished"):
            continue
        if row[moment] is None and row[duration] is not None:
            row[moment] = arrival + timedelta(seconds=row[duration])
        elif row[duration] is None and row[moment] is not None and row[moment] >= arrival:
            row[duration] = (row[moment] - arrival).total_seconds()
    e2e, ttft, tokens = row["e2e_s"], row["ttft_s"], row["output_tokens"]
    if row["decode_s"] is None and row["status"] == "finished" and e2e is not None and ttft is not None and e2e >= ttft:
        row["decode_s"] = round(e2e - ttft, 9)
    if row["itl_mean_s"] is None and row["decode_s"] is not None and tokens is not None and tokens >= 2:
        row["itl_mean_s"] = round(row["decode_s"] / (tokens - 1), 9)
    if row["status"] == "aborted" and row["error"] is None:
        row["error"] = "abort"
    row["ts"] = arrival or row["finish_ts"]
    row["clock"] = "wall" if row["ts"] is not None else "order" if row["arrival_rel_s"] is None else "monotonic"
    return row


def in_columns(rows: list[dict[str, Any]]) -> dict[str, pa.Array]:
    """`rows` without the columns that hold nothing."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {name: as_array(name, values) for name, values in columns.items() if any(v is not None for v in values)}


@given(st.lists(ROWS, min_size=1, max_size=20))
def test_many_rows_are_completed_as_each_is(rows: list[dict[str, Any]]) -> None:
    done = pa.RecordBatch.from_pydict(completed(in_columns(rows), len(rows)))
    stored = whole(done, TABLES["requests"].arrow).to_pylist()
    expected = [completed_one(row) for row in rows]
    assert [{name: row[name] for name in expected[0]} for row in stored] == expected


@given(st.lists(SECONDS))
@example([0.0000000005, 2.5e-9, 1.0000000005, 123.0000000015, 1e15, -0.5e-9])
def test_many_are_rounded_as_each_is(seconds: list[float]) -> None:
    assert rounded(np.array(seconds, float)).tolist() == [round(s, 9) for s in seconds]


@given(st.lists(st.floats(-1e6, 5e9)))
@example([0.0000005, 0.0000015, 1.0000005, 3.0000025, 1767323045.1234565, -0.0000005, -1.0000005])
def test_many_are_durations_as_each_is(seconds: list[float]) -> None:
    micros = as_microseconds(np.array(seconds, float)).astype(np.int64).tolist()
    assert micros == [timedelta(seconds=s) // timedelta(microseconds=1) for s in seconds]


def test_no_duration_stays_none() -> None:
    assert np.isnat(as_microseconds(np.array([np.nan, 1.0]))).tolist() == [True, False]
