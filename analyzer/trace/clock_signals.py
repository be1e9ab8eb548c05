"""What each source says of the load: signals by which its clock can be compared with another's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from analyzer.trace.alignment import Signal, load_from_requests
from analyzer.trace.source_rows import SourceRows

_SIGNALS = {"running_requests": "running", "waiting_requests": "waiting"}
# A gauge holds as long as the views hold it.
_HOLD_S = 30.0
_MOST_REPORTS = 500_000


def signals_of(s: SourceRows, origins: set[str]) -> Iterator[Signal]:
    """running, waiting and load of one server as this source tells them, on the source's own clock."""
    yield from _from_log(s, origins)
    yield from _from_metrics(s, origins)
    yield from _from_requests(s, origins)


def _from_log(s: SourceRows, origins: set[str]) -> Iterator[Signal]:
    rows = _reports(s)
    if rows.is_empty():
        return
    rows = rows.filter(pl.col("stream").fill_null("").is_in(list(origins)) & (pl.col("kind") != "companion"))
    rows = rows.filter(pl.all_horizontal(pl.col(r).fill_null(0) == pl.col(r).fill_null(0).min() for r in ("tp", "pp", "ep")))
    yield from _summed(
        {n: rows.select("ts", pl.col("dp").fill_null(0).alias("rank"), pl.col(n).alias("value")) for n in ("running", "waiting")}, s
    )


def _reports(s: SourceRows) -> pl.DataFrame:
    """Scheduler rows; of more than can be compared, the last of each rank in every few seconds, at its own time."""
    columns = ["ts", "stream", "dp", "tp", "pp", "ep", "kind", "running", "waiting"]
    count = s.count("scheduler")
    if count <= _MOST_REPORTS:
        return _frame(s.table("scheduler", columns))
    cell = pl.col("ts").dt.epoch("s") // -(-count // _MOST_REPORTS)
    rank = ["stream", "dp", "tp", "pp", "ep", "kind"]
    parts = [
        _frame(pa.Table.from_batches([batch])).group_by(cell.alias("cell"), *rank, maintain_order=True).last().select(columns)
        for batch in s.batches("scheduler", columns)
    ]
    return pl.concat(parts)


def _from_metrics(s: SourceRows, origins: set[str]) -> Iterator[Signal]:
    series = _frame(s.table("series", ["series_id", "name", "stream", "counted"]))
    if series.is_empty():
        return
    series = series.filter(pl.col("name").is_in(list(_SIGNALS)) & pl.col("stream").fill_null("").is_in(list(origins)) & pl.col("counted"))
    if series.is_empty():
        return
    samples = _frame(s.samples(series["series_id"].to_list())).join(series, on="series_id")
    frames = {
        _SIGNALS[name]: samples.filter(pl.col("name") == name).select("ts", pl.col("series_id").alias("rank"), "value") for name in _SIGNALS
    }
    yield from _summed(frames, s)


def _from_requests(s: SourceRows, origins: set[str]) -> Iterator[Signal]:
    rows = _frame(s.table("requests", ["stream", "clock", "arrival_ts", "finish_ts", "e2e_s", "status"]))
    if rows.is_empty():
        return
    rows = rows.filter(
        pl.col("stream").fill_null("").is_in(list(origins)) & (pl.col("clock") == "wall") & pl.col("arrival_ts").is_not_null()
    ).sort("arrival_ts")
    if rows.height < 2:
        return
    arrival = _seconds(rows["arrival_ts"])
    ended = _seconds(rows["finish_ts"]) if rows["finish_ts"].count() else np.full(rows.height, np.nan)
    by_length = arrival + rows["e2e_s"].cast(pl.Float64).to_numpy()
    end = np.where(np.isnan(ended), by_length, ended)
    # one that failed without a time was not in the server for long
    end = np.where(np.isnan(end) & (rows["status"] != "unfinished").fill_null(True).to_numpy(), arrival, end)
    last = float(np.nanmax(np.concatenate([arrival, end])))
    yield load_from_requests(arrival, end, last)


def _summed(frames: Mapping[str, pl.DataFrame], s: SourceRows) -> Iterator[Signal]:
    """One signal per name, summed over ranks (each holds its last value), and `load`, the sum of both."""
    made: dict[str, Signal] = {}
    for name, frame in frames.items():
        frame = frame.drop_nulls().unique(["ts", "rank"], keep="last").sort("ts")
        if frame.height < 2:
            continue
        wide = frame.pivot("rank", index="ts", values="value").sort("ts").with_columns(pl.exclude("ts").forward_fill())
        total = wide.select("ts", pl.sum_horizontal(pl.exclude("ts"), ignore_nulls=False).alias("value"))
        made[name] = Signal(name, _seconds(total["ts"]), total["value"].cast(pl.Float64).to_numpy(), _HOLD_S)
    if "running" in made and "waiting" in made and np.array_equal(made["running"].ts, made["waiting"].ts):
        running, waiting = made["running"], made["waiting"]
        made["load"] = Signal("load", running.ts, running.value + waiting.value, _HOLD_S)
    yield from made.values()


def _seconds(column: pl.Series) -> Any:
    return column.dt.timestamp("us").cast(pl.Float64).to_numpy() / 1e6


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
