"""Requests rebuilt from SGLang's prefill and decode lines: each is in one prefill line, and lines say how many waited."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

import duckdb
import numpy as np

from analyzer.replay.case.cached_counts import evenly, split_cached
from analyzer.replay.case.first_admissions import Admission, first_ones
from analyzer.replay.case.residence import Rate, outputs
from analyzer.replay.case.seen import Seen
from analyzer.replay.case.spread import Numbers, moments, rising
from analyzer.replay.settings import Sglang

_LEAST_LINES = 5
# Lines that differ by more requests than this share from the records are of other ones too.
_NOT_THE_SAME = 0.05
# So many lines with one request, before and after, tell which counts of cached tokens are usual at the time.
_NEAR = 20

# Lines of one reporting rank, with retractions between them.
_LINES = """
SELECT ts, record, kind, running, waiting, new_seqs, new_tokens, cached_tokens, gen_tps, NULL::BIGINT AS retracted
FROM (
    SELECT *, dense_rank() OVER (ORDER BY coalesce(tp, 0), coalesce(pp, 0), coalesce(ep, 0)) AS reporter
    FROM scheduler
    WHERE instance = $instance AND run_id = $run AND kind IN ('prefill', 'decode') AND ts IS NOT NULL
        AND ts >= coalesce(getvariable('since')::TIMESTAMPTZ, '-infinity'::TIMESTAMPTZ)
        AND ts <= coalesce(getvariable('until')::TIMESTAMPTZ, 'infinity'::TIMESTAMPTZ)
)
WHERE reporter = 1
UNION ALL
SELECT ts, record, 'retraction', NULL, NULL, NULL, NULL, NULL, NULL, requests
FROM event WHERE instance = $instance AND run_id = $run AND kind = 'retraction' AND requests > 0
ORDER BY ts, record
"""


@dataclass(frozen=True, slots=True)
class Admitted:
    """What prefill lines tell: when requests came and all admissions, in the order of the queue, in seconds after `start`.

    `ended` is the running total of those that ended by `at_s`, `rate` how fast they made tokens.
    """

    start: datetime
    arrivals: Numbers
    admissions: list[Admission]
    at_s: list[float]
    ended: Numbers
    rate: Rate


def from_sglang_lines(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, settings: Sglang) -> tuple[datetime, list[Seen]] | None:
    """(second 0, requests in the order of arrival); None where the log has too few prefill lines. Lengths of outputs: see `residence`."""
    told = admitted(con, instance, run_id, settings)
    if told is None:
        return None
    n, there = len(told.arrivals), [a for a in told.admissions if not a.again]
    made = outputs([a.at_s for a in there], told.at_s, told.ended, told.rate, n)
    typical = max(1, round(float(np.median([a.prompt_tokens for a in there])))) if there else 1
    lengths = [(round(a.prompt_tokens), round(a.cached_tokens)) for a in there] + [(typical, None)] * (n - len(there))
    found = zip(told.arrivals.tolist(), lengths, made, strict=False)
    return told.start, [Seen(arrival, max(1, prompt), output, cached) for arrival, (prompt, cached), output in found]


def admitted(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, settings: Sglang) -> Admitted | None:
    """The admissions of all requests; None where the log has too few prefill lines.

    Arrivals lie evenly between the lines that tell of them. A retracted request goes to the end of the queue and is admitted again: the
    order of the queue tells which one that is, and it is not counted twice.
    """
    lines = _lines(con, instance, run_id)
    if sum(r["kind"] == "prefill" for r in lines) < _LEAST_LINES:
        return None
    start: datetime = lines[0]["ts"]
    at_s = _inside_seconds([(r["ts"] - start).total_seconds() for r in lines])
    admissions, so_far = _admissions(lines, at_s, settings)
    retracted = np.cumsum([r["retracted"] or 0 for r in lines])
    came = rising(so_far - retracted + _held([r["waiting"] for r in lines]))
    arrivals = moments([0.0, *at_s], np.concatenate(([0.0], came)))
    back = [at for at, r in zip(at_s, lines, strict=True) for _ in range(r["retracted"] or 0)]
    queue = sorted([(t, True) for t in arrivals.tolist()] + [(t, False) for t in back])
    for a, (_, is_fresh) in zip(admissions, queue, strict=False):
        a.again = not is_fresh
    running = _held([r["running"] if r["kind"] == "decode" else None for r in lines])
    ended = rising(np.maximum(0.0, so_far - retracted - running))
    return Admitted(start, arrivals, admissions, at_s, ended, _rate(lines, at_s))


def cached_tokens(told: Admitted, start: datetime, prompts: Sequence[int]) -> list[int] | None:
    """What each recorded request found cached, in the order of arrival; None where the lines are not of the same requests.

    `start` is the first one's arrival, `prompts` are their lengths. Of the new requests of a line the sum is known: see `split_cached`.
    """
    early = (start - told.start).total_seconds() - 1.0
    admissions = [a for a in told.admissions if a.at_s >= early]
    first = first_ones(admissions, prompts)
    n = len(prompts)
    if not n or abs(len(first) - n) > _NOT_THE_SAME * n:
        return None
    alone = [(a.line, round(a.cached_tokens)) for a in first if a.together == 1]
    lines = [line for line, _tokens in alone]
    found: list[int] = []
    for line, group in groupby(first, key=lambda a: a.line):
        members = list(group)
        total = round(members[0].cached_tokens * members[0].together)
        at = bisect_left(lines, line)
        near = Counter(tokens for _line, tokens in alone[max(0, at - _NEAR) : at + _NEAR])
        # most versions do not count in a line what retracted requests find
        split = split_cached(total, len(members), near) or split_cached(total, members[0].together, near)
        found += (split or evenly(total, members[0].together))[: len(members)]
    return (found + [0] * n)[:n]


def _lines(con: duckdb.DuckDBPyConnection, instance: str, run_id: str) -> list[dict[str, Any]]:
    cursor = con.execute(_LINES, {"instance": instance, "run": run_id})
    names = [d[0] for d in cursor.description or []]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


def _inside_seconds(at_s: Sequence[float]) -> list[float]:
    """Stamps of whole seconds, spread inside their second."""
    if any(t != int(t) for t in at_s):
        return list(at_s)
    found: list[float] = []
    n = 0
    for i, t in enumerate(at_s):
        n = n + 1 if i and t == at_s[i - 1] else 0
        same = n + 1
        while i + same - n < len(at_s) and at_s[i + same - n] == t:
            same += 1
        found.append(t + (n + 0.5) / same)
    return found


def _admissions(lines: list[dict[str, Any]], at_s: list[float], settings: Sglang) -> tuple[list[Admission], Numbers]:
    """(one for each request of each prefill line, how many there were by each line).

    A line that fills its chunk ends inside a prompt, and the next one goes on with it: requests of such lines share their tokens evenly.
    What was found cached is told in the line in which a request is new.
    """
    found: list[Admission] = []
    totals = []
    group: list[Admission] = []
    tokens = cached = 0.0
    goes_on = False

    def close() -> None:
        for one in group:
            one.prompt_tokens, one.sharing = (tokens + cached) / len(group), len(group)

    for nth, (r, at) in enumerate(zip(lines, at_s, strict=True)):
        if r["kind"] == "prefill":
            if not goes_on:
                close()
                group, tokens, cached = [], 0.0, 0.0
            new = max(0, (r["new_seqs"] or 0) - goes_on)
            added = [Admission(at, nth, new, (r["cached_tokens"] or 0) / new) for _ in range(new)]
            group += added
            found += added
            tokens += r["new_tokens"] or 0
            cached += r["cached_tokens"] or 0
            chunk = settings.chunked_prefill_tokens
            goes_on = chunk is not None and (r["new_tokens"] or 0) > chunk - settings.page_tokens
        totals.append(len(found))
    close()
    return found, np.asarray(totals, dtype=np.float64)


def _rate(lines: list[dict[str, Any]], at_s: list[float]) -> Rate:
    """Tokens made between decode lines: the printed throughput is over all of the time since the line before."""
    decodes = [(at, r) for at, r in zip(at_s, lines, strict=True) if r["kind"] == "decode" and r["gen_tps"] is not None]
    times = [at for at, _ in decodes]
    tokens = [0.0] + [r["gen_tps"] * (at - times[i]) for i, (at, r) in enumerate(decodes[1:])]
    return Rate(times, tokens, [max(1, r["running"] or 0) for _, r in decodes])


def _held(values: Sequence[float | None]) -> Numbers:
    """A gauge that holds until it is told again."""
    found, now = [], 0.0
    for value in values:
        now = now if value is None else float(value)
        found.append(now)
    return np.asarray(found)
