"""`kvpm` for a shell script, answered by the process of the tests: it has loaded by the first command what each process loads anew."""

from __future__ import annotations

import contextvars
import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from unittest.mock import patch

from analyzer.cli import main

# What stands in the shell's PATH: hands its arguments, settings and streams on, and ends as the command ended.
_CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as there:
    there.connect({address!r})
    settings = {{name: value for name, value in os.environ.items() if name.startswith("KVPM_")}}
    socket.send_fds(there, [b"x"], [0, 1, 2])
    there.sendall(json.dumps([sys.argv, os.getcwd(), settings]).encode())
    there.shutdown(socket.SHUT_WR)
    code = there.recv(1)
sys.exit(code[0] if code else 70)
"""


def run_script(script: str, folder: Path, programs: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a folder with `programs` first in its PATH, where `kvpm` is put; not for `kvpm … | kvpm …`."""
    address = str(programs / "kvpm.sock")
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as stack:
        listener.bind(address)
        listener.listen()
        client = programs / "kvpm"
        client.write_text(_CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
        client.chmod(0o755)
        path = os.pathsep.join((str(programs), environment["PATH"]))
        shell = stack.enter_context(
            subprocess.Popen(
                ["sh", "-eu", "-c", script],
                cwd=folder,
                env=environment | {"PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        # where a command raises here, the script ends with it
        stack.callback(shell.kill)
        told: list[str] = []

        def listen() -> None:
            told.extend(shell.communicate())
            # nothing connects any more: this wakes what waits for a command
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(address)

        reader = Thread(target=listen, daemon=True)
        reader.start()
        while _answered(listener):
            pass
        reader.join()
    return subprocess.CompletedProcess(script, shell.returncode, *told)


def _answered(listener: socket.socket) -> bool:
    """Run the next command; False when there is none."""
    there, _ = listener.accept()
    with there:
        _, streams, _, _ = socket.recv_fds(there, 1, 3)
        if not streams:
            return False
        with there.makefile("rb") as file:
            arguments, folder, settings = json.load(file)
        there.sendall(bytes([_ended(arguments, folder, settings, streams)]))
    return True


def _ended(arguments: list[str], folder: str, settings: dict[str, str], streams: list[int]) -> int:
    """The exit code of a command, run as if it were a process of its own."""
    before = Path.cwd()
    with ExitStack() as stack:
        for name, mode, stream in zip(("stdin", "stdout", "stderr"), "rww", streams, strict=True):
            stack.enter_context(patch.object(sys, name, stack.enter_context(open(stream, mode, encoding="utf-8"))))
        stack.enter_context(patch.object(sys, "argv", ["kvpm", *arguments[1:]]))
        stack.enter_context(patch.dict(os.environ, settings))
        stack.callback(os.chdir, before)
        os.chdir(folder)
        try:
            contextvars.copy_context().run(main)
        except SystemExit as end:
            return int(end.code or 0)
