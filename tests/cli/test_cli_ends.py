"""How a command ends from outside: Ctrl-C, and a reader that goes away."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LOG = Path(__file__).resolve().parents[2] / "sample_traces" / "l1_bound_vllm" / "server.log"

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("becomes", [None, RuntimeError("Query interrupted"), KeyboardInterrupt(), OSError("read failed")])
def test_an_interrupt_is_one_line_whatever_became_of_it(kvpm: Run, monkeypatch: pytest.MonkeyPatch, becomes: BaseException | None) -> None:
    """A database makes an error of its own of Ctrl-C, and code that expects bad input may go on after it."""

    def interrupted(*_given: object) -> str:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            if becomes is not None:
                raise becomes from None
        return "read in part"

    monkeypatch.setattr(importlib.import_module("analyzer.cli.formats"), "match_line", interrupted)
    code, _, err = kvpm("formats", "explain", "x")
    assert (code, err) == (130, "kvpm: interrupted\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_the_program_loads() -> None:
    program = (
        "import builtins, os, signal, sys\n"
        "real = builtins.__import__\n"
        "def slow(name, *more):\n"
        "    if name == 'duckdb':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *more)\n"
        "builtins.__import__ = slow\n"
        "sys.argv = ['kvpm', 'report', '--help']\n"
        "from analyzer.cli import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "kvpm: interrupted\n")


@pytest.mark.parametrize("arguments", [["--help"], ["capacity", "--help"], ["metrics"], ["formats"], ["diagnose", str(LOG)]])
def test_a_reader_that_goes_away_is_no_error_and_no_verdict(arguments: list[str]) -> None:
    """1 would say that a cause was found, 0 that all was written."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([sys.executable, "-m", "analyzer", *arguments], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_a_standard_output_that_is_closed() -> None:
    command = f"{sys.executable} -m analyzer metrics waiting >&-"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
