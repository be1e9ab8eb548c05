"""One request's lines, put together: received, finished, aborted, with the numbers each carries.

Only lengths, counts, times and ids are kept; prompts and outputs are not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from analyzer.formats.model import Parsed
from analyzer.formats.pyrepr import read_repr
from analyzer.formats.values import read_float
from analyzer.parsers.resume import MOST_WAITING, alive, plain
from analyzer.sources.timestamps import parse_epoch

Row = dict[str, Any]

# An id is kept only when it cannot be anything else; users may send any text as one.
_RID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
# No request takes a year: such a number is no duration.
_LONGEST_S = 31_536_000

# Columns, and what SGLang's `meta_info` calls them.
_COUNTS = (
    ("prompt_tokens", "prompt_tokens"),
    ("output_tokens", "completion_tokens"),
    ("cached_tokens", "cached_tokens"),
    ("retractions", "num_retractions"),
    ("retractions", "total_retractions"),
)
_DURATIONS = (("queue_s", "queue_time"), ("ttft_s", "first_token_latency"), ("e2e_s", "e2e_latency"))
_TIERS = (("cached_device_tokens", "device"), ("cached_host_tokens", "host"), ("cached_storage_tokens", "storage"))

# Requests that were received and never ended are held until the end; this bounds the memory for them.
MAX_OPEN = 200_000

# Ranks that print one request print it at once; as many requests are remembered as end in that time.
_ONE_REQUEST = timedelta(seconds=2)
_MAX_RECENT = 20_000
# Lines of a log are in order but for some seconds.
_OUT_OF_ORDER = timedelta(minutes=10)


def meta_values(text: str) -> Row:
    """What SGLang's `out={…}` or its JSON event tells of a request, in column names."""
    document: Any
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document, _ = read_repr(text)
    if not isinstance(document, dict):
        return {}
    out = document.get("out", document)
    meta = out.get("meta_info", {}) if isinstance(out, dict) else {}
    if not isinstance(meta, dict):
        meta = {}
    row: Row = {}
    rid = document.get("rid") or meta.get("id")
    if isinstance(rid, str) and _RID.fullmatch(rid):
        row["rid"] = rid
    if str(document.get("event")).startswith("request.received"):
        row["_received"] = True
    asked = document.get("obj")
    sampling = asked.get("sampling_params") if isinstance(asked, dict) else None
    if isinstance(sampling, dict):
        asked_for = sampling.get("max_new_tokens")
        if _is_count(asked_for):
            row["max_new_tokens"] = asked_for
    return row | meta_columns(meta)


def meta_columns(meta: dict[str, Any]) -> Row:
    """What SGLang's `meta_info` of a response tells, in column names; what it does not tell is left out."""
    row: Row = {}
    for column, key in _COUNTS:
        value = meta.get(key)
        if _is_count(value):
            row[column] = value
    for column, key in _DURATIONS:
        value = meta.get(key)
        if (type(value) is float or type(value) is int) and 0 <= value < _LONGEST_S:
            row[column] = float(value)
    details = meta.get("cached_tokens_details")
    if isinstance(details, dict):
        for column, tier in _TIERS:
            value = details.get(tier)
            if _is_count(value):
                row[column] = value
    for column, key in (("arrival_ts", "request_received_ts"), ("finish_ts", "request_finished_ts")):
        moment = parse_epoch(meta.get(key))
        if moment is not None:
            row[column] = moment
    began, ended = parse_epoch(meta.get("forward_entry_time")), parse_epoch(meta.get("prefill_finished_time"))
    if began is not None and ended is not None and ended >= began:
        row["prefill_s"] = (ended - began).total_seconds()
    rank = meta.get("dp_rank")
    if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 15:
        row["dp"] = rank
    if meta:
        row |= _end(meta.get("finish_reason"))
    if row.get("status") == "finished" and row.get("ttft_s", math.inf) <= row.get("e2e_s", 0.0):
        row["decode_s"] = round(row["e2e_s"] - row["ttft_s"], 9)
    return row


