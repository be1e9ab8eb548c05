"""One report of a scheduler, as its log printed it."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.replay.fit.seen import Spans
from analyzer.replay.fit.work import Work

# Time stamps have whole seconds unless they show more.
STAMP_S = 1.0
_BUSY = 0.97


@dataclass(frozen=True, slots=True)
class Line:
    """Columns of `scheduler_clean`.

    `gen_tps_told`: the throughput is not that of a silence. `own_tps`: the prefill throughput is that of this line's batch, not of the
    one before.
    """

    at_s: float
    kind: str
    running: float | None
    waiting: float | None
    gen_tps: float | None
    gen_tps_told: bool
    prompt_tps: float | None
    own_tps: bool
    new_seqs: int
    new_tokens: int
    cached_tokens: int
    kv_tokens: float
    step_s: float | None
    ctx_reqs: int
    ctx_tokens: int
    gen_reqs: int
    gen_tokens: int


def idle(row: Work, flight: Spans | None, slack_s: float) -> bool:
    """Whether requests were there for less than the whole stretch."""
    return flight is not None and flight.any(row.start_s, row.end_s) < _BUSY * (row.end_s - row.start_s) - slack_s
