"""Runs the tool on a case and on what is left of it, and says whether the verdict is right."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from incident import Incident
from variants import BARE, MIDDLE, VARIANTS, WHOLE, Files, left_of, middle_third, quiet

from analyzer import diagnose, ingest, open_trace
from analyzer.errors import KvpmError
from analyzer.ingestion import IngestOptions

RIGHT, WEAKER, WRONG = "right", "weaker", "WRONG"
UNKNOWN = "insufficient_data"
FAILED = "failed"  # the tool raised what no user should see


@dataclass(frozen=True)
class Outcome:
    """One verdict on one variant of a case."""

    case: str
    variant: str
    cause: str
    confidence: str
    sentence: str
    judged: str


def outcomes(case: Incident, files: Files, variants: Iterable[str]) -> list[Outcome]:
    """The verdicts on those of the variants that leave something of the case's files."""
    found = []
    for variant in variants:
        left = left_of(case, files, variant)
        if left is not None:
            cause, confidence, sentence = verdict(left)
            found.append(Outcome(case.name, variant, cause, confidence, sentence, judged(case, files, variant, cause, confidence)))
    return found


def verdict(files: Files) -> tuple[str, str, str]:
    """Cause, confidence and sentence through the public API. Inputs that are refused tell nothing: that is said, not guessed."""
    with tempfile.TemporaryDirectory(prefix="kvpm-incident-") as scratch:
        folder = Path(scratch) / "in"
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        trace = Path(scratch) / "t.kvtrace"
        try:
            ingest([str(folder)], trace, IngestOptions(year=2026))
            with open_trace(trace) as opened:
                found = diagnose(opened).verdict
        except KvpmError as error:
            return UNKNOWN, "high", f"Refused: {str(error).replace(scratch, '')}"
        except Exception as error:  # one case that breaks the tool must not hide the others
            return FAILED, "high", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return found.cause, found.confidence, found.sentence


def judged(case: Incident, files: Files, variant: str, cause: str, confidence: str) -> str:
    """Right, weaker or WRONG.

    A case as a whole must get its cause. With less to go by, "cannot tell" or any cause with low confidence is weaker, and another
    cause with more is WRONG. Of a stretch in which clients saw no trouble, `none` is not WRONG. Nothing but `insufficient_data`
    is right where every signal was taken away.
    """
    if cause == FAILED:
        return WRONG
    if variant == BARE:
        return RIGHT if cause == UNKNOWN else WRONG
    if cause in (case.cause, *case.also):
        return RIGHT
    if cause == UNKNOWN or confidence == "low":
        return WEAKER
    if variant == MIDDLE and cause == "none" and quiet(case, files, *middle_third(case, files)):
        return WEAKER
    return WRONG


def is_right(outcome: Outcome) -> bool:
    """Whether a verdict on a whole case, or on a variant, passes as a test."""
    return outcome.judged == RIGHT if outcome.variant == WHOLE else outcome.judged != WRONG


def picked(case: Incident, files: Files) -> str:
    """One variant of a case that leaves something, the same in every run; the whole case if there is none."""
    possible = [v for v in VARIANTS if v != WHOLE and left_of(case, files, v) is not None]
    return possible[int(hashlib.sha256(case.name.encode()).hexdigest(), 16) % len(possible)] if possible else WHOLE


def complaints(case: Incident, files: Files, variant: str) -> list[str]:
    """What is not as it has to be of the verdict on one variant of the case."""
    return [
        f"{o.variant}: {case.cause}, not {o.cause} ({o.confidence}): {o.sentence} Known: {case.because}"
        for o in outcomes(case, files, (variant,))
        if not is_right(o)
    ]
