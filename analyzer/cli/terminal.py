"""Rich's console, for what is printed as it comes."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console as RichConsole


class Console(RichConsole):
    """Leaves it to the command line what a reader that went away means; Rich would exit with 1, which here is a verdict."""

    def on_broken_pipe(self) -> NoReturn:
        """Called where a write failed."""
        raise BrokenPipeError
