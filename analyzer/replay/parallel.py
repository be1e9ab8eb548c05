"""Many replays of one case, over several processes; the results come in the order of the questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from analyzer.processes import spread
from analyzer.replay.model import Case, Change
from analyzer.replay.what_if import Measured, measure

# How many are done, of how many.
Told = Callable[[int, int], None]
Changes = tuple[Change, ...]

# Requests to serve in all replays together, below which a process is not worth its start.
_FEW = 2_000


@dataclass(frozen=True, slots=True)
class _Measuring:
    """What a process is told: the case, and to measure it with changes."""

    case: Case

    def __call__(self, changes: Changes) -> Measured:
        return measure(self.case, changes)


def measure_all(case: Case, what_ifs: Sequence[Changes], *, jobs: int, told: Told | None = None) -> list[Measured]:
    """`what_if.measure` of each, at most `jobs` at a time. Raises KvpmError where one cannot be made, or a process dies."""
    show = told or (lambda done, of: None)
    jobs = min(jobs, len(what_ifs))
    measuring = _Measuring(case)
    found: Iterable[Measured] = map(measuring, what_ifs)
    if jobs > 1 and len(what_ifs) * len(case.workload.requests) > _FEW:
        found = (m for _, m in spread(measuring, what_ifs, jobs=jobs))
    measured: list[Measured] = []
    show(0, len(what_ifs))
    for one in found:
        measured.append(one)
        show(len(measured), len(what_ifs))
    return measured
