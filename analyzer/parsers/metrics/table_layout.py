"""What the columns of a table of samples are: a row for each sample, or a column for each series."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzer.formats.metrics import engine_of
from analyzer.parsers.metrics.exposition import is_value, read_selector
from analyzer.parsers.metrics.moments import Moments

_TIMES = frozenset(
    (
        "time",
        "timestamp",
        "ts",
        "_time",
        "datetime",
        "date_time",
        "scrape_ts",
        "scrape_time",
        "timestamp_ms",
        "timestamp_s",
        "time_ms",
        "epoch",
    )
)
_METRICS = frozenset(("metric", "__name__", "metric_name"))
# Other tables have columns of these names too: what stands in them decides.
_METRICS_PERHAPS = frozenset(("name", "series"))
_VALUES = frozenset(("value", "val", "_value"))
_LABELS = frozenset(("labels", "tags", "label_set"))
# Columns that are no labels: an index would make a series of each row.
_NOT_LABELS = frozenset(("", "index", "row", "unnamed: 0", "__index_level_0__", "type", "unit", "help", "description"))
_DELIMITERS = (",", "\t", ";", "|")


@dataclass(frozen=True, slots=True)
class Long:
    """Column numbers of a table with a row for each sample; `others` are labels, by column name."""

    time: int
    metric: int
    value: int
    labels: int | None
    others: tuple[tuple[int, str], ...]
    sure: bool


@dataclass(frozen=True, slots=True)
class Wide:
    """Column numbers of a table with a column for each series; `unnamed` legends have labels and no metric."""

    time: int
    series: tuple[tuple[int, str, dict[str, str]], ...]
    unnamed: int = 0


Layout = Long | Wide


@dataclass(slots=True)
class CsvHead:
    """The beginning of a CSV file: its layout, its delimiter, lines before and with the header, whole rows in the head."""

    layout: Layout
    delimiter: str
    header_lines: int
    rows: list[list[str]] = field(default_factory=list)


def layout_of(columns: Sequence[str]) -> Layout | None:
    """The layout of a table with these column names; None when it holds no samples."""
    names = [c.strip().lower() for c in columns]
    time = _first(names, _TIMES)
    if time is None:
        return None
    metric, value, labels = _first(names, _METRICS), _first(names, _VALUES), _first(names, _LABELS)
    sure = metric is not None
    if metric is None:
        metric = _first(names, _METRICS_PERHAPS)
    if metric is not None and value is not None:
        taken = {time, metric, value, labels}
        others = tuple((i, columns[i].strip()) for i, n in enumerate(names) if i not in taken and n not in _NOT_LABELS)
        return Long(time, metric, value, labels, others, sure)
    series = []
    unnamed = 0
    for i, column in enumerate(columns):
        selector = None if i == time else read_selector(column)
        if selector is None or ("{" not in column and engine_of(selector[0]) is None):
            continue
        name, found = selector
        if name:
            series.append((i, name, found))
        else:
            unnamed += 1
    return Wide(time, tuple(series), unnamed) if series or unnamed else None


def csv_head(head: str) -> CsvHead | None:
    """The layout of the CSV text that begins with `head`; None when it is no table of samples."""
    lines = head.removeprefix("\ufeff").split("\n")
    if len(lines) > 1:
        lines.pop()
    skipped = 0
    while lines and (not lines[0].strip() or lines[0].startswith("sep=")):
        lines.pop(0)
        skipped += 1
    if not lines:
        return None
    for delimiter in _DELIMITERS:
        if delimiter not in lines[0]:
            continue
        rows = list(csv_rows([line.rstrip("\r") for line in lines[:200]], delimiter))
        layout = layout_of(rows[0]) if rows else None
        if layout is not None:
            return CsvHead(layout, delimiter, skipped + 1, rows[1:])
    return None


def csv_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of whole lines; a line that is no CSV comes back without cells."""
    rows = []
    for line in lines:
        try:
            rows.append(next(csv.reader((line,), delimiter=delimiter), []))
        except csv.Error:
            rows.append([])
    return rows


def holds_samples(head: CsvHead) -> bool:
    """True when the rows agree with the layout: requests and results of benchmarks have such columns too."""
    layout = head.layout
    if isinstance(layout, Wide):
        return True
    moments = Moments(None)
    for row in head.rows:
        if len(row) <= max(layout.time, layout.metric, layout.value):
            continue
        selector = read_selector(row[layout.metric])
        if selector is None or moments.stamp(row[layout.time]) is None or not is_value(row[layout.value]):
            continue
        if layout.sure or engine_of(selector[0]) is not None:
            return True
    return False


def _first(names: Sequence[str], wanted: frozenset[str]) -> int | None:
    return next((i for i, n in enumerate(names) if n in wanted), None)
