"""What a finding is made of: its confidence, its advice, whether the engine's version is covered."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib import resources
from typing import Any, get_args

from analyzer.diagnosis.advice import advise
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.known import known
from analyzer.diagnosis.model import Cause, Confidence, Finding, Window
from analyzer.formats.versions import version_key

PRECEDENCE: tuple[Cause, ...] = get_args(Cause)
LEVELS: tuple[Confidence, ...] = ("low", "medium", "high")


@lru_cache(maxsize=1)
def _causes() -> dict[str, Any]:
    return tomllib.loads(resources.files("analyzer.diagnosis").joinpath("causes.toml").read_text(encoding="utf-8"))


def is_covered(engine: str | None, version_min: str | None) -> bool:
    """True when a recording or an engine's own scheduler confirms the behaviour of this version."""
    covered = _causes()["covered"].get(engine or "", [])
    if not version_min:
        return False
    key = version_key(version_min)
    return any(key[: len(version_key(c))] == version_key(c) for c in covered)


def at_most(level: Confidence, most: Confidence) -> Confidence:
    return LEVELS[min(LEVELS.index(level), LEVELS.index(most))]


def finding(
    case: Case,
    cause: Cause,
    confidence: Confidence,
    sentence: str,
    window: Window,
    rests_on: tuple[str, ...],
    reasons: tuple[str, ...] = (),
) -> Finding:
    """A finding of this case, with the advice that fits its engine, version and numbers."""
    advice, leave_alone = advise(cause, case.engine, case.versions, known(case))
    return Finding(cause, confidence, sentence, case.instance, window, rests_on, reasons, advice, leave_alone)
