"""The requests of one process run as their observer saw them, and when any was in flight."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb
import numpy as np
from numpy.typing import NDArray

from analyzer.replay.result import Served

# Requests that never reached the engine (connection refused) were not in flight.
_SEEN = """
SELECT
    coalesce(rid, source_id || ':' || record) AS id,
    row_number() OVER (PARTITION BY coalesce(rid, source_id || ':' || record) ORDER BY arrival_ts, arrival_rel_s, source_id, record) AS nth,
    epoch(arrival_ts) - epoch($start::TIMESTAMPTZ) AS arrival_s,
    coalesce(ttft_s, epoch(first_token_ts) - epoch(arrival_ts)) AS ttft_s,
    coalesce(e2e_s, epoch(finish_ts) - epoch(arrival_ts)) AS e2e_s,
    itl_max_s,
    prompt_tokens,
    output_tokens,
    coalesce(cached_tokens, 0) AS cached_tokens,
    retractions,
    observer
FROM request_best
WHERE instance = $instance AND run_id = $run AND arrival_ts IS NOT NULL
    AND (ttft_s IS NOT NULL OR first_token_ts IS NOT NULL OR coalesce(status = 'unfinished', false))
    AND epoch(arrival_ts) - epoch($start::TIMESTAMPTZ) <= $end
ORDER BY arrival_ts, source_id, record
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request; times in seconds of the workload, None where it did not come to that or was not told."""

    id: str
    arrival_s: float
    first_token_s: float | None
    finish_s: float | None
    itl_max_s: float | None
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    retractions: int | None
    observer: str

    @property
    def ttft_s(self) -> float | None:
        """Arrival to first token."""
        return None if self.first_token_s is None else self.first_token_s - self.arrival_s


def seen(con: duckdb.DuckDBPyConnection, instance: str, run_id: str, start: datetime | None, end_s: float) -> list[Seen]:
    """In the order of arrival, those that arrived by `end_s`; none where the workload has no place in time."""
    if start is None:
        return []
    rows = con.execute(_SEEN, {"instance": instance, "run": run_id, "start": start, "end": end_s}).fetchall()
    return [
        Seen(
            id=rid if nth == 1 else f"{rid}#{nth}",
            arrival_s=arrival,
            first_token_s=None if ttft is None else arrival + ttft,
            finish_s=None if e2e is None or ttft is None else arrival + e2e,
            itl_max_s=longest,
            prompt_tokens=prompt or 0,
            output_tokens=output or 0,
            cached_tokens=cached,
            retractions=retractions,
            observer=observer,
        )
        for rid, nth, arrival, ttft, e2e, longest, prompt, output, cached, retractions, observer in rows
    ]


class Spans:
    """Stretches of time, each with a weight: how much of them lies before a moment."""

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        """`spans` are (start_s, end_s) and may overlap."""
        edges = sorted([(start, 1) for start, end in spans if end > start] + [(end, -1) for start, end in spans if end > start])
        self._at = [at for at, _ in edges]
        level = np.cumsum([step for _, step in edges]) if edges else np.zeros(0)
        length = np.diff(self._at, append=self._at[-1]) if edges else np.zeros(0)
        self._level = level
        self._any = _running(np.where(level > 0, length, 0.0))
        self._sum = _running(level * length)

    def any(self, start_s: float, end_s: float) -> float:
        """Seconds between the two in which at least one holds."""
        return self._before(self._any, end_s, True) - self._before(self._any, start_s, True)

    def sum(self, start_s: float, end_s: float) -> float:
        """Seconds between the two, each as often as there are spans that hold."""
        return self._before(self._sum, end_s, False) - self._before(self._sum, start_s, False)

    def _before(self, done: NDArray[np.float64], at: float, once: bool) -> float:
        index = bisect_right(self._at, at) - 1
        if index < 0:
            return 0.0
        level = float(self._level[index])
        return float(done[index]) + (at - self._at[index]) * (min(level, 1.0) if once else level)


def _running(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate(([0.0], np.cumsum(values)))[:-1] if len(values) else np.zeros(0)


def in_flight(requests: Sequence[Seen], end_s: float) -> Spans:
    """When requests were with the server: from their arrival to their end, or to `end_s`."""
    return Spans([(r.arrival_s, end_s if r.finish_s is None else r.finish_s) for r in requests])


def spans_of_decoding(requests: Sequence[Seen | Served], end_s: float) -> list[tuple[str, float, float]]:
    """(id, first token, last) of requests that made tokens, seen or replayed; `end_s` where there was no last one."""
    return [(r.id, r.first_token_s, end_s if r.finish_s is None else r.finish_s) for r in requests if r.first_token_s is not None]


def decoding(requests: Sequence[Seen], end_s: float) -> Spans:
    """When requests made tokens: from the first to the last."""
    return Spans([(start, end) for _id, start, end in spans_of_decoding(requests, end_s)])
