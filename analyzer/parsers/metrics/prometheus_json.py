"""Answers of the Prometheus HTTP API to `query` and `query_range`, of whatever server speaks it.

One series is in memory at a time, however large the answer is. Of an answer that is cut or damaged the whole series
before that are read. A range query gives a gauge again at each step as long as its last sample
is in the look-back window; it is stored as it was answered. Lines are counted as series here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt
import orjson

from analyzer.parsers.metrics.exposition import is_sane, numbers
from analyzer.parsers.metrics.json_documents import json_pieces
from analyzer.parsers.metrics.pairs import WORTH_IT, read_pairs
from analyzer.parsers.metrics.resolve import OTHER, resolve
from analyzer.parsers.metrics.result import source_read
from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.series import SeriesWriter
from analyzer.sources.pieces import LineCounts

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_LABELS = rf"\{{\s*(?:{_STRING}\s*:\s*{_STRING}\s*(?:,\s*)?)*\}}"
# What curl or a terminal shows before the answer.
_AROUND = r"\A\ufeff?(?:[^{\[\n]*\n){0,60}?"
_ANSWER = re.compile(rf'{_AROUND}[\s\[]*\{{\s*"(?:status|data)"\s*:')
_MARKS = re.compile(r'"resultType"\s*:\s*"(?:matrix|vector|scalar|string)"|"status"\s*:\s*"error"\s*,\s*"errorType"\s*:')
_BARE_DATA = re.compile(rf'{_AROUND}[\s\[]*\{{\s*"resultType"\s*:\s*"(?:matrix|vector)"')
_BARE_RESULT = re.compile(rf'{_AROUND}[\s\[]*\{{\s*"metric"\s*:\s*{_LABELS}\s*,\s*"values?"\s*:\s*\[\s*(?:\[|\d+(?:\.\d+)?\s*,\s*")')
# A sample as short as one can be.
_SHORT = '[1796000000,"0"],'
_KIND = re.compile(r"[a-z_]{1,30}")


class PrometheusJson:
    """Answers of the HTTP API, one or many in a file."""

    name = "prometheus_json"

    def claims(self, head: str, name: str) -> bool:
        """True for an answer of the API, or the part of it that `jq` leaves."""
        if _BARE_DATA.match(head) or _BARE_RESULT.match(head):
            return True
        return _ANSWER.match(head) is not None and _MARKS.search(head) is not None

    def read(self, given: Given) -> SourceRead:
        """Read all answers."""
        return _Reader(SeriesWriter(given.source_id, given.spool)).run(given.blocks)


class _Reader:
    def __init__(self, writer: SeriesWriter) -> None:
        self._writer = writer
        self._counts = LineCounts()
        self._seen: Counter[str] = Counter()
        self._record = 0
        # Series of the object that is being read were taken already.
        self._cut_out = False

    def run(self, blocks: Iterator[str]) -> SourceRead:
        whole = True
        for text, whole, is_series in json_pieces(blocks):
            if is_series:
                # the object it is of ends later
                self._cut_out = True
                self._series(_parsed(text), self._record + 1)
                continue
            if not whole and not text.startswith("{"):
                self._counts.other += 1
                continue
            self._record += 1
            try:
                self._document(orjson.loads(text.encode("utf-8", "replace")) if whole else None)
            except orjson.JSONDecodeError:
                self._document(None)
            self._cut_out = False
        self._counts.last_line_cut = not whole and self._seen["broken"] > 0
        return source_read(PrometheusJson.name, self._writer, self._counts, notes=self._notes())

    def _document(self, document: Any) -> None:
        """One object: an answer, its data, or one series of a result."""
        if not isinstance(document, dict):
            self._seen["broken"] += 1
            self._counts.unmatched += 1
            return
        if document.get("status") == "error":
            kind = document.get("errorType")
            kind = kind if isinstance(kind, str) and _KIND.fullmatch(kind) else "unknown"
            self._seen[f"error {kind}"] += 1
            self._counts.ignored += 1
            return
        for key in ("warnings", "infos", "isPartial"):
            self._seen[key] += bool(document.get(key))
        data = document.get("data", document)
        if not isinstance(data, dict):
            self._seen["elsewhere"] += 1
            self._counts.other += 1
        elif "metric" in data:
            self._series(data, self._record)
        elif data.get("resultType") in ("scalar", "string"):
            self._seen["scalar"] += 1
            self._counts.other += 1
        elif isinstance(result := data.get("result"), list):
            self._seen["empty"] += not result
            self._counts.ignored += not result
            for series in result[self._cut_out :]:
                self._series(series, self._record)
        else:
            self._seen["elsewhere"] += 1
            self._counts.other += 1

    def _series(self, series: Any, record: int) -> None:
        counts = self._counts
        if not isinstance(series, dict) or not is_labels(series.get("metric")):
            counts.unmatched += 1
            return
        metric: Mapping[str, str] = series["metric"]
        if "histograms" in series or "histogram" in series:
            self._seen["histograms"] += 1
            if "values" not in series and "value" not in series:
                counts.ignored += 1
                return
        if "__name__" not in metric:
            self._seen["expressions"] += 1
            counts.other += 1
            return
        values = series.get("values", [series["value"]] if "value" in series else None)
        read = values if isinstance(values, _Columns) else _samples(values)
        if read is None:
            counts.unmatched += 1
            return
        labels = {k: v for k, v in metric.items() if k != "__name__"}
        number = resolve(self._writer, metric["__name__"], labels, record)
        if number < 0:
            counts.other += number == OTHER
            counts.ignored += number != OTHER
            return
        self._writer.extend(number, *read)
        counts.matched += 1

    def _notes(self) -> list[str]:
        seen = self._seen
        notes = [f"{n} answers are errors ({key[6:]})" for key, n in sorted(seen.items()) if key.startswith("error ")]
        for key, text in (
            ("empty", "answers are empty"),
            ("expressions", "series are results of expressions: they have no metric name and are left"),
            ("histograms", "series are native histograms, which are not read"),
            ("scalar", "answers are scalars or strings, which are of no series"),
            ("elsewhere", "answers are of other calls of the API, which hold no samples"),
            ("isPartial", "answers are partial, the server says"),
            ("warnings", "answers came with warnings"),
            ("infos", "answers came with remarks"),
            ("broken", "answers are cut or damaged: only their whole series are read"),
        ):
            if seen[key]:
                notes.append(f"{seen[key]} {text}")
        return notes


def is_labels(value: Any) -> TypeGuard[Mapping[str, str]]:
    """True for a label set as JSON has it: strings by name."""
    return isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())


class _Columns(NamedTuple):
    """Samples that were read by column."""

    times: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def _parsed(text: str) -> Any:
    """One series; None for what is none. Samples of a long one may be columns already."""
    start = text.find('"values":[[')
    if start > 0 and text.endswith('"]]}') and len(text) - start > WORTH_IT * len(_SHORT):
        columns = _columns(text[start + len('"values":[[') : -len('"]]}')])
        try:
            series = orjson.loads((text[:start] + '"values":0}').encode("utf-8", "replace")) if columns else None
        except orjson.JSONDecodeError:
            series = None
        if isinstance(series, dict) and series.get("values") == 0:
            return series | {"values": columns}
    try:
        return orjson.loads(text.encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return None


def _columns(text: str) -> _Columns | None:
    """The samples of `seconds,"value"],[seconds,"value`; None when it is not surely that."""
    lines = text.replace('"],[', "\n")
    count = lines.count("\n") + 1
    if lines.count(',"') != count:
        return None
    read = read_pairs(lines.replace(',"', ",").encode("utf-8", "replace"), ",", count)
    if read is None:
        return None
    seconds, values = read
    # nothing that is not finite is sane
    times = np.rint(seconds * 1_000_000)
    if not (is_sane(times.min()) and is_sane(times.max())):
        return None
    return _Columns(times.astype(np.int64), values)


def _samples(pairs: Any) -> tuple[list[int], list[float]] | None:
    """(microseconds, values) of `[[seconds, "value"], ...]`; None when it is anything else."""
    if not isinstance(pairs, list):
        return None
    try:
        times = [round(t * 1_000_000) for t, _ in pairs]
        values = numbers([v for _, v in pairs])
    except (TypeError, ValueError, OverflowError):
        return None
    if values is None or (times and not (is_sane(min(times)) and is_sane(max(times)))):
        return None
    return times, values
