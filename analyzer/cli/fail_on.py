"""`--fail-on`: an exit code of 1 for causes that a script wants to stop at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast, get_args

import click

from analyzer.diagnosis.causes.finding import LEVELS
from analyzer.diagnosis.model import Cause, Confidence, Diagnosis
from analyzer.errors import ExitCode, KvpmError

# an all-clear is no reason to fail
CAUSES = tuple(c for c in get_args(Cause) if c != "none")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FailOn:
    """Causes with the least confidence that counts; of the verdict, or with `any_finding` of every finding."""

    causes: dict[Cause, Confidence] = field(default_factory=dict)
    any_finding: bool = False

    def found(self, diagnosis: Diagnosis) -> bool:
        """True when one of the causes is there."""
        looked_at = diagnosis.findings if self.any_finding else (diagnosis.verdict,)
        return any(self.counts(f.cause, f.confidence) for f in looked_at)

    def counts(self, cause: Cause, confidence: Confidence) -> bool:
        """True when a finding of this cause with this confidence is one of those asked for."""
        least = self.causes.get(cause)
        return least is not None and LEVELS.index(confidence) >= LEVELS.index(least)


class _Causes(click.ParamType[dict[Cause, Confidence]]):
    """`l1_bound`, `l1_bound:high`, or several with commas between."""

    name = "cause"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[Cause, Confidence]:
        found: dict[Cause, Confidence] = {}
        for part in str(value).split(","):
            cause, colon, level = part.strip().partition(":")
            if cause not in CAUSES:
                self.fail(f"{cause!r} is no cause to fail on; there are {', '.join(CAUSES)}", param, ctx)
            if colon and level not in LEVELS:
                self.fail(f"{level!r} is no confidence; there are {', '.join(LEVELS)}", param, ctx)
            found[cast(Cause, cause)] = cast(Confidence, level) if colon else "low"
        return found


def fail_on_options(function: F) -> F:
    """--fail-on and --fail-on-any, given to the command as one `fail_on: FailOn`."""

    @wraps(function)
    def command(*, fail_on: tuple[dict[Cause, Confidence], ...], fail_on_any: bool, **given: Any) -> Any:
        causes: dict[Cause, Confidence] = {}
        for several in fail_on:
            causes |= several
        if fail_on_any and not causes:
            raise KvpmError(
                "--fail-on-any says where to look, and no --fail-on what for", hint="for example --fail-on l1_bound --fail-on-any"
            )
        return function(fail_on=FailOn(causes, fail_on_any), **given)

    wrapped: Any = command
    wrapped = click.option("--fail-on-any", is_flag=True, help="Let --fail-on look at all findings of all instances.")(wrapped)
    wrapped = click.option(
        "--fail-on", multiple=True, type=_Causes(), metavar="CAUSE[:CONFIDENCE]",
        help="Exit with 1 when this is the verdict's cause, with this confidence (low, medium, high) or more. Repeatable, or "
        f"several with commas. One of {', '.join(CAUSES)}.",
    )(wrapped)  # fmt: skip
    return cast(F, wrapped)


def exit_code(diagnosis: Diagnosis, read: ExitCode, fail_on: FailOn) -> ExitCode:
    """The exit code after a diagnosis: an input that was cut outweighs a cause that was found."""
    if read != ExitCode.OK or diagnosis.cut:
        return ExitCode.INPUT_CUT
    return ExitCode.CAUSE_FOUND if fail_on.found(diagnosis) else ExitCode.OK
