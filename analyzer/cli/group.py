"""The group that all commands hang on: one file per command, each a few lines over a library call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from analyzer import __version__

# In the order in which one needs them. What each does is said here, and not asked of the command: that would load all of them,
# and the libraries they work with, to run one.
_COMMANDS = {
    "report": "Write the post-mortem: one HTML file, to be opened without a network, or Markdown, JSON or PDF.",
    "batch": "Write a report of each of many captures, and an index of them.",
    "diagnose": "Say what happened: verdict, peaks and the checklist, in the terminal or as JSON.",
    "compare": "Compare two captures: before and after a change, two servers, or two windows of one trace.",
    "replay": "Replay an incident through a model of the engine's scheduler: first as it was, then with one thing different.",
    "capacity": "Say what a token costs in KV cache, and how many requests GPUs hold at once.",
    "ingest": "Read logs, metric dumps and request records into a stored trace (Parquet tables and a manifest).",
    "compact": "Make few files of the many that a trace has which was added to often.",
    "sql": "Ask a trace (or logs) in SQL; without QUERY, list tables and views.",
    "formats": "List the line formats that are known, with the versions that print them.",
    "metrics": "List the metrics that are known: what they are called in SQL, their unit, versions and meaning.",
    "demo": "Write a report of a small incident that comes with the tool.",
}

_HELP = """kvpm, the KV post-mortem: what broke time to first token?

Reads what LLM servers left behind (SGLang and vLLM logs) and says whether the KV pool in HBM (L1) was the reason, or
the reservation, a cap, prefill compute, a crash, or something that this capture cannot tell.

Begin with: kvpm report server.log

INPUT is a log file (packed with gzip, zstd, bzip2 or xz too), a folder, a glob, '-' for standard input, or a stored trace (NAME.kvtrace).

Exit codes: 0 all read; 1 a --fail-on cause was found; 2 wrong usage; 3 nothing usable in the input; 4 an input could
not be read to its end; 5 an internal error; 130 interrupted (Ctrl-C); 141 what read the output went away."""


class OutsideError(Exception):
    """What ended a command from outside: its cause is a KeyboardInterrupt or a BrokenPipeError."""


class _OnDemand(click.Group):
    """Loads a command when it is asked for, and lists them all without loading any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"analyzer.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*_COMMANDS.items()])

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


@click.group(cls=_OnDemand, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "--version", prog_name="kvpm")
def cli() -> None:
    """The group all commands hang on."""
