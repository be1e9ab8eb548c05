"""One side of a comparison: an instance of an opened trace, with its diagnosis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analyzer.diagnosis.model import Diagnosis, InstanceDiagnosis
from analyzer.errors import KvpmError
from analyzer.report import fmt
from analyzer.trace.reader import Trace

MAX_NAMED = 8


@dataclass(frozen=True, slots=True)
class Side:
    """An opened trace (its --since and --until are the side's window), its diagnosis, and one of its instances.

    `name` is what a reader calls it: `before`, `server-new.log`.
    """

    trace: Trace
    diagnosis: Diagnosis
    instance: InstanceDiagnosis
    name: str


def side(trace: Trace, diagnosis: Diagnosis, *, letter: str, instance: str | None = None, like: str | None = None, name: str = "") -> Side:
    """A side of `trace`. `instance` names the instance; without it, the one called as the other side's (`like`), else the worst.

    Raises KvpmError where there is no such instance, or none at all; `letter` (A or B) says in it which side that was.
    """
    there = diagnosis.instances
    if not there:
        raise KvpmError(
            f"{letter} holds no instance of an engine: there is nothing to compare",
            hint="look at what was read of it with kvpm diagnose",
        )
    if instance is not None:
        found = next((i for i in there if i.instance == instance), None)
        if found is None:
            raise KvpmError(f"{letter} holds no instance {instance!r}", hint=f"it holds {named(i.instance for i in there)}")
    else:
        found = next((i for i in there if i.instance == like), there[0])
    return Side(trace, diagnosis, found, name or diagnosis.trace)


def named(instances: Iterable[str]) -> str:
    """Names in a row, the first few of many."""
    names = sorted(instances)
    shown = ", ".join(fmt.clean(n, 80) for n in names[:MAX_NAMED])
    return shown + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
