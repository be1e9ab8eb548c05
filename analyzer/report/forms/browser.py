"""A browser without a window, where the machine has one: it prints the page to PDF and draws pictures as PNG.

It gets files of ours that hold no scripts, a scratch profile, and no network.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from analyzer.errors import KvpmError

# As tools/ensure_browser.sh looks for it.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 180.0
_WHAT = {"print-to-pdf": "a PDF", "screenshot": "a PNG picture"}
_INSTEAD = {
    "print-to-pdf": "install chromium (apt install chromium), or write the HTML and print it from any browser",
    "screenshot": "install chromium (apt install chromium), or take the picture as SVG",
}
Job = Literal["print-to-pdf", "screenshot"]


def find_browser(job: Job) -> str:
    """The path of Chromium or Chrome.

    Raises:
        KvpmError: there is none; it says what to do instead.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise KvpmError(f"{_WHAT[job]} needs Chromium or Chrome, and none was found", hint=_INSTEAD[job])
    return found


def run_browser(page: Path, job: Job, made: Path, options: Sequence[str] = ()) -> bytes:
    """What the browser made of the file `page`; `made` is where it puts it, in the same scratch folder.

    Raises:
        KvpmError: there is no browser, or it made nothing.
    """
    browser = find_browser(job)
    command = [
        browser,
        "--headless",
        "--disable-gpu",
        # Containers give little shared memory.
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-extensions",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
        # Nothing here has an address outside; should something have one, no name is looked up.
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={page.parent / 'profile'}",
        *options,
        f"--{job}={made}",
        page.as_uri(),
    ]
    # Its sandbox refuses to work for root.
    if getattr(os, "geteuid", lambda: 1)() == 0:
        command.insert(1, "--no-sandbox")
    _run(command, job)
    try:
        return made.read_bytes()
    except OSError as error:
        # A browser in a sandbox of its own, as Ubuntu's snap, does not see the common folder for temporary files.
        hint = f"set TMPDIR to a folder in your home, which this browser may write to; or {_INSTEAD[job].partition(', or ')[2]}"
        raise KvpmError(f"{browser} made no file", hint=hint) from error


def _run(command: Sequence[str], job: Job) -> None:
    try:
        # In a group of its own: it starts others, which have to end with it.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise KvpmError(f"cannot start {command[0]}: {error.strerror}", hint=_INSTEAD[job]) from error
    try:
        process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise KvpmError(f"{command[0]} was not done after {TIMEOUT_S:g} s", hint="try again on a machine with less to do") from error
    finally:
        if process.poll() is None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
