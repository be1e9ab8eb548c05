"""Load of every data-parallel rank and instance, one lane each: who had the queue, and who had room meanwhile.

A lane is a row of blocks, each as high as the highest value of its time, against the highest of all lanes. A gauge holds
until the next report, as everywhere (`_report.dwell_s`); where nothing was reported the lane is empty, and a known zero is
a thin line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from analyzer.language import N_, _
from analyzer.report import fmt
from analyzer.report.charts import Unit
from analyzer.report.explore.model import Column, ExploreInstance, Times, Values

MAX_LANES = 64
# Blocks of all lanes and metrics together, and into how many parts of equal length a lane is cut at most.
MAX_BLOCKS = 24_000
PARTS = 250
# The column of `_report`, its title, its unit.
METRICS: tuple[tuple[str, str, Unit], ...] = (
    ("waiting", N_("Waiting"), "requests"),
    ("running", N_("Running"), "requests"),
    ("pool_usage", N_("KV usage"), "share"),
)
COLOURS = {"waiting": "c-red", "running": "c-blue", "pool_usage": "c-ink"}
# Height of a lane, between these; of all lanes, about this; of the time axis.
_LANE_PX = (14, 40)
_LANES_PX = 420
_AXIS_PX = 28
# Of a lane's height; the rest parts it from the next one.
TALLEST = 0.9
_ZERO = 0.03


@dataclass(frozen=True, slots=True)
class Lane:
    """One row: an instance's name as the page shows it, and the rank where it has several."""

    instance: str
    rank: int | None

    @property
    def label(self) -> str:
        """What stands at its left."""
        if self.rank is None:
            return self.instance
        return _("{instance}, rank {rank}", instance=self.instance, rank=self.rank) if self.instance else _("rank {rank}", rank=self.rank)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The blocks of one metric: `lane` counts from the top, `left` and `right` are epoch ms, `value` in the metric's unit.

    `top` is the highest value of all lanes, which is as high as a lane gets (of a share 1).
    """

    lane: tuple[int, ...]
    left: Times
    right: Times
    value: Values
    top: float


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """All lanes, the worst first where some were left out; `blocks` by metric. `part_s` is the time of one block at least."""

    lanes: tuple[Lane, ...]
    blocks: Mapping[str, Blocks]
    total: int
    part_s: float

    @property
    def metrics(self) -> tuple[tuple[str, str, Unit], ...]:
        """Those of METRICS that some rank reported, their titles in the language of the moment."""
        return tuple((key, _(title), unit) for key, title, unit in METRICS if key in self.blocks)

    @property
    def lane_px(self) -> int:
        """Height of one lane on the screen."""
        return min(_LANE_PX[1], max(_LANE_PX[0], _LANES_PX // len(self.lanes)))

    @property
    def height(self) -> int:
        """Height of the drawing, its time axis included."""
        return self.lane_px * len(self.lanes) + _AXIS_PX

    def tables(self) -> dict[str, dict[str, Column]]:
        """The columns of each metric's source, the same whichever instance is chosen."""
        return {source_name(key): self._columns(key, unit) for key, _title, unit in self.metrics}

    def _columns(self, key: str, unit: Unit) -> dict[str, Column]:
        blocks = self.blocks[key]
        floor = np.array([len(self.lanes) - 1 - n for n in blocks.lane], dtype=np.float64)
        height = TALLEST * np.maximum(blocks.value / (blocks.top or 1.0), _ZERO)
        return {
            "left": blocks.left,
            "right": blocks.right,
            "bottom": floor.astype(np.float32),
            "top": np.round(floor + height, 3).astype(np.float32),
            "roof": (floor + 1).astype(np.float32),
            "value": blocks.value,
            "label": [self.lanes[n].label for n in blocks.lane],
        }

    def note(self) -> str:
        """What a block is, and which lanes were left out."""
        notes = [
            _(
                "A block is the highest value of {duration}; equal neighbours are one. Nothing drawn means nothing reported, a thin line "
                "is zero.",
                duration=fmt.duration(self.part_s),
            )
        ]
        if self.total > len(self.lanes):
            notes.append(
                _(
                    "Showing {shown} of {n} lanes: those with the longest queues and the fullest pools.",
                    shown=fmt.number(len(self.lanes)), n=fmt.number(self.total),
                )
            )  # fmt: skip
        return fmt.sentences(notes)


def source_name(metric: str) -> str:
    """The name of the column source that holds one metric's blocks."""
    return f"lanes-{metric}"


# The worst: the longest queue, then the fullest pool, then the most running.
_RANKED = """
WITH peaks AS (
  SELECT instance, dp, max(waiting) AS waiting, max(pool_usage) AS usage, max(running) AS running
  FROM _report
  WHERE ts IS NOT NULL
  GROUP BY instance, dp
  HAVING count(waiting) + count(running) + count(pool_usage) > 0
)
SELECT instance, dp, count(*) OVER (PARTITION BY instance) AS ranks, count(*) OVER () AS total
FROM peaks
ORDER BY waiting DESC NULLS LAST, usage DESC NULLS LAST, running DESC NULLS LAST, instance, dp
LIMIT $limit
"""

