"""The curves that can be explored, as plain frozen dataclasses, and what the other parts are built upon.

Times are float64 epoch milliseconds (UTC), values float32; NaN is a gap, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyzer.diagnosis.model import Window

Times = NDArray[np.float64]
Values = NDArray[np.float32]
Column = NDArray[np.float64] | NDArray[np.float32] | NDArray[np.int32] | list[str]
Tables = Mapping[str, Mapping[str, Mapping[str, Column]]]
"""Data of the page's column sources: by the instance's anchor, the source's name and the column's name. The page swaps
them in when another instance is chosen; a source that an instance does not have is emptied."""


@dataclass(frozen=True, slots=True)
class ExploreInstance:
    """What is asked for: an instance of the trace (`name` as the trace spells it), its anchor on the page, its incident,
    and its further ones.
    """

    anchor: str
    name: str
    engine: str | None
    window: Window
    others: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One curve: `y[i]` holds from `x[i]` to `x[i + 1]`; NaN begins a gap, and the last point is always one.

    With `low` it is a band from `low` to `y`. `points` is how many there were before thinning, gaps not counted.
    """

    x: Times
    y: Values
    low: Values | None
    points: int

    @property
    def drawn(self) -> int:
        """Points that are drawn, gaps not counted."""
        return int(np.count_nonzero(~np.isnan(self.y)))


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Amounts per bucket: from `left` to `right`, `count` each (never 0)."""

    left: Times
    right: Times
    count: Values


@dataclass(frozen=True, slots=True)
class Rule:
    """A vertical line: a start, restart, crash or shutdown."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, eq=False)
class Charted:
    """One instance: its curves and bars by key (figures.py says which chart draws which), the range they cover, the part of
    it to look at first, the incident windows clipped to it, and vertical lines; times in epoch ms. `notes` say where a
    chart's numbers come from.
    """

    anchor: str
    name: str
    start: float
    end: float
    first: tuple[float, float]
    incident: tuple[float, float] | None
    others: tuple[tuple[float, float], ...]
    rules: tuple[Rule, ...]
    curves: Mapping[str, Curve]
    bars: Mapping[str, Bars]
    notes: Mapping[str, str]
