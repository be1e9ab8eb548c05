"""Tasks on the workers of a Dask cluster: one at a time for each of their threads, and each answered once.

A worker that dies costs nothing but time: Dask gives its task to another, as often as the scheduler's setting
`allowed-failures` has it (3). A task that takes far longer than the others did is started a second time on another worker;
the first answer counts, and the other attempt is ended. Dask is loaded here and nowhere else in a driver.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from analyzer import __version__
from analyzer.errors import ExitCode, KvpmError
from analyzer.fleet import cluster_worker
from analyzer.fleet.pool import Answer, Task
from analyzer.sources.remote import INSTALL

_CONNECT_S = 20
# How often one looks whether a task is late, and whether workers have come or gone.
_LOOK_S = 0.5
# A cluster that has had no worker for so long is taken to have been shut down.
_ALONE_S = 300.0
_FAREWELL_S = 5.0
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Patience:
    """When a task is late: after `factor` times as long as the slowest tenth of the others took, and `least_s` at least.

    Nothing is late before `finished` tasks are done.
    """

    factor: float = 4.0
    least_s: float = 60.0
    finished: int = 3


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One start of a task; `name` is its own on the cluster, `began` in seconds of the monotonic clock."""

    key: str
    name: str
    future: Any
    began: float


def run_all_on(
    address: str, tasks: Iterable[tuple[str, Task]], *, timeout: float | None = None, patience: Patience | None = None
) -> Generator[tuple[str, Answer], None, None]:
    """Answers of all (key, task) as they come from the cluster at `address`, as `analyzer.fleet.pool.run_all` gives them.

    An answer has also the `files` that were made, by their path. When the iterator is left early, what runs is ended.
    Raises KvpmError for a cluster that is not there, or has another kvpm.
    """
    client = _connected(address)
    try:
        _refuse_others(client, address)
        run = _Run(client, address, tasks, timeout, patience or Patience())
        try:
            yield from run.answers()
        finally:
            run.stop()
    finally:
        client.close(timeout=_FAREWELL_S)


