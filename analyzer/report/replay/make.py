"""The replay that a report tells of: of the worst instance, if it is worth it, and never at the report's cost."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analyzer.diagnosis.model import Diagnosis
from analyzer.errors import KvpmError
from analyzer.language import _
from analyzer.replay.grid import grid
from analyzer.replay.knobs import KNOBS, grain
from analyzer.replay.model import Case, Change, NoReplay, Study
from analyzer.report.replay.model import Failed, LeftOut
from analyzer.trace.reader import Trace

if TYPE_CHECKING:
    from analyzer.replay.parallel import Told

# Unasked, a report replays what takes so many seconds of one core, beside reading and drawing.
MAX_UNASKED_S = 20.0
# What one replay of a request takes, of a token that it makes, and of a block of its tokens where there is a host pool to look after;
# measured on the samples, up to three times their length: within a factor of two where the pool does not thrash.
_REQUEST_S, _OUTPUT_S, _BLOCK_S = 3e-4, 5e-7, 2e-6
# The case, the calibration, the unchanged replay and what is tried.
_REPLAYS = 11
# Of all what-ifs those that settle whether it was L1, L2, the cap or the load;
_TRIED = frozenset(
    (
        *(("l1_tokens", factor) for factor in (0.75, 1.25, 1.5, 2.0)),
        *(("l2_tokens", factor) for factor in (0.0, 2.0)),
        ("max_running", 2.0),
        ("arrival_rate", 0.75),
    )
)
# and what the verdict points at beside them.
_TRIED_FOR: dict[str, frozenset[tuple[str, float]]] = {
    "reservation_bound": frozenset((("conservativeness", 0.5),)),
    "prefill_bound": frozenset((("chunked_prefill_tokens", 2.0), ("step_tokens", 2.0))),
}


def replay_of(
    trace: Trace, diagnosis: Diagnosis, *, asked: bool | None = None, jobs: int | None = None, told: Told | None = None
) -> Study | NoReplay | LeftOut | Failed | None:
    """What a replay of the worst instance came to; None where there is none to be told of.

    `asked` True replays whatever it takes, False never; None where something broke and the case is small enough, and then less.
    `jobs` processes at most (default: one a core). `told` hears how many replays are done of how many. What goes wrong is an answer
    of its own: a report does not fail with its replay.
    """
    instance = diagnosis.verdict.instance
    if asked is False or not instance or (asked is None and diagnosis.verdict.cause == "none"):
        return None
    try:
        # loaded only here: a report without a replay should not wait for it
        from analyzer.replay.case.build import case_of
        from analyzer.replay.study import Asked, study_case

        if asked is None and (left_out := _large(trace, instance)):
            return left_out
        case = case_of(trace, instance)
        if isinstance(case, NoReplay):
            return case
        if asked:
            return study_case(case, Asked(), jobs=jobs, told=told)
        work = _Work.of(case)
        if work.seconds > MAX_UNASKED_S:
            return LeftOut(instance, work.requests, work.output_tokens)
        tried, skipped = _few(case, diagnosis.verdict.cause, work)
        made = study_case(case, Asked(tried, grid=False), jobs=jobs, told=told)
        return replace(made, skipped=(*made.skipped, *skipped))
    except KvpmError as error:
        return Failed(instance, error.message)
    except Exception as error:
        if os.environ.get("KVPM_DEBUG"):
            raise
        first = (str(error).splitlines() or [""])[0]
        return Failed(instance, f"{type(error).__name__}: {first}")


@dataclass(frozen=True, slots=True)
class _Work:
    """What there is to replay. A block of `block_tokens` is what a host pool takes and gives; infinite where there is no pool."""

    requests: int
    output_tokens: int
    tokens: int
    block_tokens: float

    @classmethod
    def of(cls, case: Case) -> _Work:
        """The same of a case that is at hand."""
        requests, l2 = case.workload.requests, case.settings.l2
        output = sum(r.output_tokens for r in requests)
        return cls(len(requests), output, output + sum(r.prompt_tokens for r in requests), l2.block_tokens if l2 else math.inf)

    @property
    def seconds(self) -> float:
        """What a report's replays take together, of one core."""
        return _REPLAYS * (self.requests * _REQUEST_S + self.output_tokens * _OUTPUT_S + self.pool_seconds(self.block_tokens))

    def pool_seconds(self, block_tokens: float) -> float:
        """What a host pool adds to one replay."""
        return self.tokens / block_tokens * _BLOCK_S


def _large(trace: Trace, instance: str) -> LeftOut | None:
    """What is too much is told before the case is put together, which takes a replay itself."""
    requests, output_tokens, tokens = _recorded(trace, instance)
    reports, admitted_tokens = _reported(trace, instance)
    # requests without records are rebuilt, at most one out of each report
    work = _Work(requests or reports, output_tokens, tokens or admitted_tokens, _block_tokens(trace, instance))
    return LeftOut(instance, requests, output_tokens) if work.seconds > MAX_UNASKED_S else None


def _recorded(trace: Trace, instance: str) -> tuple[int, int, int]:
    """Requests, tokens they made, and all their tokens."""
    output, prompt = "coalesce(sum(output_tokens), 0)::BIGINT", "coalesce(sum(prompt_tokens), 0)::BIGINT"
    sql = f"SELECT count(*), {output}, {output} + {prompt} FROM request_best WHERE instance = ?"
    requests, made, tokens = trace.con.execute(sql, [instance]).fetchall()[0]
    return requests, made, tokens


def _reported(trace: Trace, instance: str) -> tuple[int, int]:
    """Reports of the scheduler, and prompt tokens they tell of."""
    sql = (
        "SELECT count(*), coalesce(sum(new_tokens), 0)::BIGINT + coalesce(sum(cached_tokens), 0)::BIGINT FROM scheduler WHERE instance = ?"
    )
    reports, tokens = trace.con.execute(sql, [instance]).fetchall()[0]
    return reports, tokens


def _block_tokens(trace: Trace, instance: str) -> float:
    """What a block of the host pool takes; without one no number of tokens makes a block."""
    from analyzer.replay.case.configured import Configured, configured
    from analyzer.replay.case.facts import run_to_replay

    run = run_to_replay(trace.con, instance)
    known = None if run is None else configured(trace.con, instance, run)
    return known.settings.l2.block_tokens if isinstance(known, Configured) and known.settings.l2 else math.inf


def _few(case: Case, cause: str, work: _Work) -> tuple[tuple[tuple[Change, ...], ...], tuple[str, ...]]:
    """What of the grid is tried unasked, and in words what is not. An L2 where there is none is an amount and not a factor."""
    wanted = _TRIED | _TRIED_FOR.get(cause, frozenset())
    everything, _skipped = grid(case)
    new_l2 = [c for c in everything if c[0].knob == "l2_tokens" and not c[0].times]
    skipped = [_("every other knob: a report tries these only with --replay; kvpm replay does, too")]
    if work.seconds + len(new_l2) * work.pool_seconds(grain(KNOBS["l2_tokens"], case.settings)) > MAX_UNASKED_S:
        new_l2 = []
        skipped.insert(0, _("an L2 where there is none: it takes longer than a report should; kvpm replay tries it"))
    return tuple(c for c in everything if (c[0].knob, c[0].value) in wanted or c in new_l2), tuple(skipped)
