"""Everything that the section shows: the curves, and the parts that stand beside them."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.report.explore.lanes import Lanes
from analyzer.report.explore.model import Charted
from analyzer.report.explore.moments import Moments
from analyzer.report.explore.requests import Requests
from analyzer.report.explore.ttft_map import TtftMap


@dataclass(frozen=True, slots=True, eq=False)
class Explore:
    """Everything that the section shows. `left_out` counts instances with nothing that has a time.

    `requests`, `ttft_map`, `lanes` and `moments` are None where the trace has nothing for them.
    """

    charted: tuple[Charted, ...]
    left_out: int = 0
    requests: Requests | None = None
    ttft_map: TtftMap | None = None
    lanes: Lanes | None = None
    moments: Moments | None = None

    @property
    def points(self) -> int:
        """Points before thinning, over all curves of all instances."""
        return sum(c.points for one in self.charted for c in one.curves.values())

    @property
    def drawn(self) -> int:
        """Points that are drawn."""
        return sum(c.drawn for one in self.charted for c in one.curves.values())
