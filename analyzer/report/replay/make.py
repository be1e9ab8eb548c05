"""The replay that a report tells of: of the worst instance, if it is worth it, and never at the report's cost."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from analyzer.diagnosis.model import Diagnosis
from analyzer.errors import KvpmError
from analyzer.language import _
from analyzer.replay.grid import grid
from analyzer.replay.model import Case, Change, NoReplay, Study
from analyzer.report.replay.model import Failed, LeftOut
from analyzer.trace.reader import Trace

if TYPE_CHECKING:
    from analyzer.replay.parallel import Told

# Unasked, a report replays what takes seconds: so many requests, each of them as much work as looking after so many blocks of a host pool;
MAX_UNASKED = 1_000
_BLOCKS_A_REQUEST = 500
# without records of requests, so many reports of the scheduler, out of which they are rebuilt;
MAX_REPORTS = 20_000
# and of all what-ifs those that settle whether it was L1, L2, the cap or the load.
_TRIED = frozenset(
    (
        *(("l1_tokens", factor) for factor in (0.75, 1.25, 1.5, 2.0)),
        *(("l2_tokens", factor) for factor in (0.0, 2.0)),
        ("max_running", 2.0),
        ("arrival_rate", 0.75),
    )
)


def replay_of(
    trace: Trace, diagnosis: Diagnosis, *, asked: bool | None = None, told: Told | None = None
) -> Study | NoReplay | LeftOut | Failed | None:
    """What a replay of the worst instance came to; None where there is none to be told of.

    `asked` True replays whatever it takes, False never; None where something broke and the case is small enough, and then less.
    `told` hears how many replays are done of how many. What goes wrong is an answer of its own: a report does not fail with its replay.
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
            return study_case(case, Asked(), told=told)
        made = study_case(case, Asked(_few(case), grid=False), told=told)
        return replace(made, skipped=(*made.skipped, _("every other knob: a report tries these only with --replay; kvpm replay does, too")))
    except KvpmError as error:
        return Failed(instance, error.message)
    except Exception as error:
        if os.environ.get("KVPM_DEBUG"):
            raise
        first = (str(error).splitlines() or [""])[0]
        return Failed(instance, f"{type(error).__name__}: {first}")


def _large(trace: Trace, instance: str) -> LeftOut | None:
    """What is too much is told before the case is put together, which takes a replay itself."""
    requests, output_tokens, tokens = _recorded(trace, instance)
    reports, admitted_tokens = _reported(trace, instance)
    blocks = (tokens or admitted_tokens) / _block_tokens(trace, instance)
    large = requests + blocks / _BLOCKS_A_REQUEST > MAX_UNASKED or (not requests and reports > MAX_REPORTS)
    return LeftOut(instance, requests, output_tokens) if large else None


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


def _few(case: Case) -> tuple[tuple[Change, ...], ...]:
    """What of the grid is tried unasked; an L2 where there is none is an amount and not a factor."""
    tried, _skipped = grid(case)
    return tuple(c for c in tried if (c[0].knob, c[0].value) in _TRIED or (c[0].knob == "l2_tokens" and not c[0].times))
