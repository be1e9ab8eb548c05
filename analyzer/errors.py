"""The one exception a user ever sees, and the exit codes of the command line.

Every message says what was found, what was expected and what to type next. One place prints it
(`analyzer.cli`); everything else raises.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of `kvpm`; part of the public interface."""

    OK = 0
    CAUSE_FOUND = 1
    USAGE = 2
    NOTHING_USABLE = 3
    INPUT_CUT = 4
    INTERNAL = 5


class KvpmError(Exception):
    """Something the user can act on.

    `message` is one line; `hint` is what to type or change next, also one line.
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class NothingUsableError(KvpmError):
    """No input held anything this tool can read (exit code 3)."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.NOTHING_USABLE)
