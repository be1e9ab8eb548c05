"""SGLang's `--log-requests-format json` as a file of its own: one event a line, received and finished."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from statistics import median
from typing import Any

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.growing import growing_records
from analyzer.parsers.request_records.jsonlines import Document, glance
from analyzer.parsers.request_records.rows import Row, Rows
from analyzer.parsers.request_records.sglang_metrics_file import meta_extra
from analyzer.parsers.request_records.texts import find_prompt, text_columns
from analyzer.parsers.request_records.values import request_id
from analyzer.parsers.requests_text import MAX_OPEN, meta_columns
from analyzer.parsers.resume import MOST_WAITING, alive, plain
from analyzer.sources.timestamps import parse_epoch, parse_iso

# The logger's own stamp and ranks before the JSON.
_PREFIX = re.compile(r"^\[\d[\w :.,-]{7,80}\] (?=\{)")
_ON_EACH_LINE = re.compile(r"(?m)^\[\d[\w :.,-]{7,80}\] (?=\{)")
# Records looked at to settle the zone of `timestamp`.
_FIRST = 200
_ZONE_STEP_S = 900


def _is_record(document: Document) -> bool:
    return str(document.get("event")).startswith("request.") and "timestamp" in document


def _is_event(document: Document) -> bool:
    return _is_record(document) or document.get("event") == "scheduler.status"


class SglangRequestLog:
    """Puts the two events of each request together. `timestamp` is local time without a zone."""

    name = "sglang_request_log"

    def claims(self, head: str, name: str) -> bool:
        """True when every line is such an event; among other lines they are the engine log's."""
        seen = glance(_ON_EACH_LINE.sub("", head))
        return seen.only(_is_event) and (not seen.records or any(map(_is_record, seen.records)))

    def read(self, given: Given) -> SourceRead:
        """One row for each request, whichever of its events are there."""
        rows = Rows(given, self.name, "frontend")
        pairs = _Pairs(rows)
        records = growing_records(given, rows, _is_record, _PREFIX, pairs)
        if given.resume is None:
            first = list(islice(records, _FIRST))
            _settle_zone(rows, [document for _, document in first])
            records = chain(first, records)
        pairs.settled = True
        for record, document in records:
            pairs.take(record, document)
        pairs.end()
        return rows.result("no request in it")


def _settle_zone(rows: Rows, documents: list[Document]) -> None:
    """Without `--tz`, take the zone from records that tell their end in epoch seconds too."""
    clock = rows.values.clock
    if clock.zone is not None:
        return
    apart: list[float] = []
    for document in documents:
        local = parse_iso(str(document.get("timestamp")))
        ended = parse_epoch(_meta(document).get("request_finished_ts"))
        if local is not None and local.tzinfo is None and ended is not None:
            apart.append((local.replace(tzinfo=UTC) - ended).total_seconds())
    if apart:
        clock.offset = timedelta(seconds=round(median(apart) / _ZONE_STEP_S) * _ZONE_STEP_S)
        hours = clock.offset.total_seconds() / 3600
        clock.decisions.append(f"stamps without a zone are {hours:+g} h from the epoch times of the same records: shifted to UTC by that")


def _meta(document: Document) -> dict[str, Any]:
    out = document.get("out")
    meta = out.get("meta_info") if isinstance(out, dict) else None
    return meta if isinstance(meta, dict) else {}


class _Pairs:
    """Adds a row for each request once it has ended. `settled`: the zone of its stamps is known."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._waiting: dict[str, tuple[int, Row]] = {}
        self._finishes = False
        self.settled = False

    def take(self, record: int, document: Document) -> None:
        """Take one event."""
        rows, waiting = self._rows, self._waiting
        event, ts = document["event"], rows.values.moment(document["timestamp"])
        rid = request_id(document.get("rid") or _meta(document).get("id"))
        if event == "request.finished":
            self._finishes = True
            begun = waiting.pop(rid, None) if rid else None
            row = _finished(rows, document, rid, ts)
            if begun:
                self._add(begun[0], begun[1] | {k: v for k, v in row.items() if v is not None})
            else:
                self._add(record, row)
        elif event == "request.received" and rid is not None:
            waiting[rid] = record, _asked(rows, document) | {"rid": rid, "arrival_ts": ts}
            if len(waiting) > MAX_OPEN:
                self._add(*waiting.pop(next(iter(waiting))))

    def end(self) -> None:
        """No more events come."""
        for record, row in self._waiting.values():
            self._add(record, row | ({"status": "unfinished"} if self._finishes else {}))

    def state(self) -> dict[str, Any] | None:
        """What waits for its end, as plain JSON; None when that cannot be kept."""
        if not self.settled or len(self._waiting) > MOST_WAITING:
            return None
        return {"waiting": [[rid, record, plain(row)] for rid, (record, row) in self._waiting.items()], "finishes": self._finishes}

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._waiting = {rid: (record, alive(row)) for rid, record, row in state["waiting"]}
        self._finishes = state["finishes"]

    def _add(self, record: int, row: Row) -> None:
        self._rows.add(record, "sglang", row)


def _finished(rows: Rows, document: Document, rid: str | None, ts: datetime | None) -> Row:
    out = document.get("out")
    row = _asked(rows, document, out.get("text") if isinstance(out, dict) else None) | meta_columns(_meta(document))
    row.setdefault("status", "finished")
    row.setdefault("finish_ts", ts)
    return row | {"rid": rid, "extra": meta_extra(_meta(document))}


def _asked(rows: Rows, document: Document, output: Any = None) -> Row:
    asked = document.get("obj")
    asked = asked if isinstance(asked, dict) else {}
    row = text_columns(find_prompt(asked), output, rows.keep_text)
    sampling = asked.get("sampling_params")
    if isinstance(sampling, dict):
        row["max_new_tokens"] = rows.values.count(sampling.get("max_new_tokens"))
    return row