# A report counts in every part of the time in which it holds.
_PARTS = """
WITH held AS (
  SELECT instance, dp, waiting, running, pool_usage,
         epoch_us(ts) / 1e6 - $start AS begin_s, epoch_us(ts) / 1e6 - $start + greatest(dwell_s, 0.0) AS end_s
  FROM _report
  WHERE ts IS NOT NULL AND list_contains($keys, concat(dp, '/', instance))
),
spread AS (
  SELECT *, unnest(range(floor(begin_s / $step)::BIGINT, greatest(floor(begin_s / $step) + 1, ceil(end_s / $step))::BIGINT)) AS part
  FROM held
)
SELECT instance, dp, part, max(waiting), max(running), max(pool_usage)
FROM spread
GROUP BY instance, dp, part
ORDER BY instance, dp, part
"""

Key = tuple[str, int]
"""An instance as the trace spells it, and the rank."""
Row = tuple[int, float | None, float | None, float | None]
"""A part of the time, and what METRICS were at most in it."""


def build_lanes(con: duckdb.DuckDBPyConnection, instances: Sequence[ExploreInstance]) -> Lanes | None:
    """The lanes of all ranks of all instances of the trace; None when there are fewer than two, so nothing to compare.

    `instances` are those that the page tells of, in its order; they come before the others.
    """
    ranked = con.execute(_RANKED, {"limit": MAX_LANES}).fetchall()
    if len(ranked) < 2:
        return None
    # Captures of several days are cut as finely as one of them.
    start, longest = con.execute(
        """
        SELECT min(first_us) / 1e6, max(last_us - first_us) / 1e6
        FROM (SELECT epoch_us(min(ts)) AS first_us, epoch_us(max(ts)) AS last_us FROM _report GROUP BY instance)
        """
    ).fetchall()[0]
    order = {one.name: n for n, one in enumerate(instances)}
    ranks: dict[Key, int] = {(name or "", dp): own for name, dp, own, _total in ranked}
    keys = sorted(ranks, key=lambda key: (order.get(key[0], len(order)), _natural(key[0]), key))
    step = max(1.0, math.ceil(longest / PARTS))
    first = math.floor(start / step) * step
    parts = _parts(con, keys, first, step)
    for together in range(1, PARTS):
        blocks = {key: _blocks(keys, parts, column, together) for column, (key, _title, _unit) in enumerate(METRICS, 1)}
        if sum(map(len, blocks.values())) <= MAX_BLOCKS:
            break
    several = len({name for name, _dp in keys}) > 1
    return Lanes(
        lanes=tuple(Lane(fmt.name_of(name) if several else "", dp if ranks[name, dp] > 1 else None) for name, dp in keys),
        blocks={key: _placed(rows, key, first, step * together) for key, rows in blocks.items() if rows},
        total=ranked[0][3],
        part_s=step * together,
    )


def _natural(name: str) -> list[tuple[str, int]]:
    """Sorts pod-2 before pod-10."""
    return [(text, int(digits[:18] or -1)) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", name[:200])]


def _parts(con: duckdb.DuckDBPyConnection, keys: Sequence[Key], start: float, step: float) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    spelled = [f"{dp}/{name}" for name, dp in keys]
    for name, dp, *row in con.execute(_PARTS, {"start": start, "step": step, "keys": spelled}).fetchall():
        found.setdefault((name or "", dp), []).append((row[0], row[1], row[2], row[3]))
    return found


def _blocks(keys: Sequence[Key], parts: Mapping[Key, Sequence[Row]], column: int, together: int) -> list[tuple[int, int, int, float]]:
    """One metric's blocks of all lanes, as (lane, first part, part behind the last, value), with so many parts `together`
    as one. Neighbours with the same value become one block.
    """
    blocks: list[tuple[int, int, int, float]] = []
    for lane, key in enumerate(keys):
        highest: dict[int, float] = {}
        for row in parts.get(key, ()):
            value = row[column]
            if value is not None and math.isfinite(value):
                part = int(row[0]) // together
                highest[part] = max(value, highest.get(part, value))
        for part, value in highest.items():
            if blocks and blocks[-1][0] == lane and blocks[-1][2:] == (part, value):
                blocks[-1] = (lane, blocks[-1][1], part + 1, value)
            else:
                blocks.append((lane, part, part + 1, value))
    return blocks


def _placed(rows: Sequence[tuple[int, int, int, float]], metric: str, start: float, step: float) -> Blocks:
    values = np.array([r[3] for r in rows], dtype=np.float32)
    highest = float(values.max())
    return Blocks(
        lane=tuple(r[0] for r in rows),
        left=np.array([round((start + r[1] * step) * 1e3) for r in rows], dtype=np.float64),
        right=np.array([round((start + r[2] * step) * 1e3) for r in rows], dtype=np.float64),
        value=values,
        top=max(1.0, highest) if metric == "pool_usage" else highest,
    )
