"""A request from named fields, as a user's own client writes them or `--map` names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from analyzer.parsers.request_records.outcome import outcome
from analyzer.parsers.request_records.rows import Row
from analyzer.parsers.request_records.values import Values, request_id
from analyzer.sources.timestamps import parse_epoch

_UNIT = re.compile(r"_(s|secs?|seconds|ms|millis|milliseconds|us|micros|microseconds|ns|nanos|nanoseconds)$", re.IGNORECASE)
_SCALES = {"s": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_EPOCH_S = (1.4e9, 4.2e9)

SYNONYMS: dict[str, tuple[str, ...]] = {
    "arrival": (
        *("arrival", "arrival_time", "arrival_ts", "send", "send_time", "send_ts", "sent", "sent_at", "start", "start_time", "start_ts"),
        *("started_at", "request_start", "request_start_time", "request_time", "timestamp", "ts", "time"),
    ),
    "first_token": ("first_token", "first_token_time", "first_token_ts", "first_token_at"),
    "finish": ("finish", "finish_time", "finish_ts", "finished_at", "end", "end_time", "end_ts", "ended_at", "request_end_time"),
    "ttft": ("ttft", "time_to_first_token", "first_token_latency"),
    "e2e": ("e2e", "e2e_latency", "e2el", "latency", "total_latency", "request_latency", "duration", "elapsed", "total_time"),
    "queue": ("queue", "queue_time", "queue_latency", "time_in_queue"),
    "prefill": ("prefill", "prefill_time"),
    "decode": ("decode", "decode_time"),
    "itl_mean": ("mean_itl", "itl_mean", "avg_itl", "tpot", "time_per_output_token"),
    "itl_max": ("max_itl", "itl_max"),
    "itls": ("itls", "itl", "inter_token_latencies"),
    "prompt_tokens": ("prompt_tokens", "input_tokens", "prompt_len", "input_len", "input_length", "num_prompt_tokens", "isl"),
    "output_tokens": (
        *("output_tokens", "completion_tokens", "generated_tokens", "output_len", "output_length", "num_output_tokens", "osl"),
    ),
    "max_new_tokens": ("max_new_tokens", "max_tokens", "max_completion_tokens", "requested_output_tokens"),
    "cached_tokens": ("cached_tokens", "num_cached_tokens"),
    "retractions": ("retractions", "preemptions", "num_retractions", "num_preemptions"),
    "rid": ("rid", "request_id", "req_id", "id"),
    "dp": ("dp", "dp_rank"),
    "server": ("server", "base_url", "api_url", "url", "endpoint", "host"),
    "status": ("status", "state", "success", "ok", "finish_reason", "http_status", "status_code"),
    "error": ("error", "err", "exception", "error_message"),
    "pending": ("pending",),
    "prompt": ("prompt", "prompt_text", "messages", "prompt_token_ids", "input_ids"),
    "output": ("output", "output_text", "response", "generated_text", "completion"),
}
"""Canonical field names, and what a client may call them; a unit (`_ms`, `_s`, `_us`, `_ns`) may follow."""

_CANONICAL = {word: canonical for canonical, words in SYNONYMS.items() for word in words}
DURATIONS = {
    "ttft": "ttft_s",
    "e2e": "e2e_s",
    "queue": "queue_s",
    "prefill": "prefill_s",
    "decode": "decode_s",
    "itl_mean": "itl_mean_s",
    "itl_max": "itl_max_s",
}
TIMES = (("arrival", "arrival_ts"), ("first_token", "first_token_ts"), ("finish", "finish_ts"))
COUNTS = ("prompt_tokens", "output_tokens", "max_new_tokens", "cached_tokens", "retractions")

Fields = dict[str, tuple[Any, float | None]]
"""Canonical name to (raw value, seconds of its unit; None where no unit is named)."""


@lru_cache(maxsize=1024)
def canonical(key: str) -> tuple[str, float | None] | None:
    """(canonical name, unit) of a client's key; None for one that means nothing here."""
    word = key.strip().lower().replace("-", "_").replace(" ", "_")
    if word in _CANONICAL:
        return _CANONICAL[word], None
    known = _CANONICAL.get(_UNIT.sub("", word))
    return (known, unit_of(word)) if known else None


