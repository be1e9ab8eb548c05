"""Runs one command and prints what it took, as JSON. Imports little: a child's peak memory counts what its parent had when it was forked.

python -I -S launch.py FOLDER COMMAND [ARGUMENT ...]

The command's output goes to FOLDER/stdout and FOLDER/stderr: a file, because grep stops at the first match where nothing would be written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

EVERY_S = 0.05


def main(folder: str, command: list[str]) -> None:
    """Run `command` as a session of its own."""
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        start(folder, command)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ended, family = threading.Event(), Family(child)
    watcher = threading.Thread(target=family.watch, args=(ended,))
    watcher.start()
    try:
        _, status, used = os.wait4(child, 0)
        wall = time.perf_counter() - begun
    except KeyboardInterrupt:
        # a session of its own is not told by the terminal
        os.killpg(child, signal.SIGKILL)
        os.wait4(child, 0)
        sys.exit(130)
    finally:
        ended.set()
        watcher.join()
    # the kernel's figure is of the largest process and misses no moment; what was seen is of all together
    peak = max(used.ru_maxrss * 1024, family.peak)
    print(json.dumps({"code": os.waitstatus_to_exitcode(status), "cpu": used.ru_utime + used.ru_stime, "wall": wall, "peak": peak}))


def start(folder: str, command: list[str]) -> None:
    """Become the command."""
    os.setsid()
    for number, name in ((1, "stdout"), (2, "stderr")):
        handle = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(handle, number)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


class Family:
    """The memory of a process and those it started, where the system has /proc."""

    def __init__(self, session: int) -> None:
        self._session = session
        self.peak = 0

    def watch(self, ended: threading.Event) -> None:
        """Look every now and then until it has ended."""
        while os.path.isdir("/proc/self") and not ended.wait(EVERY_S):
            members = [pid for pid in os.listdir("/proc") if pid.isdigit() and self._is_member(pid)]
            # pages that forked processes share count once
            if len(members) > 1:
                self.peak = max(self.peak, sum(map(share, members)))

    def _is_member(self, pid: str) -> bool:
        try:
            with open(f"/proc/{pid}/stat") as handle:
                # the name, in parentheses, may have spaces
                return int(handle.read().rpartition(")")[2].split()[3]) == self._session
        except OSError:
            return False


def share(pid: str) -> int:
    """Bytes of memory of a process, its part of what it shares; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as handle:
            return next((int(line.split()[1]) * 1024 for line in handle if line.startswith("Pss:")), 0)
    except OSError:
        return 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
