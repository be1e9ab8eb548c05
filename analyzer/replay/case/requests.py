"""The request records of one process run, as a replay needs them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from statistics import median

import duckdb

from analyzer.diagnosis.case import Row
from analyzer.language import _, ngettext
from analyzer.replay.case.never_reached import never_reached
from analyzer.replay.case.told import Told
from analyzer.replay.workload import Request

# A request that went wrong sooner than this, without a token, was turned away before the scheduler.
_TURNED_AWAY_S = 1.0
# Answers that say so: a request that is wrong, or that there is no room for.
_TURNED_AWAY = re.compile("http_(4..|503)")
# Of those that ended, at least this share used up its limit: then the others will too.
_USED_UP = 0.95
_KNOWN_SHARE = 0.5
_NO_LENGTH = 256
# So few lengths that are not known change nothing.
_FEW_GUESSED = 0.05

_ROWS = """
SELECT
    coalesce(rid, source_id || ':' || record) AS id,
    row_number() OVER (PARTITION BY coalesce(rid, source_id || ':' || record) ORDER BY arrival_ts, arrival_rel_s, source_id, record) AS nth,
    arrival_ts,
    arrival_rel_s,
    coalesce(first_token_ts, arrival_ts + to_microseconds((ttft_s * 1e6)::BIGINT)) AS first_token_ts,
    coalesce(finish_ts, arrival_ts + to_microseconds((e2e_s * 1e6)::BIGINT)) AS finish_ts,
    coalesce(e2e_s, epoch(finish_ts) - epoch(arrival_ts)) AS e2e_s,
    coalesce(ttft_s IS NOT NULL OR first_token_ts IS NOT NULL, false) AS answered,
    prompt_tokens, output_tokens, max_new_tokens, cached_tokens, status, error, prompt_sha256, block_hashes, observer,
    try_cast(extra['priority'] AS INTEGER) AS priority
FROM request_best
WHERE instance = $instance AND ($run IS NULL OR run_id = $run)
ORDER BY arrival_ts, arrival_rel_s, source_id, record
"""


@dataclass(frozen=True, slots=True)
class Records:
    """Requests in the order of arrival; `start` is the first one's arrival, `last` the last moment that any of them tells of."""

    told: tuple[Told, ...]
    start: datetime | None
    observer: str
    last: datetime | None
    pending: int
    notes: tuple[str, ...]
    approximate: bool


def records(con: duckdb.DuckDBPyConnection, instance: str, run_id: str | None) -> Records | None:
    """What request records tell of a run (of all with None); None where too few of them say when they came and how long they were."""
    everything = _rows(con, instance, run_id)
    served = _served(con, instance, run_id, everything)
    placed = [r for r in served if r["arrival_ts"] is not None]
    if not placed or len(placed) < _KNOWN_SHARE * len(served) or _known(placed, "prompt_tokens") < _KNOWN_SHARE * len(placed):
        return None
    notes, approximate = _Lengths(placed).said()
    if turned_away := len(everything) - len(served):
        notes.append(
            ngettext(
                "{n} request was turned away before it reached the scheduler and is left out",
                "{n} requests were turned away before they reached the scheduler and are left out",
                turned_away,
                n=turned_away,
            )
        )
    if lost := len(served) - len(placed):
        approximate = True
        notes.append(
            ngettext("{n} request without an arrival time is left out", "{n} requests without an arrival time are left out", lost, n=lost)
        )
    start: datetime = placed[0]["arrival_ts"]
    lengths = _Lengths(placed)
    told = tuple(_told(r, lengths, (r["arrival_ts"] - start).total_seconds(), start) for r in placed)
    moments = [r[c] for r in placed for c in ("arrival_ts", "first_token_ts", "finish_ts") if r[c] is not None]
    pending = sum(r["status"] == "unfinished" for r in placed)
    return Records(told, start, placed[0]["observer"], max(moments), pending, tuple(notes), approximate)


def unplaced(con: duckdb.DuckDBPyConnection, instance: str) -> Records | None:
    """Requests with a time of their own clock only: second 0 is the first one's arrival, which has no place in time."""
    found = [r for r in _rows(con, instance, None) if r["arrival_rel_s"] is not None]
    if not found or _known(found, "prompt_tokens") < _KNOWN_SHARE * len(found):
        return None
    lengths = _Lengths(found)
    notes, approximate = lengths.said()
    begin = found[0]["arrival_rel_s"]
    told = tuple(_told(r, lengths, r["arrival_rel_s"] - begin, None) for r in found)
    return Records(told, None, found[0]["observer"], None, 0, tuple(notes), approximate)


def _rows(con: duckdb.DuckDBPyConnection, instance: str, run_id: str | None) -> list[Row]:
    cursor = con.execute(_ROWS, {"instance": instance, "run": run_id})
    names = [d[0] for d in cursor.description or []]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


def _known(found: list[Row], column: str) -> int:
    return sum(r[column] is not None for r in found)


def _served(con: duckdb.DuckDBPyConnection, instance: str, run_id: str | None, everything: list[Row]) -> list[Row]:
    """Those that were a load on the engine: all but failed ones without a token that never reached it, as far as anything tells."""
    failed = [r for r in everything if r["status"] == "error" and not r["answered"] and not r["output_tokens"]]
    away = {id(r): _turned_away(r) for r in failed}
    slow = [r for r in failed if r["arrival_ts"] is not None and (r["e2e_s"] or 0.0) >= _TURNED_AWAY_S]
    if run_id is not None and slow:
        others = [r for r in everything if r["arrival_ts"] is not None and id(r) not in away]
        for i, never in never_reached(con, instance, run_id, others, slow).items():
            away[id(slow[i])] = never
    return [r for r in everything if not away.get(id(r), False)]


