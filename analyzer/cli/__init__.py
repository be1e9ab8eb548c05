"""The command line: one file per command, each a few lines over a library call.

Errors are printed here and nowhere else: one line of what was found, one of what to do.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

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
from analyzer.errors import ExitCode, KvpmError

_HELP = """kvpm, the KV post-mortem: what broke time to first token?

Reads what LLM servers left behind (SGLang and vLLM logs) and says whether the KV pool in HBM (L1) was the reason, or
the reservation, a cap, prefill compute, a crash, or something that this capture cannot tell.

Begin with: kvpm report server.log

INPUT is a log file (packed with gzip, zstd, bzip2 or xz too), a folder, a glob, '-' for standard input, or a stored trace (NAME.kvtrace).

Exit codes: 0 all read; 1 a --fail-on cause was found; 2 wrong usage; 3 nothing usable in the input; 4 an input could
not be read to its end; 5 an internal error."""


class _InOrder(click.Group):
    """Lists the commands in the order in which one needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "--version", prog_name="kvpm")
def cli() -> None:
    """The group all commands hang on."""


for command in (report, batch, diagnose, compare, replay, capacity, ingest, sql, formats, metrics, demo):
    cli.add_command(command)


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else ExitCode.OK)
    except KvpmError as error:
        _fail(error.message, error.hint, error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", "", 130)
    except BrokenPipeError:
        # the reader of our output went away, which is its right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", "check permissions, names and free space", ExitCode.INPUT_CUT)
    except MemoryError:
        _fail("out of memory", "give fewer inputs at once, or --since and --until", ExitCode.INTERNAL)
    except Exception as error:
        if os.environ.get("KVPM_DEBUG"):
            raise
        where = type(error).__name__
        _fail(
            f"internal error: {where}: {_first_line(error)}",
            "set KVPM_DEBUG=1 to see where",
            ExitCode.INTERNAL,
        )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _fail(message: str, hint: str, code: int) -> NoReturn:
    printable = "".join(c if c.isprintable() else "?" for c in message)
    click.echo(f"kvpm: {printable}", err=True)
    if hint:
        click.echo(f"      {hint}", err=True)
    sys.exit(code)
