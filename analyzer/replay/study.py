"""The whole of a replay: a server's incident as it was, how well the model fits it, and what would have helped.

with open_trace("incident.kvtrace") as trace:
    for told in study(trace):
        print(told.instance if isinstance(told, NoReplay) else sentence(told))
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzer.errors import KvpmError
from analyzer.language import _
from analyzer.replay import goal as goals_of
from analyzer.replay import grid as grid_of
from analyzer.replay import knobs
from analyzer.replay.bare import bare_case
from analyzer.replay.calibrate import calibrate
from analyzer.replay.case.build import case_of, instances
from analyzer.replay.case.files import workload_of
from analyzer.replay.fit import step_time_from_json
from analyzer.replay.goal import Goal
from analyzer.replay.memory import bytes_per_token
from analyzer.replay.model import Calibration, Case, Change, NoReplay, SettingRow, Study, WhatIf
from analyzer.replay.oracle_files import OracleWorkload
from analyzer.replay.parallel import Told, measure_all
from analyzer.replay.settings import Engine, Settings
from analyzer.replay.settings_file import load_settings
from analyzer.replay.step_time import StepTime
from analyzer.replay.what_if import Measured, judged
from analyzer.report.fmt import clean, listed
from analyzer.trace.reader import Trace

Changes = tuple[Change, ...]
# Servers that a message names.
_NAMED = 12


@dataclass(frozen=True, slots=True)
class Asked:
    """What to try: changes of one what-if each, goals each with the knob that shall meet it, and with `grid` what is always tried."""

    changes: tuple[Changes, ...] = ()
    goals: tuple[tuple[Goal, str], ...] = ()
    grid: bool = True


@dataclass(frozen=True, slots=True)
class Given:
    """What stands in place of what a trace tells, or for what it does not: settings with where they are from, and a step time."""

    settings: Settings | None = None
    rows: tuple[SettingRow, ...] = ()
    step_time: StepTime | None = None

    @classmethod
    def read(cls, settings: Path | None, step_time: Path | None, engine: Engine | None) -> Given:
        """The same from files. Raises KvpmError for files that hold something else."""
        told, rows = load_settings(settings, engine) if settings is not None else (None, ())
        return cls(told, rows, step_time_from_json(step_time) if step_time is not None else None)


def study(
    trace: Trace,
    asked: Asked | None = None,
    *,
    instance: str | None = None,
    given: Given | None = None,
    jobs: int | None = None,
    told: Told | None = None,
) -> list[Study | NoReplay]:
    """Replay `instance` of an opened trace ("all": each of them, the worst first; None: the worst).

    `jobs` processes at most (default: one a core); `told` hears how many replays are done of how many. Raises KvpmError for an instance
    that the trace does not hold, and for changes that its engine does not know.
    """
    asked, given = asked or Asked(), given or Given()
    servers = [
        name for (name,) in trace.con.execute("SELECT DISTINCT instance FROM run WHERE engine IN ('sglang', 'vllm') ORDER BY 1").fetchall()
    ]
    if not servers:
        return [_of_requests(trace, asked, given, jobs, told)]
    if instance not in (None, "all", *servers):
        raise KvpmError(
            f"there is no server {clean(instance, 60)!r} to replay",
            hint="there are " + ", ".join(clean(name, 60) for name in servers[:_NAMED]),
        )
    # which one is the worst takes a diagnosis
    ordered = (len(servers) > 1 and instance in (None, "all") and instances(trace)) or servers
    names = ordered if instance == "all" else [instance or ordered[0]]
    return [_of_server(trace, name, asked, given, jobs, told) for name in names]


def _of_server(trace: Trace, name: str, asked: Asked, given: Given, jobs: int | None, told: Told | None) -> Study | NoReplay:
    if given.settings is not None:
        raise KvpmError(
            f"the capture holds the server {clean(name, 60)!r}, and its own settings are used: --settings is for requests without a server",
            hint="leave it out; what the replay ran with stands at its end, and --set KNOB=VALUE changes one thing of it",
        )
    case = case_of(trace, name, step_time=given.step_time)
    if isinstance(case, NoReplay):
        return case
    return study_case(case, asked, bytes_per_token=bytes_per_token(trace, name, case.engine), jobs=jobs, told=told)


def _of_requests(trace: Trace, asked: Asked, given: Given, jobs: int | None, told: Told | None) -> Study | NoReplay:
    """Requests alone, of a public workload: what a server would have made of them."""
    workload = workload_of(trace)
    if isinstance(workload, NoReplay):
        return workload
    missing = [name for name, there in (("--settings", given.settings), ("--step-time", given.step_time)) if there is None]
    if given.settings is None or given.step_time is None:
        why = _("it holds requests and no server, so that settings and step time have to be given")
        return NoReplay(trace.path.name, why, _("add {options}", options=listed(f"{name} FILE" for name in missing)))
    return study_case(bare_case(trace.path.name, workload, given.settings, given.rows, given.step_time), asked, jobs=jobs, told=told)


def study_file(name: str, read: OracleWorkload, asked: Asked, *, jobs: int | None = None, told: Told | None = None) -> Study:
    """The same of a workload file, which tells settings and step time itself."""
    return study_case(bare_case(name, read.workload, read.settings, (), read.step_time), asked, jobs=jobs, told=told)


def study_case(
    case: Case,
    asked: Asked,
    calibration: Calibration | None = None,
    *,
    bytes_per_token: float | None = None,
    jobs: int | None = None,
    told: Told | None = None,
) -> Study:
    """The same of a case that is at hand. Raises KvpmError for changes that cannot be made, before anything is replayed."""
    for changes in asked.changes:
        knobs.applied(changes, case.workload, case.settings)
    wanted = [(goal, goals_of.searched(by, case)) for goal, by in asked.goals]
    tried, skipped = grid_of.grid(case) if asked.grid else ((), ())
    sets = list(dict.fromkeys([*asked.changes, *tried]))
    at_once = jobs or os.cpu_count() or 1
    calibration = calibration or calibrate(case)

    unchanged, *measured = measure_all(case, [(), *sets], jobs=at_once, told=told)

    def told_of(changes: Changes, measured: Measured) -> WhatIf:
        return judged(case, calibration, changes, measured, unchanged)

    def evaluate(what_ifs: Sequence[Changes]) -> list[WhatIf]:
        return list(map(told_of, what_ifs, measure_all(case, what_ifs, jobs=at_once)))

    answers = [
        goals_of.search(goal, knob, case, told_of((), unchanged), evaluate, bytes_per_token=bytes_per_token) for goal, knob in wanted
    ]
    return Study(case, calibration, unchanged.outcome, tuple(map(told_of, sets, measured)), tuple(answers), skipped)
