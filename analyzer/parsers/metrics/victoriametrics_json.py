"""What VictoriaMetrics gives at `/api/v1/export`: a line for each series, or for each part of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import nan
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from analyzer.parsers.metrics.exposition import is_sane
from analyzer.parsers.metrics.lines import whole_lines
from analyzer.parsers.metrics.prometheus_json import is_labels
from analyzer.parsers.metrics.resolve import OTHER, resolve
from analyzer.parsers.metrics.result import CUT, source_read
from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.series import SeriesWriter
from analyzer.sources.pieces import LineCounts

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_VALUE = r'(?:-?\d[\d.eE+-]*|null|"[-+]?Inf(?:inity)?"|"NaN")'
# The times can stand beyond the beginning that is looked at: a line holds all values first.
_LINE = re.compile(
    rf'\A\ufeff?\s*\{{\s*"metric"\s*:\s*\{{\s*(?:{_STRING}\s*:\s*{_STRING}\s*(?:,\s*)?)*\}}\s*,\s*'
    rf'(?:"values"\s*:\s*\[\s*{_VALUE}\s*(?:,|\])|"timestamps"\s*:\s*\[\s*\d+\s*(?:,|\]))'
)


class VictoriaMetricsJson:
    """JSON lines with `metric`, `values` and `timestamps`."""

    name = "victoriametrics_json"

    def claims(self, head: str, name: str) -> bool:
        """True when the first line is such a line."""
        return _LINE.match(head) is not None

    def read(self, given: Given) -> SourceRead:
        """Read all lines."""
        writer = SeriesWriter(given.source_id, given.spool)
        counts = LineCounts()
        notes: list[str] = []
        for record, (line, cut) in enumerate(_lines(given.blocks), 1):
            document = _loads(line)
            if document is None and cut:
                counts.last_line_cut = True
                counts.ignored += 1
                notes.append(CUT)
            elif document is None:
                counts.unmatched += bool(line.strip())
                counts.ignored += not line.strip()
            else:
                _take(document, writer, counts, record)
        return source_read(self.name, writer, counts, notes=notes)


def _lines(blocks: Iterator[str]) -> Iterator[tuple[str, bool]]:
    for lines, cut in whole_lines(blocks):
        for line in lines:
            yield line, cut


def _loads(line: str) -> dict[str, Any] | None:
    try:
        document = orjson.loads(line.encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _take(document: dict[str, Any], writer: SeriesWriter, counts: LineCounts, record: int) -> None:
    metric, values, times = document.get("metric"), document.get("values"), document.get("timestamps")
    if not is_labels(metric) or not isinstance(values, list) or not isinstance(times, list) or len(values) != len(times):
        counts.unmatched += 1
        return
    moments = _moments(times)
    numbers = None if moments is None else _numbers(values)
    if moments is None or numbers is None:
        counts.unmatched += 1
        return
    labels = {k: v for k, v in metric.items() if k != "__name__"}
    if "__name__" not in metric:
        counts.other += 1
        return
    number = resolve(writer, metric["__name__"], labels, record)
    if number < 0:
        counts.other += number == OTHER
        counts.ignored += number != OTHER
        return
    writer.extend(number, moments, numbers)
    counts.matched += 1


def _moments(times: list[Any]) -> npt.NDArray[np.int64] | None:
    """Microseconds of milliseconds; None when not all are moments."""
    if any(kind not in (int, bool) for kind in set(map(type, times))):
        return None
    try:
        moments = np.array(times, np.int64)
    except OverflowError:
        return None
    # compared before they are multiplied, which could go round
    sane = not len(moments) or (is_sane(int(moments.min()) * 1000) and is_sane(int(moments.max()) * 1000))
    return moments * 1000 if sane else None


def _numbers(values: list[Any]) -> npt.NDArray[np.float64] | None:
    """Values as they are exported, NaN for null; None when one of them is none."""
    if set(map(type, values)) <= {int, float}:
        return np.array(values, np.float64)
    try:
        return np.array([nan if v is None else float(v) for v in values], np.float64)
    except (TypeError, ValueError):
        return None
