"""One labelled incident: the files that an engine, its scraper and its clients left, and the cause that is known to be right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from analyzer.diagnosis.model import Cause


@dataclass(frozen=True)
class Incident:
    """A case: `files` gives relative path -> content, made when called and always the same.

    `name` is unique. `origin` is "oracle" (an engine's own scheduler), "generated" (the models of `sample_traces`) or "recorded"
    (a running server). `version` is the engine version whose formats are rendered. `split` is "tune" for an odd seed and "score"
    for an even one: thresholds are set on the first and judged on the second. `because` says in one sentence, with figures, how
    the cause is known. `also` names causes that are as right. `logs`, `metrics` and `clients` name the files of each kind.
    """

    name: str
    cause: Cause
    origin: str
    engine: str
    version: str
    seed: int
    split: str
    because: str
    files: Callable[[], dict[str, bytes]]
    also: tuple[Cause, ...] = ()
    logs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


def split_of(seed: int) -> str:
    """The split that a seed belongs to."""
    return "tune" if seed % 2 else "score"
