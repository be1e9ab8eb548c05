"""The buckets of one instance, as the view `timeline` gives them: what charts, table and severity are made from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from analyzer.report import fmt

_COLUMNS = (
    "running",
    "waiting",
    "kv_usage",
    "prompt_tps",
    "gen_tps",
    "retracted",
    "preempted",
    "wait_est_s",
    "ttft_p50_s",
    "ttft_p95_s",
    "ttft_p99_s",
    "ttft_p99_low_s",
    "ttft_p99_high_s",
    "ttft_n",
    "l1_used_tokens",
    "l1_evictable_tokens",
    "l1_available_tokens",
    "l1_capacity_tokens",
    "l2_used_share",
)
# Infinity is an answer here: the P99 lies beyond the histogram's last bound, or among requests that never got a token.
_MAY_BE_INFINITE = frozenset(("ttft_p99_high_s",))
HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Bucket:
    """One row of `timeline`; times in epoch seconds, NULL and non-finite numbers are None."""

    start: float
    end: float
    run: str
    values: dict[str, float | None]
    ttft_source: str

    def get(self, name: str) -> float | None:
        """One column's value."""
        return self.values[name]

    @property
    def ttft_open(self) -> bool:
        """True when the P99 is known to be longer than any value that could be given for it."""
        high = self.get("ttft_p99_high_s")
        return high is not None and math.isinf(high)


def read_buckets(con: duckdb.DuckDBPyConnection, instance: str) -> list[Bucket]:
    """All buckets of an instance in the order of time."""
    rows = con.execute(
        f"""
        SELECT epoch_us(bucket_ts), bucket_s::DOUBLE, run_id, ttft_source::VARCHAR,
               {", ".join(f"{c}::DOUBLE" for c in _COLUMNS)}
        FROM timeline
        WHERE instance IS NOT DISTINCT FROM ? AND bucket_ts IS NOT NULL
        ORDER BY bucket_ts, run_id
        """,
        [instance or None],
    ).fetchall()
    buckets = []
    for start_us, width, run, ttft_source, *values in rows:
        start = start_us / 1e6
        buckets.append(
            Bucket(
                start=start,
                end=start + (width if width and math.isfinite(width) and width > 0 else 1.0),
                run=run or "",
                values={name: _known(name, value) for name, value in zip(_COLUMNS, values, strict=True)},
                ttft_source=fmt.clean(ttft_source, 60),
            )
        )
    return buckets


def _known(name: str, value: float | None) -> float | None:
    if value is None or math.isnan(value) or (math.isinf(value) and name not in _MAY_BE_INFINITE):
        return None
    return value


def breaks(buckets: Sequence[Bucket]) -> list[int]:
    """The indices before which a curve must end: a missing bucket, or another process lifetime."""
    return [
        i
        for i in range(1, len(buckets))
        if buckets[i].run != buckets[i - 1].run or buckets[i].start > buckets[i - 1].end + 0.5 * (buckets[i].end - buckets[i].start)
    ]
