"""The command line's one door: runs a command, and says how it ended.

Errors are printed here and nowhere else: one line of what was found, one of what to do.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

from analyzer.errors import ExitCode, KvpmError

# What a shell reports of a process that ended by SIGINT, and by SIGPIPE.
INTERRUPTED = 128 + signal.SIGINT
READER_GONE = 141
_COLLECT_AFTER = 50_000


class _Interrupt:
    """Whether Ctrl-C came. A query or a library may make another exception of it on its way up, or none."""

    came = False

    def __call__(self, signum: int, frame: FrameType | None) -> NoReturn:
        self.came = True
        raise KeyboardInterrupt


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    # what is read by the thousand holds no cycles: to look for some every 700 objects is time for nothing
    gc.set_threshold(_COLLECT_AFTER)
    with _interrupts() as interrupt:
        try:
            _open_streams()
            # the commands load heavy libraries, and Ctrl-C may come by then
            from analyzer.cli.group import cli

            code = cli.main(standalone_mode=False)
            sys.stdout.flush()
        except BaseException as error:
            if interrupt.came:
                _interrupted()
            _ended(error)
        if interrupt.came:
            _interrupted()
        sys.exit(code if isinstance(code, int) else ExitCode.OK)


@contextmanager
def _interrupts() -> Iterator[_Interrupt]:
    """Notes Ctrl-C, unless something else listens to it or it is to be ignored, as with nohup."""
    interrupt = _Interrupt()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield interrupt
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def _open_streams() -> None:
    """A standard stream that was closed (`>&-`) reads or takes nothing."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  (as long as the process)


def _ended(error: BaseException) -> NoReturn:
    """Say why a command ended, and exit with the code for it."""
    outside = error.__cause__ if isinstance(error.__cause__, KeyboardInterrupt | BrokenPipeError) else error
    match outside:
        case SystemExit():
            raise outside
        case KvpmError():
            _fail(outside.message, outside.hint, outside.exit_code)
        case click.ClickException():
            outside.show()
            sys.exit(outside.exit_code)
        case click.Abort() | KeyboardInterrupt():
            _interrupted()
        case BrokenPipeError():
            # what reads our output went away, which is its right; what Python still holds of it goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(READER_GONE)
        case OSError():
            where = f"{outside.filename}: " if outside.filename else ""
            _fail(f"{where}{outside.strerror or outside}", "check permissions, names and free space", ExitCode.INPUT_CUT)
        case MemoryError():
            _fail("out of memory", "give fewer inputs at once, or --since and --until", ExitCode.INTERNAL)
    if os.environ.get("KVPM_DEBUG"):
        raise outside
    told = f"internal error: {type(outside).__name__}: {_first_line(outside)}"
    _fail(told, "set KVPM_DEBUG=1 to see where", ExitCode.INTERNAL)


def _interrupted() -> NoReturn:
    _fail("interrupted", "", INTERRUPTED)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _fail(message: str, hint: str, code: int) -> NoReturn:
    printable = "".join(c if c.isprintable() else "?" for c in message)
    click.echo(f"kvpm: {printable}", err=True)
    if hint:
        click.echo(f"      {hint}", err=True)
    sys.exit(code)