def unit_of(key: str) -> float | None:
    """Seconds of the unit that a column's name ends in; None without one."""
    match = _UNIT.search(key)
    return _SCALES[match[1][0].lower()] if match else None


@lru_cache(maxsize=4096)
def known_keys(keys: tuple[str, ...]) -> tuple[tuple[str, str, float | None], ...]:
    """(key, canonical name, unit) of those keys that mean something; the records of one file have few shapes."""
    known = ((key, canonical(key)) for key in keys)
    return tuple((key, *found) for key, found in known if found is not None)


Keys = tuple[tuple[str, str, float | None], ...]
"""(key, canonical name, unit) of the keys of a record that mean something."""


def client_fields(document: Mapping[str, Any]) -> Fields:
    """The fields of a record by the usual names."""
    return fields_of(document, known_keys(tuple(document)))


def fields_of(document: Mapping[str, Any], keys: Keys) -> Fields:
    """The fields of a record; of two that mean the same, the first with a value."""
    found: Fields = {}
    for key, name, unit in keys:
        if name not in found or found[name][0] is None:
            found[name] = document[key], unit
    return found


def request_row(values: Values, fields: Fields) -> Row:
    """The columns of one request; `server`, texts and the record's number are the caller's."""
    row: Row = {}
    for name, column in DURATIONS.items():
        if name in fields:
            value, unit = fields[name]
            row[column] = values.seconds(value, unit or 1.0)
    for name in COUNTS:
        if name in fields:
            row[name] = values.count(fields[name][0])
    _moments(values, fields, row)
    value, unit = fields.get("itls", (None, None))
    gaps = values.list_of_seconds(value, unit or 1.0)
    if gaps and row.get("itl_max_s") is None:
        row["itl_max_s"] = max(gaps)
    row["rid"] = request_id(_raw(fields, "rid"))
    rank = values.count(_raw(fields, "dp"))
    row["dp"] = None if rank is None else values.rank(rank)
    answered = any(row.get(c) is not None for c in ("ttft_s", "first_token_ts", "e2e_s", "finish_ts"))
    row["status"], row["error"] = outcome(_raw(fields, "status"), _raw(fields, "error"), _raw(fields, "pending"), answered)
    return row


def _raw(fields: Fields, name: str) -> Any:
    return fields.get(name, (None, None))[0]


def _moments(values: Values, fields: Fields, row: Row) -> None:
    """Times of the wall clock go to their columns; others are the client's own clock, of which differences are left."""
    own: dict[str, float] = {}
    for name, column in TIMES:
        if name in fields:
            row[column], number = _time(values, *fields[name])
            if number is not None:
                own[name] = number
    if "arrival" not in own:
        return
    row["arrival_rel_s"] = own["arrival"]
    for name, column in (("first_token", "ttft_s"), ("finish", "e2e_s")):
        if row.get(column) is None and own.get(name, -1.0) >= own["arrival"]:
            row[column] = round(own[name] - own["arrival"], 9)


def _time(values: Values, value: object, unit: float | None) -> tuple[datetime | None, float | None]:
    """(time on the wall clock, seconds on a clock of the client's own); a unit in the name goes before one told by size."""
    if unit is None or (isinstance(value, str) and "-" in value.strip()[1:]):
        moment = values.moment(value)
        if moment is not None:
            return moment, None
    number = values.number(value, unit or 1.0)
    if number is None:
        return None, None
    if unit is not None and _EPOCH_S[0] < number < _EPOCH_S[1]:
        # from the value itself: scaling would lose microseconds
        return parse_epoch(value.strip() if isinstance(value, str) else value) or parse_epoch(number), None
    return None, number