def _end(reason: object) -> Row:
    """Status, and the HTTP code of an abort that was answered with one."""
    kind = reason.get("type") if isinstance(reason, dict) else reason
    if kind != "abort":
        return {"status": "finished"}
    code = reason.get("status_code") if isinstance(reason, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        return {"status": "aborted", "error": f"http_{code}"}
    return {"status": "aborted"}


def _is_count(value: Any) -> bool:
    """True for a count that a column can hold."""
    return type(value) is int and 0 <= value < 1 << 62


def _forward(kind: str | None, queue_s: float | None, forward_s: float) -> Row:
    """What the time from the first forward pass to the end is: of a half of a PD pair it is that half's work alone."""
    if kind == "prefill":
        return {"prefill_s": forward_s}
    if kind == "decode":
        return {"decode_s": forward_s}
    return {} if queue_s is None else {"e2e_s": queue_s + forward_s}


class RequestLines:
    """Collects the lines of each request until it ends.

    `add` returns the rows that became whole; `rest` the ones still open at the end. Whether those are
    unfinished is known only where the engine logs finishes at all (`finishes_logged`).
    """

    def __init__(self) -> None:
        self._open: dict[str, Row] = {}
        self._recent: dict[tuple[object, ...], tuple[datetime, set[tuple[int, ...]]]] = {}
        self.finishes_logged = False

    def add(self, parsed: Parsed, row: Row, ranks: Mapping[str, int]) -> list[Row]:
        """Take in one parsed request line; `row` has origin columns, `ts` and the parsed values, `ranks` are the printer's."""
        if parsed.argument_text:
            row |= meta_values(parsed.argument_text)
        received = row.pop("_received", False)
        ts = row.get("ts")
        entry = parse_epoch(parsed.extra.get("entry_time"))
        if entry is not None:
            row["arrival_ts"] = entry
        if parsed.format.id in ("sglang.request_times",):
            forward = read_float(parsed.extra.get("forward_ms", ""))
            if forward is not None:
                row |= _forward(parsed.extra.get("type"), row.get("queue_s"), forward / 1000.0)
            row["finish_ts"] = ts
            return [] if self._repeats(row, parsed.extra.get("type"), ranks) else [row]
        rids = str(row.get("rid") or "").split(",")
        done: list[Row] = []
        for rid in rids:
            one = {**row, "rid": rid or None}
            ends = one.get("status") in ("finished", "aborted", "error") and not received
            first = self._open.pop(rid, None) if rid else None
            if ends:
                self.finishes_logged = self.finishes_logged or one.get("status") == "finished"
                one.setdefault("finish_ts", ts)
                done.append(_merged(first, one))
            elif rid:
                one.setdefault("arrival_ts", ts)
                self._open[rid] = _merged(first, one) if first else one
                if len(self._open) > MAX_OPEN:
                    done.append(self._open.pop(next(iter(self._open))))
        return done

    def _repeats(self, row: Row, kind: str | None, ranks: Mapping[str, int]) -> bool:
        """True when another tp, pp or ep rank has just told of this request; the same rank tells of another one."""
        rank = tuple(ranks.get(r, -1) for r in ("tp", "pp", "ep"))
        ts = row.get("ts")
        if ts is None or max(rank) < 0:
            return False
        key = (row.get("stream"), row.get("dp"), row.get("rid"), kind, row.get("prompt_tokens"), row.get("output_tokens"))
        known = self._recent.pop(key, None)
        if known and abs(ts - known[0]) <= _ONE_REQUEST and rank not in known[1]:
            known[1].add(rank)
            self._recent[key] = known
            return True
        self._recent[key] = (ts, {rank})
        if len(self._recent) > _MAX_RECENT:
            del self._recent[next(iter(self._recent))]
        return False

    def state(self) -> dict[str, Any] | None:
        """What is open and what was seen just now, as plain JSON; None when that is too much to be kept."""
        if len(self._open) > MOST_WAITING:
            return None
        newest = next(reversed(self._recent.values()), None)
        recent = [(k, v) for k, v in self._recent.items() if newest and abs(v[0] - newest[0]) <= _OUT_OF_ORDER]
        return {
            "open": [[rid, plain(row)] for rid, row in self._open.items()],
            "recent": [[list(key), ts.isoformat(), sorted(ranks)] for key, (ts, ranks) in recent],
            "finishes_logged": self.finishes_logged,
        }

    def go_on(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._open = {rid: alive(row) for rid, row in state["open"]}
        self._recent = {tuple(k): (datetime.fromisoformat(ts), {tuple(r) for r in ranks}) for k, ts, ranks in state["recent"]}
        self.finishes_logged = state["finishes_logged"]

    def rest(self) -> list[Row]:
        """Requests with a beginning and no end."""
        rows = list(self._open.values())
        self._open.clear()
        if self.finishes_logged:
            for row in rows:
                row.setdefault("status", "unfinished")
        return rows


def _merged(first: Row | None, last: Row) -> Row:
    """Both lines' values: the origin of the first, the numbers of the last."""
    if first is None:
        return last
    origin: Row = {k: first[k] for k in ("source_id", "record", "ts", "outer_ts", "arrival_ts") if k in first}
    row = first | {k: v for k, v in last.items() if v is not None} | dict(origin)
    if row.get("e2e_s") is None and row.get("arrival_ts") and row.get("finish_ts"):
        row["e2e_s"] = (row["finish_ts"] - row["arrival_ts"]).total_seconds()
    return row