def _turned_away(row: Row) -> bool:
    """Whether a failed request was refused by its own record: at once, or with an answer that says so."""
    at_once = row["error"] != "timeout" and (row["e2e_s"] or 0.0) < _TURNED_AWAY_S
    return at_once or _TURNED_AWAY.fullmatch(row["error"] or "") is not None


class _Lengths:
    """Fills in the lengths that records do not tell, and says so."""

    def __init__(self, found: list[Row]) -> None:
        done = [r for r in found if r["status"] in (None, "finished") and r["output_tokens"] is not None]
        limited = [r for r in done if r["max_new_tokens"]]
        self._outputs = [r["output_tokens"] for r in done]
        self._typical = max(1, int(median(self._outputs))) if self._outputs else None
        self._prompt = max(1, int(median(p for r in found if (p := r["prompt_tokens"]) is not None)))
        self._used_up = len(limited) >= _USED_UP * len(done) and sum(
            r["output_tokens"] >= r["max_new_tokens"] for r in limited
        ) >= _USED_UP * len(limited)
        self._no_prompt = sum(r["prompt_tokens"] is None for r in found)
        self._open = sum(not _is_cut(r) and (r["output_tokens"] is None or _is_open(r)) for r in found)
        self._all = len(found)
        self._cut = sum(_is_cut(r) for r in found)
        self._no_limit = sum(not r["max_new_tokens"] for r in found)

    def prompt(self, row: Row) -> int:
        """Tokens, at least one."""
        tokens = row["prompt_tokens"]
        return max(1, self._prompt if tokens is None else int(tokens))

    def output(self, row: Row) -> int:
        """Tokens, at least one: those it got where it ended or was cut by its client."""
        got = row["output_tokens"]
        if _is_cut(row) or (got is not None and not _is_open(row)):
            return max(1, int(got or 0))
        limit = row["max_new_tokens"]
        if limit and (self._used_up or self._typical is None):
            return max(1, int(limit))
        expected = self._typical if self._typical is not None else _NO_LENGTH
        return max(1, int(got or 0), min(expected, int(limit or expected)))

    def said(self) -> tuple[list[str], bool]:
        """(notes, whether a length that matters is not the recorded one)."""
        notes = []
        if self._no_prompt:
            notes.append(
                ngettext(
                    "{n} request without a prompt length was given the median of {tokens} tokens",
                    "{n} requests without a prompt length were given the median of {tokens} tokens",
                    self._no_prompt,
                    n=self._no_prompt,
                    tokens=self._prompt,
                )
            )
        if self._open:
            expected = (
                _("the limit it asked for, as nearly all that ended")
                if self._used_up
                else _("the median of those that ended, {tokens} tokens", tokens=self._typical)
                if self._typical is not None
                else _("its limit, or {tokens} tokens", tokens=_NO_LENGTH)
            )
            notes.append(
                ngettext(
                    "{n} request had not ended; the length of its output was taken to be {expected}",
                    "{n} requests had not ended; the length of each one's output was taken to be {expected}",
                    self._open,
                    n=self._open,
                    expected=expected,
                )
            )
        if self._cut:
            notes.append(
                ngettext(
                    "{n} request was given up by its client and has the tokens it got; that it left the queue is not modelled",
                    "{n} requests were given up by their clients and have the tokens they got; that they left the queue is not modelled",
                    self._cut,
                    n=self._cut,
                )
            )
        if self._no_limit:
            notes.append(
                ngettext(
                    "{n} request does not tell how many tokens it asked for: taken as the length of its output",
                    "{n} requests do not tell how many tokens they asked for: taken as the length of their outputs",
                    self._no_limit,
                    n=self._no_limit,
                )
            )
        guessed = self._open if not self._used_up else 0
        return notes, bool(self._no_prompt or self._cut or guessed > _FEW_GUESSED * self._all)


def _is_open(row: Row) -> bool:
    """It would have gone on: still pending, or lost with its server."""
    return bool(row["status"] == "unfinished" or (row["status"] == "error" and row["error"] != "timeout"))


def _is_cut(row: Row) -> bool:
    """Its client gave it up."""
    return bool(row["status"] == "aborted" or (row["status"] == "error" and row["error"] == "timeout"))


def _told(row: Row, lengths: _Lengths, arrival_s: float, start: datetime | None) -> Told:
    output = lengths.output(row)
    request = Request(
        id=row["id"] if row["nth"] == 1 else f"{row['id']}#{row['nth']}",
        arrival_s=arrival_s,
        prompt_tokens=lengths.prompt(row),
        output_tokens=output,
        max_new_tokens=max(output, row["max_new_tokens"] or 0),
        priority=row["priority"] or 0,
    )
    return Told(
        request,
        first_token_s=_after(start, row["first_token_ts"]),
        finish_s=_after(start, row["finish_ts"]),
        cached_tokens=row["cached_tokens"],
        sha256=row["prompt_sha256"],
        hashes=tuple(row["block_hashes"]) if row["block_hashes"] else None,
    )


def _after(start: datetime | None, ts: datetime | None) -> float | None:
    return None if start is None or ts is None else (ts - start).total_seconds()
