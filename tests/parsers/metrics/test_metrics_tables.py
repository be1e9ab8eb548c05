"""Tables of samples: a row for each sample, or a column for each series."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from metric_reading import EPOCH, Dump, claimed_by, read_dump

from analyzer.errors import KvpmError

NAME = "vllm:num_requests_running"
ISO = ["2026-11-30T07:07:56Z", "2026-11-30T07:07:57Z", "2026-11-30T07:07:58Z"]


def table(header: list[str], *rows: list[Any], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows([header, *rows])
    return out.getvalue()


def rows(times: list[Any], labels: str = '{"engine":"0"}') -> list[list[Any]]:
    return [[t, NAME, labels, n] for n, t in enumerate(times)]


@pytest.mark.parametrize(
    "times",
    [
        ISO,
        ["2026-11-30 07:07:56", "2026-11-30 07:07:57", "2026-11-30 07:07:58"],
        ["2026-11-30T08:07:56.000+01:00", "2026-11-30T08:07:57.000+01:00", "2026-11-30T08:07:58.000+01:00"],
        [EPOCH, EPOCH + 1, EPOCH + 2],
        [f"{EPOCH}.0", f"{EPOCH + 1}.0", f"{EPOCH + 2}.0"],
        [f"{EPOCH + n}000" for n in range(3)],
        [f"{EPOCH + n}000000000" for n in range(3)],
    ],
)
def test_times_are_read_in_every_form(times: list[Any]) -> None:
    text = table(["timestamp", "metric", "labels", "value"], *rows(times))
    assert claimed_by(text) == ["long_table"]
    assert read_dump(text).of(NAME, engine="0") == [((EPOCH + n) * 1_000_000, n) for n in range(3)]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (["ts", "__name__", "labels", "val"], ["{t}", NAME, '{engine="0"}', "5"]),
        (["Value", "Metric", "Time", "Labels"], ["5", NAME, "{t}", '{"engine": "0"}']),
        (["time", "name", "value", "engine"], ["{t}", NAME, "5", "0"]),
        (["time", "series", "value"], ["{t}", NAME + '{engine="0"}', "5"]),
        (["time", "metric", "value"], ["{t}", f'{{__name__="{NAME}", engine="0"}}', "5"]),
        (["", "time", "metric", "engine", "model_name", "value", "type"], ["17", "{t}", NAME, "0", "", "5", "gauge"]),
    ],
)
@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_columns_can_stand_in_any_order_under_several_names(header: list[str], row: list[str], delimiter: str) -> None:
    text = table(header, [cell.replace("{t}", ISO[0]) for cell in row], delimiter=delimiter)
    assert claimed_by(text) == ["long_table"]
    dump = read_dump(text)
    assert dump.of(NAME, engine="0") == [(EPOCH * 1_000_000, 5)]
    assert dump.read.notes == []


def test_rows_are_counted_under_what_became_of_them() -> None:
    text = table(
        ["time", "metric", "labels", "value"],
        *rows(ISO),
        [ISO[0], NAME, "", ""],
        [ISO[0], NAME, "", "1.2 K"],
        ["soon", NAME, "", "1"],
        [ISO[0], NAME, "{broken", "1"],
        [ISO[0], "no name", "", "1"],
        [ISO[0]],
        [ISO[0], "node_load1", "", "1"],
        [ISO[0], "vllm:x_created", "", "1"],
    )
    counts = read_dump(text + "\n").read.counts
    assert (counts.matched, counts.ignored, counts.unmatched, counts.other) == (3, 4, 5, 1)


def grafana(*columns: str, rows: list[list[Any]], before: str = "") -> str:
    return before + table(["Time", *columns], *rows).replace("\n", "\r\n")


WIDE_ROWS: list[list[Any]] = [[1000 * (EPOCH + n), n, "" if n == 1 else 10 + n] for n in range(3)]


@pytest.mark.parametrize("before", ["", "sep=,\r\n", "\ufeffsep=,\r\n", "\ufeff"])
@pytest.mark.parametrize("form", [f'{NAME}{{engine="%d"}}', f'{{__name__="{NAME}", engine="%d"}}'])
def test_a_column_for_each_series_is_read(before: str, form: str) -> None:
    text = grafana(form % 0, form % 1, rows=WIDE_ROWS, before=before)
    assert claimed_by(text) == ["long_table"]
    for size in (1 << 20, 5):
        dump = read_dump(text, block=size)
        assert dump.of(NAME, engine="0") == [((EPOCH + n) * 1_000_000, n) for n in range(3)]
        assert dump.values(NAME, engine="1") == [10, 12]
        assert (dump.read.counts.matched, dump.read.counts.unmatched) == (3, 0)


def test_a_bare_metric_name_is_a_column_too() -> None:
    text = grafana(NAME, "node_load1", rows=WIDE_ROWS)
    assert read_dump(text).values(NAME) == [0, 1, 2]


def test_local_times_are_in_the_given_zone_or_assumed() -> None:
    text = grafana(NAME, rows=[["2026-11-30 08:07:56", 1]])
    assert read_dump(text, zone=timezone(timedelta(hours=1))).times(NAME) == [EPOCH]
    dump = read_dump(text)
    assert dump.times(NAME) == [EPOCH + 3600]
    assert any("set --tz" in note for note in dump.read.notes)


def test_values_with_units_are_told() -> None:
    text = grafana(
        f'{NAME}{{engine="0"}}', f'{NAME}{{engine="1"}}', rows=[[ISO[0], "1.2 K", 3], [ISO[1], "5 %", "7 ms"], [ISO[2], "", "null"]]
    )
    dump = read_dump(text)
    assert dump.values(NAME, engine="1") == [3]
    assert (dump.read.counts.matched, dump.read.counts.unmatched, dump.read.counts.ignored) == (1, 1, 2)
    assert dump.read.notes == ["3 values are written with a unit and are not read: turn off formatted data"]


def test_legends_without_a_metric_name_cannot_be_used() -> None:
    text = grafana('{engine="0"}', '{engine="1"}', rows=WIDE_ROWS)
    assert claimed_by(text) == ["long_table"]
    read = read_dump(text).read
    assert not read.usable
    assert read.nothing.startswith("has columns without a metric name")
    mixed = read_dump(grafana(f'{NAME}{{engine="0"}}', '{engine="1"}', rows=WIDE_ROWS)).read
    assert (mixed.usable, mixed.notes) == (True, ["1 columns have no metric name and are left"])


def test_columns_of_other_programs_only_are_told() -> None:
    read = read_dump(grafana('node_load1{instance="h"}', rows=[[ISO[0], 1]])).read
    assert (read.usable, read.nothing, read.counts.other) == (False, "holds samples of other programs only (node_)", 1)


def test_a_cut_last_row_is_left() -> None:
    text = table(["time", "metric", "labels", "value"], *rows(ISO))
    dump = read_dump(text.rstrip("\n"))
    assert dump.values(NAME, engine="0") == [0, 1]
    assert (dump.read.counts.last_line_cut, dump.read.notes) == (True, ["the last line is cut"])


def parquet(tmp_path: Path, columns: dict[str, Any]) -> Dump:
    path = tmp_path / "samples.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=2)
    assert claimed_by("PAR1") == ["long_table"]
    return read_dump("", "long_table", path=path)


UTC_TIMES = [datetime.fromtimestamp(EPOCH + n, UTC) for n in range(3)]


@pytest.mark.parametrize(
    "time",
    [
        pa.array(UTC_TIMES, pa.timestamp("us", "UTC")),
        pa.array([t.replace(tzinfo=None) for t in UTC_TIMES], pa.timestamp("ms")),
        pa.array([(EPOCH + n) * 1_000_000_000 + 7 for n in range(3)], pa.int64()).cast(pa.timestamp("ns")),
        pa.array([(EPOCH + n) * 1000 for n in range(3)], pa.int64()),
        pa.array([float(EPOCH + n) for n in range(3)], pa.float64()),
        pa.array(ISO),
    ],
)
@pytest.mark.parametrize(
    "labels",
    [
        pa.array(['{"engine":"0"}'] * 3),
        pa.array([[("engine", "0")]] * 3, pa.map_(pa.string(), pa.string())),
        pa.array([{"engine": "0", "rank": None}] * 3),
    ],
)
def test_parquet_is_read_in_every_form(tmp_path: Path, time: pa.Array, labels: pa.Array) -> None:
    dump = parquet(tmp_path, {"ts": time, "metric": pa.array([NAME] * 3).dictionary_encode(), "labels": labels, "value": [0.0, 1.0, 2.0]})
    assert dump.of(NAME, engine="0") == [((EPOCH + n) * 1_000_000, n) for n in range(3)]
    assert (dump.read.counts.matched, dump.read.usable) == (3, True)


def test_parquet_with_a_column_for_each_label(tmp_path: Path) -> None:
    dump = parquet(
        tmp_path,
        {"time": ISO, "metric": ["vllm:x_bucket", NAME, None], "le": [0.5, float("nan"), None], "engine": [0, 1, 2], "value": [5, 4, 1]},
    )
    assert dump.values("vllm:x_bucket", le="0.5", engine="0") == [5]
    counts = dump.read.counts
    assert dump.values(NAME, engine="1") == [4]
    assert (counts.matched, counts.ignored, counts.unmatched) == (2, 0, 1)


def test_parquet_with_a_column_for_each_series(tmp_path: Path) -> None:
    dump = parquet(tmp_path, {"Time": UTC_TIMES, f'{NAME}{{engine="0"}}': [1, 2, 3]})
    assert dump.values(NAME, engine="0") == [1, 2, 3]


def test_parquet_of_something_else_is_told(tmp_path: Path) -> None:
    read = parquet(tmp_path, {"arrival": ISO, "prompt_tokens": [1, 2, 3]}).read
    assert (read.usable, read.nothing) == (False, "is a table without the columns of samples (time, metric, value)")


def test_parquet_that_cannot_be_read_is_one_line_for_the_user(tmp_path: Path) -> None:
    with pytest.raises(KvpmError, match="pipe"):
        read_dump("", "long_table")
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(KvpmError, match="cannot be read as Parquet"):
        read_dump("", "long_table", path=path)
