"""Who told what of one instance: log or metrics, counters or lines, requests still pending, what L2 moved.

The charts draw numbers from `timeline`; this is what their notes say about where those numbers come from.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import duckdb


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of scheduler reports from one source, `log` or `metrics`; times in epoch seconds."""

    basis: str
    preferred: bool
    start: float
    end: float
    reports: int


@dataclass(frozen=True, slots=True)
class Moved:
    """What L2 did in one bucket: tokens, bytes and failures; None where nobody told."""

    start: float
    source: str
    loaded_tokens: int | None
    loaded_bytes: int | None
    hit_tokens: int | None
    failures: int | None
    used_tokens: int | None
    used_bytes: int | None


@dataclass(frozen=True, slots=True)
class Told:
    """`pending` are (epoch second of arrival, requests without a first token at the end); `rises` the spans (previous
    scrape, scrape) in which a TTFT histogram rose, `lowest_le_s` its first bound; `counted` are (bucket, who counted
    retractions there, retracted, preempted); `other` the peaks that only the other of log and metrics shows."""

    spells: tuple[Spell, ...] = ()
    other: dict[str, Any] | None = None
    pending: tuple[tuple[int, int], ...] = ()
    rises: tuple[tuple[float, float], ...] = ()
    lowest_le_s: float | None = None
    counted: tuple[tuple[float, str, int | None, int | None], ...] = ()
    moved: tuple[Moved, ...] = ()

    def pending_in(self, start: float, end: float) -> int:
        """Pending requests that arrived in a range of epoch seconds, its end left out."""
        first, stop = (bisect_left(self.pending, moment, key=itemgetter(0)) for moment in (start, end))
        return sum(n for _, n in self.pending[first:stop])


def read_told(con: duckdb.DuckDBPyConnection, instance: str) -> Told:
    """What the views tell of one instance beside the timeline."""
    name = [instance or None]

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return con.execute(sql, name).fetchall()

    pending = rows(
        """
        SELECT floor(epoch(coalesce(arrival_ts, ts)))::BIGINT AS at_s, count(*)
        FROM request_best
        WHERE instance IS NOT DISTINCT FROM ? AND censored AND ttft_s IS NULL AND coalesce(arrival_ts, ts) IS NOT NULL
        GROUP BY at_s ORDER BY at_s
        """
    )
    return Told(
        spells=tuple(Spell(*row) for row in rows(_SPELLS)),
        other=_other(con, name),
        pending=tuple(pending),
        rises=tuple(
            rows(
                """
                SELECT DISTINCT epoch_us(prev_ts) / 1e6 AS since, epoch_us(ts) / 1e6 AS at_s
                FROM counter_delta
                WHERE instance IS NOT DISTINCT FROM ? AND name = 'ttft_s' AND part = 'count' AND delta > 0 AND prev_ts IS NOT NULL
                ORDER BY at_s, since
                """
            )
        ),
        lowest_le_s=rows("SELECT min(le) FROM series WHERE instance IS NOT DISTINCT FROM ? AND name = 'ttft_s' AND part = 'bucket'")[0][0],
        counted=tuple(
            rows(
                """
                SELECT epoch_us(bucket_ts) / 1e6 AS at_s, retract_source, retracted, preempted
                FROM signal_retract
                WHERE instance IS NOT DISTINCT FROM ? AND bucket_ts IS NOT NULL
                ORDER BY at_s, retract_source
                """
            )
        ),
        moved=tuple(
            Moved(start, source or "", *values)
            for start, source, *values in rows(
                """
                SELECT epoch_us(bucket_ts) / 1e6 AS at_s, l2_source, loaded_tokens, loaded_bytes, hit_tokens, failures,
                       l2_used_tokens, l2_used_bytes
                FROM signal_l2
                WHERE instance IS NOT DISTINCT FROM ? AND bucket_ts IS NOT NULL
                ORDER BY at_s, l2_source
                """
            )
        ),
    )


_SPELLS = """
WITH steps AS (
  SELECT ts, basis, preferred, basis IS DISTINCT FROM lag(basis) OVER (ORDER BY ts, basis) AS other
  FROM scheduler_clean
  WHERE instance IS NOT DISTINCT FROM ? AND ts IS NOT NULL
),
numbered AS (
  SELECT *, sum(other::INTEGER) OVER (ORDER BY ts, basis) AS spell FROM steps
)
SELECT any_value(basis), any_value(preferred), epoch_us(min(ts)) / 1e6, epoch_us(max(ts)) / 1e6, count(*)
FROM numbered GROUP BY spell ORDER BY spell
"""


def _other(con: duckdb.DuckDBPyConnection, name: Sequence[str | None]) -> dict[str, Any] | None:
    columns = ("other_basis", "other_running", "other_waiting", "other_kv_usage")
    found = con.execute(f"SELECT {', '.join(columns)} FROM peaks WHERE instance IS NOT DISTINCT FROM ?", name).fetchall()
    return dict(zip(columns, found[0], strict=True)) if found and found[0][0] is not None else None