def _connected(address: str) -> Any:
    try:
        import distributed
    except ImportError:
        raise KvpmError("a cluster needs Dask's distributed, which is not installed", hint=INSTALL) from None
    # what it has to say of a worker that went away is told here in other words
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        made: Any = distributed.Client
        client = made(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        hint = "for example --cluster tcp://HOST:8786, where `dask scheduler` runs"
        raise KvpmError(f"no Dask scheduler answers at {address}", hint=hint) from error
    try:
        client.wait_for_workers(1, timeout=_CONNECT_S)
    except TimeoutError as error:
        client.close(timeout=_FAREWELL_S)
        raise KvpmError(f"the cluster at {address} has no worker", hint=f"start some: dask worker {address}") from error
    return client


def _refuse_others(client: Any, address: str) -> None:
    """Workers that joined later are told apart by each task."""
    for worker, told in client.run(cluster_worker.version, on_error="return").items():
        if isinstance(told, BaseException):
            raise KvpmError(f"kvpm cannot be loaded on worker {worker}: {type(told).__name__}", hint="install kvpm on all workers")
        if told != __version__:
            raise KvpmError(f"worker {worker} has kvpm {told}, and this is {__version__}", hint="install the same version on all workers")


class _Run:
    """Tasks that wait, attempts that run, and how long those that ended took."""

    def __init__(self, client: Any, address: str, tasks: Iterable[tuple[str, Task]], timeout: float | None, patience: Patience) -> None:
        self._client, self._address, self._timeout, self._patience = client, address, timeout, patience
        self._tasks = dict(tasks)
        self._waiting = deque(self._tasks)
        self._running: dict[str, list[_Attempt]] = {}
        self._tries: dict[str, int] = {}
        self._numbers = {key: number for number, key in enumerate(self._tasks)}
        self._ended: queue.SimpleQueue[_Attempt] = queue.SimpleQueue()
        self._lasted: list[float] = []
        self._run = uuid.uuid4().hex[:8]
        self._threads: dict[str, int] = {}
        self._looked = self._seen = time.monotonic()

    def answers(self) -> Generator[tuple[str, Answer], None, None]:
        """Each task's answer once."""
        self._look(at_once=True)
        while self._waiting or self._running:
            self._look()
            self._start()
            try:
                attempt = self._ended.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            others = [a for a in self._running.get(attempt.key, ()) if a is not attempt]
            if attempt.key not in self._running or attempt not in self._running[attempt.key]:
                continue
            answer = self._answer(attempt, alone=not others)
            if answer is None:
                self._running[attempt.key] = others
                if not others:
                    del self._running[attempt.key]
                    self._waiting.append(attempt.key)
                continue
            del self._running[attempt.key], self._tasks[attempt.key]
            self._lasted.append(time.monotonic() - attempt.began)
            self._drop(others)
            yield attempt.key, answer

    def stop(self) -> None:
        """End what runs, and the processes that the workers keep for more."""
        self._drop([a for attempts in self._running.values() for a in attempts])
        self._on_workers(cluster_worker.end_idle)

    def _look(self, *, at_once: bool = False) -> None:
        """See which workers there are, and start late tasks once more where something is idle."""
        now = time.monotonic()
        if not at_once and now - self._looked < _LOOK_S:
            return
        self._looked = now
        try:
            self._threads = self._client.nthreads()
        except (OSError, TimeoutError, RuntimeError) as error:
            hint = "what is done is kept: run the same again"
            raise KvpmError(f"the scheduler at {self._address} went away", hint=hint, exit_code=ExitCode.INTERNAL) from error
        if self._threads:
            self._seen = now
        elif now - self._seen > _ALONE_S:
            hint = f"start some, and run the same again, which goes on where it was: dask worker {self._address}"
            raise KvpmError(f"the cluster at {self._address} has no worker any more", hint=hint, exit_code=ExitCode.INTERNAL)
        if not self._waiting:
            self._start_late(now)

    @property
    def _room(self) -> int:
        """Threads of workers that have nothing to do."""
        return sum(self._threads.values()) - sum(map(len, self._running.values()))

    def _start(self) -> None:
        while self._waiting and self._room > 0:
            key = self._waiting.popleft()
            self._running[key] = [self._attempt(key)]

    def _start_late(self, now: float) -> None:
        if len(self._lasted) < self._patience.finished or self._room <= 0:
            return
        usual = sorted(self._lasted)[int(0.9 * (len(self._lasted) - 1))]
        limit = max(self._patience.least_s, self._patience.factor * usual)
        late = [a[0] for a in self._running.values() if len(a) == 1 and now - a[0].began > limit]
        if not late:
            return
        has = {name: worker for worker, names in self._client.processing().items() for name in names}
        for attempt in late[: self._room]:
            elsewhere = [w for w in self._threads if w != has.get(attempt.name)]
            if elsewhere:
                self._running[attempt.key].append(self._attempt(attempt.key, elsewhere))

    def _attempt(self, key: str, workers: list[str] | None = None) -> _Attempt:
        self._tries[key] = self._tries.get(key, 0) + 1
        # what a user names goes into no key of the cluster's
        name = f"kvpm-{self._run}-{self._numbers[key]}-{self._tries[key]}"
        future = self._client.submit(
            cluster_worker.answered, name, self._tasks[key], __version__, self._timeout,
            key=name, pure=False, workers=workers, allow_other_workers=workers is not None,
        )  # fmt: skip
        attempt = _Attempt(key, name, future, time.monotonic())
        future.add_done_callback(lambda _future: self._ended.put(attempt))
        return attempt

    def _answer(self, attempt: _Attempt, *, alone: bool) -> Answer | None:
        """What came of an attempt; None where another one is to say."""
        again = not alone or self._tries[attempt.key] < _TRIES
        if attempt.future.status == "finished":
            answer: Answer = attempt.future.result()
            # a process that died may have been the only one to lack memory
            return None if again and ("died" in answer or ("timeout" in answer and not alone)) else answer
        if attempt.future.status == "error":
            error = attempt.future.exception()
            if type(error).__name__ == "KilledWorker":
                hint = "perhaps memory ran out: workers with more of it, or fewer threads each"
                return None if not alone else {"failed": ["each worker that had it died", hint, int(ExitCode.INTERNAL)]}
            told = f"{type(error).__name__} on a worker"
            return None if again else {"failed": [told, "see the workers' logs", int(ExitCode.INTERNAL)]}
        return None if again else {"failed": ["the cluster gave it up", "see the scheduler's log", int(ExitCode.INTERNAL)]}

    def _drop(self, attempts: list[_Attempt]) -> None:
        if not attempts:
            return
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            self._client.cancel([a.future for a in attempts], force=True)
        self._on_workers(cluster_worker.stop, [a.name for a in attempts])

    def _on_workers(self, function: Callable[..., None], *given: Any) -> None:
        """Have all workers do it. One that does not answer is not waited for."""

        def ask() -> None:
            with contextlib.suppress(Exception):
                self._client.run(function, *given, on_error="ignore")

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(_FAREWELL_S)
