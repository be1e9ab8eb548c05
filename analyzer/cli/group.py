"""The group that all commands hang on: one file per command, each a few lines over a library call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from analyzer import __version__
from analyzer.cli.batch import batch
from analyzer.cli.capacity import capacity
from analyzer.cli.compare import compare
from analyzer.cli.demo import demo
from analyzer.cli.diagnose import diagnose
from analyzer.cli.formats import formats
from analyzer.cli.ingest import ingest
from analyzer.cli.metrics import metrics
from analyzer.cli.replay import replay
from analyzer.cli.report import report
from analyzer.cli.sql import sql

_HELP = """kvpm, the KV post-mortem: what broke time to first token?

Reads what LLM servers left behind (SGLang and vLLM logs) and says whether the KV pool in HBM (L1) was the reason, or
the reservation, a cap, prefill compute, a crash, or something that this capture cannot tell.

Begin with: kvpm report server.log

INPUT is a log file (packed with gzip, zstd, bzip2 or xz too), a folder, a glob, '-' for standard input, or a stored trace (NAME.kvtrace).

Exit codes: 0 all read; 1 a --fail-on cause was found; 2 wrong usage; 3 nothing usable in the input; 4 an input could
not be read to its end; 5 an internal error; 130 interrupted (Ctrl-C); 141 what read the output went away."""


class OutsideError(Exception):
    """What ended a command from outside: its cause is a KeyboardInterrupt or a BrokenPipeError."""


class _InOrder(click.Group):
    """Lists the commands in the order in which one needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        with _from_outside():
            return super().make_context(*given, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _from_outside():
            return super().invoke(ctx)


@contextmanager
def _from_outside() -> Iterator[None]:
    # click would print a blank line for the one and exit with 1 for the other, which here means that a cause was found
    try:
        yield
    except (KeyboardInterrupt, BrokenPipeError) as error:
        raise OutsideError from error


@click.group(cls=_InOrder, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "--version", prog_name="kvpm")
def cli() -> None:
    """The group all commands hang on."""


for command in (report, batch, diagnose, compare, replay, capacity, ingest, sql, formats, metrics, demo):
    cli.add_command(command)
