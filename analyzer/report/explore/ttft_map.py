"""TTFT as a map: time against TTFT, each cell the stronger the more requests fell into it.

Exact where requests tell TTFT: by the time of their arrival. Else from histograms: a cell is then one of their buckets,
over the time between scrapes, and the last one has no upper end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from analyzer.language import _
from analyzer.report import fmt
from analyzer.report.explore.model import Column, ExploreInstance, Tables, Times, Values

SOURCE = "ttft-map"
# Columns of cells along the time, of all instances together, and the least and most that one may have.
MAX_SLICES = 480
SLICES = (40, 120)
# Cells from one power of ten to the next, and the lowest TTFT that has its own.
PER_DECADE = 8
LEAST_S = 0.001
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
# The faintest cell is still seen.
_LEAST_SHADE = 0.15


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """The cells of one instance: from `left` to `right` in epoch ms, from `low` to `high` seconds (where `high` is
    infinite, nothing bounds it), `count` requests each (never 0). `exact` is False where histograms told."""

    anchor: str
    left: Times
    right: Times
    low: Values
    high: Values
    count: Values
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class TtftMap:
    """The maps of all instances that tell TTFT."""

    mapped: tuple[Mapped, ...]

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest end of all cells, in seconds; of a cell without an upper end see `ceiling`."""
        low = min(float(self._floors(one).min()) for one in self.mapped)
        return low, max(float(_ceilings(one).max()) for one in self.mapped)

    def _floors(self, one: Mapped) -> Values:
        # The first bucket of a histogram begins at zero, which a logarithmic scale does not have.
        return np.where(one.low > 0, one.low, one.high / np.float32(2)).astype(np.float32)

    def tables(self) -> Tables:
        """The columns of each instance's source."""
        return {one.anchor: {SOURCE: self._columns(one)} for one in self.mapped}

    def _columns(self, one: Mapped) -> dict[str, Column]:
        shade = _LEAST_SHADE + (1 - _LEAST_SHADE) * np.log1p(one.count) / np.log1p(one.count.max())
        return {
            "left": one.left,
            "right": one.right,
            "bottom": self._floors(one),
            "top": _ceilings(one),
            "shade": np.round(shade, 2).astype(np.float32),
            "count": [fmt.plural(round(float(n)), "request") for n in one.count],
            "range": [_range(float(low), float(high)) for low, high in zip(one.low, one.high, strict=True)],
        }

    def note(self, anchor: str) -> str:
        """How much the fullest cell holds, and where the counts come from."""
        one = next((m for m in self.mapped if m.anchor == anchor), None)
        if one is None:
            return _("TTFT was not recorded for this instance.")
        most = fmt.plural(round(float(one.count.max())), "request")
        told = (
            _("Counted by the time of arrival; requests without a first token are not in it.")
            if one.exact
            else _("From histograms: a cell is one of their buckets, over the time between two scrapes or more.")
        )
        return fmt.sentences((_("The fullest cell holds {n}.", n=most), told))


def _ceilings(one: Mapped) -> Values:
    return np.where(np.isfinite(one.high), one.high, one.low * np.float32(2)).astype(np.float32)


def _range(low: float, high: float) -> str:
    if math.isinf(high):
        return _("over {seconds}", seconds=fmt.duration(low))
    if low <= 0:
        return _("up to {seconds}", seconds=fmt.duration(high))
    return _("{low} to {high}", low=fmt.duration(low), high=fmt.duration(high))


