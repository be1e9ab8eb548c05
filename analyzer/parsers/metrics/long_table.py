"""Tables of samples: CSV, TSV and Parquet with a row for each sample, and Grafana's with a column for each series."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.errors import KvpmError
from analyzer.parsers.metrics.exposition import is_sane, is_value, read_labels, read_selector
from analyzer.parsers.metrics.lines import whole_lines
from analyzer.parsers.metrics.moments import Moments
from analyzer.parsers.metrics.resolve import OTHER, resolve
from analyzer.parsers.metrics.result import CUT, NO_ZONE, source_read
from analyzer.parsers.metrics.table_layout import Layout, Long, Wide, csv_head, csv_rows, holds_samples, layout_of
from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.series import SeriesWriter
from analyzer.sources.pieces import LineCounts
from analyzer.sources.timestamps import parse_epoch, to_us

PARQUET = "PAR1"
"""What `claims` is given as the beginning of a Parquet file."""

_BATCH_ROWS = 50_000
_MAX_KEYS = 1_000_000
_NO_VALUE = frozenset(("", "null", "None", "undefined", "-"))
_UNNAMED = "has columns without a metric name: download the table of a query whose legend is the metric name"
_NO_TABLE = "is a table without the columns of samples (time, metric, value)"


class LongTable:
    """Tables with a time, a metric name and a value, or a time and a column for each series."""

    name = "long_table"

    def claims(self, head: str, name: str) -> bool:
        """True for the header of such a table and rows that agree. What is in a Parquet file is told by reading it."""
        if head == PARQUET:
            return True
        found = csv_head(head)
        return found is not None and holds_samples(found)

    def read(self, given: Given) -> SourceRead:
        """Read all rows. Raises KvpmError for a Parquet file that cannot be opened."""
        reader = _Reader(given)
        if given.head in ("", PARQUET):
            return reader.parquet(given.path)
        return reader.csv(given)


class _Reader:
    def __init__(self, given: Given) -> None:
        self._options = given.options
        self._writer = SeriesWriter(given.source_id, given.spool)
        self._moments = Moments(given.options.zone)
        self._counts = LineCounts()
        self._notes: list[str] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._columns: list[int] = []
        self._last: tuple[Any, int | None] = (None, None)
        self._formatted = 0

    def csv(self, given: Given) -> SourceRead:
        """Rows of delimited text."""
        head = csv_head(given.head)
        if head is None:
            return self._refused(_NO_TABLE)
        if isinstance(head.layout, Wide) and not head.layout.series:
            return self._refused(_UNNAMED)
        counts = self._counts
        record = 0
        skip = head.header_lines
        for lines, cut in whole_lines(given.blocks):
            if cut:
                counts.last_line_cut = True
                counts.ignored += 1
                self._notes.append(CUT)
                break
            left = lines[skip:]
            counts.ignored += len(lines) - len(left)
            record += len(lines) - len(left)
            skip -= len(lines) - len(left)
            for at in range(0, len(left), _BATCH_ROWS):
                part = [line.rstrip("\r") for line in left[at : at + _BATCH_ROWS]]
                self._rows(head.layout, _cells(part, head.delimiter), record)
                record += len(part)
        return self._result(head.layout)

    def parquet(self, path: Path | None) -> SourceRead:
        """Rows of a Parquet file, some at a time."""
        if path is None:
            raise KvpmError("a Parquet file cannot be read from a pipe", hint="give its path")
        try:
            with pq.ParquetFile(path) as file:
                columns = file.schema_arrow.names
                layout = layout_of(columns)
                if layout is None:
                    return self._refused(_NO_TABLE)
                if isinstance(layout, Wide) and not layout.series:
                    return self._refused(_UNNAMED)
                record = 0
                for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                    cells = [_column(batch.column(i)) for i in range(batch.num_columns)]
                    self._rows(layout, zip(*cells, strict=True), record)
                    record += batch.num_rows
        except (pa.ArrowInvalid, OSError) as error:
            raise KvpmError(f"{path} cannot be read as Parquet", hint="is it complete? copy it again") from error
        return self._result(layout)

    def _rows(self, layout: Layout, rows: Iterable[Sequence[Any]], record: int) -> None:
        series: list[int] = []
        times: list[int] = []
        values: list[float] = []
        for row in rows:
            record += 1
            if isinstance(layout, Long):
                self._long(layout, row, record, series, times, values)
            else:
                self._wide(layout, row, record, series, times, values)
        self._writer.extend(series, times, values)
        if len(self._known) > _MAX_KEYS:
            self._known.clear()

    def _long(self, at: Long, row: Sequence[Any], record: int, series: list[int], times: list[int], values: list[float]) -> None:
        counts = self._counts
        if not row:
            counts.ignored += 1
            return
        try:
            ts, value = self._time(row[at.time]), _number(row[at.value])
            number = self._series(at, row, record)
        except IndexError:
            counts.unmatched += 1
            return
        if number is not None and number < 0:
            counts.other += number == OTHER
            counts.ignored += number != OTHER
        elif number is None or ts is None or value is None:
            empty = number is not None and ts is not None and _is_empty(row[at.value])
            counts.ignored += empty
            counts.unmatched += not empty
        else:
            series.append(number)
            times.append(ts)
            values.append(value)
            counts.matched += 1

    def _series(self, at: Long, row: Sequence[Any], record: int) -> int | None:
        metric, labels = row[at.metric], None if at.labels is None else row[at.labels]
        key = (metric, labels if isinstance(labels, str) else repr(labels), *[row[i] for i, _ in at.others])
        number = self._known.get(key)
        if number is not None:
            return number
        selector = read_selector(metric) if isinstance(metric, str) else None
        found = _labels(labels)
        if selector is None or not selector[0] or found is None:
            return None
        # a cell that is not equal to itself is a NaN, which pandas has for no label
        others = {name: str(row[i]) for i, name in at.others if not _is_empty(row[i]) and row[i] == row[i]}
        number = self._known[key] = resolve(self._writer, selector[0], others | found | selector[1], record)
        return number

    def _wide(self, at: Wide, row: Sequence[Any], record: int, series: list[int], times: list[int], values: list[float]) -> None:
        if not self._columns:
            self._columns = [resolve(self._writer, name, labels, record) for _, name, labels in at.series]
        counts = self._counts
        ts = self._time(row[at.time]) if len(row) > at.time else None
        if ts is None:
            counts.unmatched += any(not _is_empty(c) for c in row)
            counts.ignored += all(_is_empty(c) for c in row)
            return
        stored = bad = 0
        for number, (i, _, _) in zip(self._columns, at.series, strict=True):
            if number < 0 or i >= len(row) or _is_empty(row[i]):
                continue
            value = _number(row[i])
            if value is None:
                bad += 1
                continue
            series.append(number)
            times.append(ts)
            values.append(value)
            stored += 1
        self._formatted += bad
        if stored:
            counts.matched += 1
        elif bad:
            counts.unmatched += 1
        elif all(number == OTHER for number in self._columns):
            counts.other += 1
        else:
            counts.ignored += 1

    def _time(self, cell: Any) -> int | None:
        if cell == self._last[0] and self._last[1] is not None:
            return self._last[1]
        ts: int | None = None
        if isinstance(cell, str):
            ts = self._moments.stamp(cell)
        elif isinstance(cell, datetime):
            if cell.tzinfo is None:
                ts = self._moments.stamp(cell.isoformat())
            else:
                ts = to_us(cell)
        elif (moment := parse_epoch(cell)) is not None:
            ts = to_us(moment)
        if ts is not None and not is_sane(ts):
            ts = None
        self._last = cell, ts
        return ts

    def _refused(self, nothing: str) -> SourceRead:
        read = source_read(LongTable.name, self._writer, self._counts)
        read.nothing = nothing
        return read

    def _result(self, layout: Layout) -> SourceRead:
        if isinstance(layout, Wide) and layout.unnamed:
            self._notes.append(f"{layout.unnamed} columns have no metric name and are left")
        if self._formatted:
            self._notes.append(f"{self._formatted} values are written with a unit and are not read: turn off formatted data")
        if self._moments.assumed:
            self._notes.append(NO_ZONE)
        return source_read(LongTable.name, self._writer, self._counts, clock_assumed=self._moments.assumed, notes=self._notes)


def _cells(lines: list[str], delimiter: str) -> Iterator[list[str]]:
    """The cells of each line. One reader for all is faster, but cannot go on behind a line that is no CSV."""
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        rows = []
    return iter(rows if len(rows) == len(lines) else csv_rows(lines, delimiter))


def _column(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        # nanoseconds have no place in a datetime
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    cells: list[Any] = column.to_pylist()
    return cells


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip() in _NO_VALUE)


def _number(cell: Any) -> float | None:
    if isinstance(cell, str):
        return float(cell) if is_value(cell) else None
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return None
    return float(cell)


def _labels(cell: Any) -> dict[str, str] | None:
    """Labels of one cell: JSON, the text of a label set, or what Parquet has for a map; None when it is none of these."""
    if _is_empty(cell):
        return {}
    if isinstance(cell, str):
        text = cell.strip()
        read = read_labels(text) if text.startswith("{") else None
        if read is not None and read[2] == len(text):
            return read[1]
        try:
            cell = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
    if isinstance(cell, list) and all(isinstance(p, tuple) and len(p) == 2 for p in cell):
        cell = dict(cell)
    if not isinstance(cell, dict):
        return None
    return {str(k): str(v) for k, v in cell.items() if v is not None and k != "__name__"}
