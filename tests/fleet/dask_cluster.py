"""A Dask cluster of processes on loopback: a scheduler, and workers that can be killed and added."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import distributed

ROOT = Path(__file__).resolve().parents[2]
_START_S = 60.0


class Cluster:
    """A scheduler at `address`, and its workers, each a process with one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1s"}
        self.workers: list[subprocess.Popen[bytes]] = []
        told = folder / "scheduler.json"
        self._scheduler = self._dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told))
        wait_until(lambda: told.is_file() and told.read_text().strip().endswith("}"))
        self.address: str = json.loads(told.read_text())["address"]

    def add(self) -> subprocess.Popen[bytes]:
        """One more worker, without the nanny that would start another in its place."""
        place = str(self.folder / f"worker-{len(self.workers)}")
        worker = self._dask("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", place)
        self.workers.append(worker)
        return worker

    def ready(self) -> None:
        """Return when all workers that live have told the scheduler so."""
        living = sum(w.poll() is None for w in self.workers)
        with distributed.Client(self.address, set_as_default=False) as client:
            wait_until(lambda: len(client.nthreads()) == living)

    def _dask(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{arguments[0]}.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "dask", *arguments], env=self._environment, stdout=log, stderr=log)

    def end(self) -> None:
        """Kill all of it."""
        for process in (*self.workers, self._scheduler):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster of so many workers, whose files lie in `folder`."""
    cluster = Cluster(folder)
    try:
        for _ in range(workers):
            cluster.add()
        cluster.ready()
        yield cluster
    finally:
        cluster.end()


def wait_until(true: Callable[[], bool]) -> None:
    """Return when it is; an error when it is not after a minute."""
    deadline = time.monotonic() + _START_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come to be")
        time.sleep(0.05)