def build_ttft_map(con: duckdb.DuckDBPyConnection, instances: Sequence[ExploreInstance]) -> TtftMap | None:
    """The maps of these instances; None when none tells TTFT."""
    sources = {
        name or "": source
        for name, source in con.execute(
            "SELECT instance, min(ttft_source) FROM signal_ttft WHERE ttft_source IS NOT NULL GROUP BY instance"
        ).fetchall()
    }
    told = [one for one in instances if one.name in sources]
    most = min(SLICES[1], max(SLICES[0], MAX_SLICES // max(1, len(told))))
    found = [_mapped(con, asked, most, exact=sources[asked.name] != "histogram") for asked in told]
    mapped = tuple(one for one in found if one is not None)
    return TtftMap(mapped) if mapped else None


# Bounds that not all histograms have at a time are left out, and cumulative counts never fall, as in `signal_latency`.
_HISTOGRAM = """
WITH rises AS (
  SELECT floor(epoch_us(ts) / 1e6 / $step)::BIGINT AS slice, prev_ts, ts, le, n, told
  FROM _latency_rise
  WHERE instance IS NOT DISTINCT FROM $name AND what = 'ttft' AND prev_ts IS NOT NULL
),
spans AS (
  SELECT slice, epoch_us(min(prev_ts)) / 1e3 AS left_ms, epoch_us(max(ts)) / 1e3 AS right_ms FROM rises WHERE n > 0 GROUP BY slice
),
bounds AS (
  SELECT slice, le, sum(n) AS n, sum(told) AS told FROM rises GROUP BY slice, le
),
shared AS (
  SELECT * FROM bounds QUALIFY told = max(told) OVER (PARTITION BY slice)
),
risen AS (
  SELECT slice, le, max(n) OVER (PARTITION BY slice ORDER BY le) AS upto FROM shared
),
cells AS (
  SELECT slice, coalesce(lag(le) OVER own, 0.0) AS low, le AS high, upto - coalesce(lag(upto) OVER own, 0.0) AS n
  FROM risen
  WINDOW own AS (PARTITION BY slice ORDER BY le)
)
SELECT s.left_ms, s.right_ms, c.low, c.high, c.n
FROM cells AS c JOIN spans AS s USING (slice)
WHERE c.n > 0
ORDER BY s.left_ms, c.low
"""

_EXACT = """
WITH placed AS (
  SELECT floor(epoch_us(coalesce(arrival_ts, ts)) / 1e6 / $step)::BIGINT AS slice,
         floor($per * log10(greatest(ttft_s, $least)) + 1e-9)::BIGINT AS rung
  FROM request_best
  WHERE instance IS NOT DISTINCT FROM $name AND coalesce(arrival_ts, ts) IS NOT NULL AND isfinite(ttft_s) AND ttft_s >= 0
)
SELECT slice * $step * 1000.0, (slice + 1) * $step * 1000.0, power(10, rung / $per), power(10, (rung + 1) / $per), count(*)
FROM placed
GROUP BY slice, rung
ORDER BY slice, rung
"""


def _mapped(con: duckdb.DuckDBPyConnection, asked: ExploreInstance, slices: int, *, exact: bool) -> Mapped | None:
    name = asked.name or None
    span = con.execute(
        """
        SELECT epoch(max(coalesce(arrival_ts, ts)) - min(coalesce(arrival_ts, ts)))
        FROM request_best WHERE instance IS NOT DISTINCT FROM $name
        """
        if exact
        else "SELECT epoch(max(ts) - min(prev_ts)) FROM _latency_rise WHERE instance IS NOT DISTINCT FROM $name AND what = 'ttft'",
        {"name": name},
    ).fetchall()[0][0]
    step = next((s for s in _STEPS_S if (span or 0.0) / s <= slices), math.ceil((span or 0.0) / slices))
    if exact:
        rows = con.execute(_EXACT, {"name": name, "step": step, "per": float(PER_DECADE), "least": LEAST_S}).fetchall()
    else:
        rows = con.execute(_HISTOGRAM, {"name": name, "step": step}).fetchall()
    if not rows:
        return None
    left, right, low, high, count = np.array(rows, dtype=np.float64).T
    return Mapped(
        asked.anchor,
        np.round(left),
        np.round(right),
        low.astype(np.float32),
        high.astype(np.float32),
        count.astype(np.float32),
        exact,
    )
