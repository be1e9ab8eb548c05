"""Rows of one source on their way into Parquet: named, in order, the same however many there are and however they come."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import analyzer.trace.row_store
import analyzer.trace.sorting
from analyzer.trace.identity import Identity, Run
from analyzer.trace.row_store import store_rows
from analyzer.trace.schema import TABLES
from analyzer.trace.sorting import sorted_batches
from analyzer.trace.spool import Spool

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUNS = [Run("r1", None), Run("r2", NOON + timedelta(seconds=500))]
IDENTITY = Identity({("s", ""): "one", ("s", "pod-b"): "two"}, runs={"one": RUNS, "two": [Run("r1", None)]})


def row(record: int, seconds: float | None, **more: Any) -> dict[str, Any]:
    ts = None if seconds is None else NOON + timedelta(seconds=seconds)
    return {"source_id": "s", "record": record, "engine": "sglang", "stream": "", "ts": ts, "running": record, **more}


def stored(folder: Path, rows: list[dict[str, Any]], *, batch: int = 7, shift: float = 0.0) -> list[dict[str, Any]]:
    """The rows as a trace has them after they came `batch` at a time through a spool."""
    spool = Spool(folder / "spool")
    for at in range(0, len(rows), batch):
        spool.add_batch("scheduler", pa.RecordBatch.from_pylist(rows[at : at + batch], schema=TABLES["scheduler"].arrow))
    spool.close()
    file = store_rows(
        folder, "scheduler", "s", spool.batches("scheduler"), in_order=spool.is_in_order("scheduler"),
        identity=IDENTITY, shift=timedelta(seconds=shift), scratch=folder,
    )  # fmt: skip
    assert file is not None
    assert file.rows == len(rows)
    found: list[dict[str, Any]] = pq.read_table(folder / file.path).to_pylist()
    return found


def shuffled(count: int) -> list[dict[str, Any]]:
    """Rows of two streams, four of each time, every tenth without one, in no order; one record has several rows."""
    rows = [
        row(n // 2, None if n % 10 == 0 else n // 4, stream="pod-b" if n % 3 else "", extra=[("n", str(n))] if n % 5 else None)
        for n in range(count)
    ]
    random.Random(1).shuffle(rows)
    return rows


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    never = datetime.max.replace(tzinfo=UTC)
    return [(r["ts"], r["record"], r["extra"]) for r in sorted(rows, key=lambda r: (r["ts"] or never, r["record"]))]


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["ts"], r["record"], r["extra"]) for r in rows]


def test_rows_are_named_by_stream_and_by_process(tmp_path: Path) -> None:
    rows = stored(tmp_path, [row(1, 0), row(2, 499.9), row(3, 500), row(4, 600, stream="pod-b"), row(5, None)])
    assert [(r["record"], r["instance"], r["run_id"]) for r in rows] == [
        (1, "one", "r1"), (2, "one", "r1"), (3, "one", "r2"), (4, "two", "r1"), (5, "one", "r1"),
    ]  # fmt: skip


def test_a_shift_moves_all_times_before_the_process_is_told(tmp_path: Path) -> None:
    rows = stored(tmp_path, [row(1, 0, outer_ts=NOON), row(2, 1)], shift=499)
    assert [(r["ts"], r["run_id"]) for r in rows] == [(NOON + timedelta(seconds=499), "r1"), (NOON + timedelta(seconds=500), "r2")]
    assert [r["outer_ts"] for r in rows] == [NOON + timedelta(seconds=499), None]


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("run", [10, 33, 200_000])
def test_rows_out_of_order_are_sorted_in_memory_and_beyond(tmp_path: Path, batch: int, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer.trace.sorting, "RUN", run)
    monkeypatch.setattr(analyzer.trace.sorting, "_PART", 4)
    rows = shuffled(400)
    assert told(stored(tmp_path, rows, batch=batch)) == expected(rows)
    assert not list(tmp_path.glob("*.arrows"))


def test_few_runs_are_held_where_rows_are_nearly_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer.trace.sorting, "RUN", 50)
    monkeypatch.setattr(analyzer.trace.sorting, "_PART", 10)
    rows = [row(n, n + 7 * (n % 3)) for n in range(1000)]
    schema = TABLES["scheduler"].arrow
    given = [pa.RecordBatch.from_pylist(rows[at : at + 30], schema=schema) for at in range(0, 1000, 30)]
    found = sorted_batches(given, schema, tmp_path)
    first = next(found).to_pylist()
    assert len(first) <= 20
    assert len(list(tmp_path.glob("*.arrows"))) == 20
    whole = [*first, *(r for batch in found for r in batch.to_pylist())]
    assert [r["ts"] for r in whole] == sorted(r["ts"] for r in rows)
    assert not list(tmp_path.glob("*.arrows"))


def test_rows_in_order_are_written_as_they_come_in_whole_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer.trace.row_store, "ROW_GROUP", 100)

    def never(*_: object) -> Iterator[pa.RecordBatch]:
        raise AssertionError("sorted")

    monkeypatch.setattr(analyzer.trace.row_store, "sorted_batches", never)
    rows = [row(n, n // 3) for n in range(250)]
    assert [r["record"] for r in stored(tmp_path, rows)] == list(range(250))
    (file,) = (tmp_path / "scheduler").glob("*.parquet")
    with pq.ParquetFile(file) as parquet:
        assert [parquet.metadata.row_group(n).num_rows for n in range(parquet.num_row_groups)] == [100, 100, 50]


@pytest.mark.parametrize(
    ("rows", "ordered"),
    [
        ([row(1, 0), row(2, 0), row(3, 1)], True),
        ([row(1, 1), row(2, 0)], False),
        ([row(2, 0), row(1, 0)], False),
        ([row(1, 0), row(2, None)], False),
        ([row(1, None)], False),
    ],
)
@pytest.mark.parametrize("batch", [1, 5])
def test_a_spool_knows_whether_its_rows_are_in_order(tmp_path: Path, rows: list[dict[str, Any]], ordered: bool, batch: int) -> None:
    spool = Spool(tmp_path)
    for at in range(0, len(rows), batch):
        spool.add_batch("scheduler", pa.RecordBatch.from_pylist(rows[at : at + batch], schema=TABLES["scheduler"].arrow))
    assert spool.is_in_order("scheduler") is ordered


def test_a_spool_gives_back_columns_that_some_batches_do_not_have(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.add_batch("scheduler", pa.RecordBatch.from_pydict({"record": [2], "kv_used_tokens": [5]}))
    spool.add("scheduler", row(1, 0))
    spool.add("scheduler", row(3, None, extra=[("a", "b")]))
    spool.close()
    rows = [r for batch in spool.batches("scheduler") for r in batch.to_pylist()]
    assert [(r["record"], r["ts"], r["running"], r["kv_used_tokens"], r["extra"]) for r in rows] == [
        (2, None, None, 5, None), (1, NOON, 1, None, None), (3, None, 3, None, [("a", "b")]),
    ]  # fmt: skip
    assert [b.schema.names for b in spool.batches("scheduler", ["record", "ts"])] == [["record", "ts"]] * 2
    assert spool.counts == {"scheduler": 3}


def test_times_are_stored_by_their_differences_and_the_rest_by_dictionary(tmp_path: Path) -> None:
    stored(tmp_path, [row(n, n, extra=[("a", "b")]) for n in range(100)])
    (file,) = (tmp_path / "scheduler").glob("*.parquet")
    with pq.ParquetFile(file) as parquet:
        group = parquet.metadata.row_group(0)
        encodings = {group.column(n).path_in_schema: group.column(n).encodings for n in range(group.num_columns)}
    assert {name for name, found in encodings.items() if "DELTA_BINARY_PACKED" in found} == {"ts", "record"}
    assert all("RLE_DICTIONARY" in encodings[name] for name in ("instance", "running", "extra.key_value.key", "extra.key_value.value"))


def test_rows_taken_one_by_one_are_put_among_those_of_the_next_batch(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for record in (1, 4, 4, 6):
        spool.add("scheduler", row(record, record))
    spool.add_batch("scheduler", pa.RecordBatch.from_pylist([row(n, n) for n in (2, 3, 5)], schema=TABLES["scheduler"].arrow))
    spool.add("scheduler", row(7, 7))
    spool.close()
    assert [r["record"] for batch in spool.batches("scheduler") for r in batch.to_pylist()] == [1, 2, 3, 4, 4, 5, 6, 7]
    assert spool.is_in_order("scheduler")
    assert spool.counts == {"scheduler": 8}
